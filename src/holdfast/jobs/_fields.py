"""Typed values: whether one fits a field, and what someone's answer is taken to mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET

from holdfast.errors import JobStepError
from holdfast.flowfiles import Field, coerce


def check_fields(fields: tuple[Field, ...], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with defaults for what is missing. Raises JobStepError, category `output`, for what is not as declared."""
    checked = dict(values)
    for field in fields:
        if field.name not in checked:
            if field.default is not UNSET:
                checked[field.name] = field.default
            elif field.required:
                gave = ", ".join(values) or "nothing"
                raise JobStepError(f"output {field.name} is missing; the step gave {gave}", category="output")
            else:
                checked[field.name] = None
        elif (problem := problem_with(field, checked[field.name])) != "":
            raise JobStepError(f"output {field.name} {problem}", category="output")
    return checked


def coerce_fields(fields: tuple[Field, ...], values: Mapping[str, Any]) -> dict[str, Any]:
    """What someone's answer means: text is taken for what the field wants, as far as it can be. Raises as `check_fields` does."""
    by_name = {field.name: field for field in fields}
    meant = {name: _meant(by_name[name], value) if name in by_name else value for name, value in values.items()}
    unknown = [name for name in meant if name not in by_name]
    if fields and unknown:
        known = ", ".join(by_name)
        raise JobStepError(f"nobody asked for {', '.join(unknown)}; the form has {known}", category="output")
    return check_fields(fields, meant)


def problem_with(field: Field, value: Any) -> str:
    """Why a value does not fit a field, in words; empty if it does."""
    if value is None:
        return "is null, and it is required" if field.required and field.type != "any" else ""
    wanted = _KINDS.get(field.type)
    if wanted is not None and (not isinstance(value, wanted) or (field.type == "number" and isinstance(value, bool))):
        return f"is {_shown(value)}, and a {field.type} is wanted"
    if field.type == "number" and not math.isfinite(value):
        return "is not a finite number"
    if field.type == "choice" and value not in field.options:
        return f"is {_shown(value)}, and may be {', '.join(map(str, field.options))}"
    if field.type == "number" and field.min is not None and value < field.min:
        return f"is {value}, and must be at least {field.min:g}"
    if field.type == "number" and field.max is not None and value > field.max:
        return f"is {value}, and must be at most {field.max:g}"
    return ""


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "text": (str,),
    "number": (int, float),
    "bool": (bool,),
    "list": (list,),
    "object": (dict,),
}


def _meant(field: Field, value: Any) -> Any:
    """What someone typed, as the field's type. Raises JobStepError."""
    if isinstance(value, str) and field.type in ("list", "object"):
        with suppress(msgspec.DecodeError):  # what it is then is said by `coerce`
            value = msgspec.json.decode(value)
    try:
        return coerce(field, value)
    except ValueError as error:
        raise JobStepError(str(error), category="output") from error


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    kind = {str: "text", dict: "an object", list: "a list", bool: "a boolean"}.get(type(value), "a number")
    return f"{kind} ({text[:60]!r})" if isinstance(value, str) else f"{kind} ({text[:60]})"
