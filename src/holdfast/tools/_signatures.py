"""From a function's signature and docstring to the schema of its arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from holdfast.errors import ToolDefinitionError

_SECTION = re.compile(r"^\s*(args|arguments|parameters|returns?|raises|yields|examples?|notes?)\s*:\s*$", re.IGNORECASE)
_GOOGLE = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SPHINX = re.compile(r"^\s*:param\s+(?:\w+\s+)?(\w+)\s*:\s*(.*)$")
_FIELD = re.compile(r"^\s*:(param|type|returns?|rtype|raises)\b")


def arguments_of(function: Callable[..., Any], name: str) -> type[BaseModel]:
    """A model of the arguments. Raises ToolDefinitionError for those that a model cannot send by name."""
    _, described = read_docstring(inspect.getdoc(function) or "")
    hints = _hints(function, name)
    fields: dict[str, Any] = {}
    for parameter in _parameters(function, name):
        if parameter.name == "self":
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(
                f"tool {name}: {parameter} cannot be sent by name; give every argument a name of its own"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        field = Field(default, description=described.get(parameter.name))
        fields[parameter.name] = (hints.get(parameter.name, Any), field)
    return create_model(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError as error:  # some builtins have none
        raise ToolDefinitionError(f"tool {name}: {error}; wrap it in a function of your own") from error


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"tool {name}: a type hint cannot be resolved ({error}); import it where the tool is defined"
        ) from error


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function, and of each argument: Google's way or Sphinx's."""
    summary: list[str] = []
    described: dict[str, str] = {}
    section, argument = "", ""
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section, argument = heading[1].lower(), ""
        elif found := (_SPHINX.match(line) or (section.startswith(("arg", "param")) and _GOOGLE.match(line))):
            argument = found[1]
            described[argument] = found[2].strip()
        elif argument and line.strip() and not _FIELD.match(line):
            described[argument] += f" {line.strip()}"
        elif not section and not _FIELD.match(line):
            summary.append(line)
    return "\n".join(summary).strip(), described
