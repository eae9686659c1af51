"""Tools as plain data and back: by the name of their class or function, with their settings and how often they were used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError

from holdfast.errors import NotStorableError, StorageError, ToolDefinitionError
from holdfast.serde import to_plain
from holdfast.tools._base import BaseTool, FunctionTool
from holdfast.tools._classes import dump_class, load_class
from holdfast.tools._references import dump_reference, load_function, load_reference

NOT_THERE = "**********"
"""Stands where a secret is to be supplied."""


def dump_tool(tool: BaseTool, path: str = "$") -> dict[str, Any]:
    """A tool as plain data, without its secrets.

    Raises NotStorableError, naming the place below `path`, for a lambda, a local function or class, or a field that has
    no stored form.
    """
    if tool.not_stored:
        raise NotStorableError(path, type(tool).__name__, tool.not_stored)
    stored: dict[str, Any] = {"usage_count": tool.usage_count}
    if isinstance(tool, FunctionTool):
        stored["function"] = dump_reference(tool, f"{path}.func")
    else:
        stored["class"] = dump_reference(type(tool), path)
    secrets = [name for name in type(tool).model_fields if isinstance(getattr(tool, name), SecretStr | SecretBytes)]
    stored["fields"] = {
        name: dump_value(getattr(tool, name), f"{path}.{name}")
        for name in type(tool).model_fields
        if name not in secrets and not _is_given(tool, name)
    }
    if secrets:
        stored["secrets"] = secrets
    return stored


def _is_given(tool: BaseTool, name: str) -> bool:
    """Whether the class brings this value itself."""
    if name == "func":
        return True
    field = type(tool).model_fields[name]
    value = getattr(tool, name)
    default = field.get_default(call_default_factory=True, validated_data={})
    return not field.is_required() and type(default) is type(value) and bool(default == value)


def dump_value(value: Any, path: str) -> Any:
    """A field's value as plain data; a class by its schema, a function by its place. Raises NotStorableError."""
    if isinstance(value, type) and issubclass(value, BaseModel):
        return {"$class": dump_class(value, path)}
    if callable(value) and not isinstance(value, BaseModel):
        return {"$function": dump_reference(value, path)}
    try:
        plain = to_plain(value)
    except NotStorableError as error:
        hint = "store plain data made from it, or mark the field with exclude and make it anew"
        raise NotStorableError(f"{path}{error.path[1:]}", error.type_name, hint) from error
    is_mistakable = isinstance(plain, dict) and len(plain) == 1 and next(iter(plain)).startswith("$")
    return {"$plain": plain} if is_mistakable else plain


def load_tool(stored: dict[str, Any], secrets: Mapping[str, str] | None = None) -> BaseTool:
    """The tool that `dump_tool` described, of its own class. Only what this program has imported is found.

    `secrets` gives its secret fields again, by field or by `tool.field`. What is not there is in its `missing_secrets`: it must be
    supplied before the tool is used. Raises StorageError for a tool that cannot be made.
    """
    try:
        fields = {name: load_value(value) for name, value in stored["fields"].items()}
        names = _secret_names(stored, fields)
        given = secrets or {}
        found = {field: given.get(name, given.get(field)) for field, name in names.items()}
        fields |= {field: NOT_THERE if secret is None else secret for field, secret in found.items()}
        tool = _make(stored, fields)
        tool._usage.used = stored["usage_count"]
        tool._missing = {field: name for field, name in names.items() if found[field] is None}
    except (KeyError, AttributeError, ValidationError, ToolDefinitionError) as error:
        raise StorageError(f"this stored tool cannot be made again: {error}") from error
    return tool


def _make(stored: dict[str, Any], fields: dict[str, Any]) -> BaseTool:
    if "function" in stored:
        return FunctionTool(func=load_function(stored["function"]), **fields)
    found = load_reference(stored["class"])
    if not (isinstance(found, type) and issubclass(found, BaseTool)):
        raise StorageError(f"{stored['class']} is no tool")
    return found(**fields)


def load_value(value: Any) -> Any:
    """What `dump_value` described."""
    if isinstance(value, dict) and len(value) == 1:
        if "$class" in value:
            return load_class(value["$class"])
        if "$function" in value:
            return load_function(value["$function"])
        if "$plain" in value:
            return value["$plain"]
    return value


def _secret_names(stored: dict[str, Any], fields: dict[str, Any]) -> dict[str, str]:
    """The secret fields of a stored tool, with what their secrets are called: `tool.field`."""
    name = fields.get("name") or stored.get("class", "").rpartition(":")[2]
    return {field: f"{name}.{field}" for field in stored.get("secrets", ())}
