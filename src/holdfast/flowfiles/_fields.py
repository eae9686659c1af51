"""Typed fields, variables and outputs alike: built from what was read, and values coerced to them."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._parts import Field, OutputField, Position, Variable
from holdfast.flowfiles._shapes import Fields, names_of

F = TypeVar("F", Variable, OutputField)
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1", "y"}), frozenset({"false", "no", "off", "0", "n"})


def read_variables(listed: list[tuple[Position, str, Fields | None]], report: Report) -> tuple[Variable, ...]:
    """The variables of `inputs` or `config`."""
    found = []
    for at, name, fields in listed:
        field = _field(Variable, name, at, fields, "str", report)
        if fields is not None and fields.get("sensitive"):
            field = replace(field, sensitive=True)
            if field.default not in (UNSET, None):
                message = f"{name} is sensitive, and its value stands in the file"
                report.error("sensitive-default", fields.place("default"), message, fix="remove the default")
        found.append(field)
    return tuple(found)


def read_outputs(
    listed: list[tuple[Position, Any]] | list[tuple[Position, str, Fields | None]] | str, at: Position, report: Report
) -> tuple[OutputField, ...]:
    """The outputs of a step: one name, a list of names, or names with types."""
    if isinstance(listed, str):
        return (OutputField(name=listed, at=at),)
    found = []
    for place, name, *rest in listed:
        found.append(_field(OutputField, name, place, rest[0] if rest else None, "any", report))
    return tuple(_once(found, report))


def _once(fields: list[OutputField], report: Report) -> list[OutputField]:
    kept: dict[str, OutputField] = {}
    for field in fields:
        if field.name in kept:
            report.error("duplicate-output", field.at, f"the output {field.name} is listed twice", fix="remove one")
        kept.setdefault(field.name, field)
    return list(kept.values())


def _field(
    cls: type[F], name: str, at: Position, fields: Fields | None, otherwise: Any, report: Report, **more: Any
) -> F:
    if fields is None:
        return cls(name=name, at=at, type=otherwise, **more)
    kind = fields.get("type", otherwise)
    _check_options(name, kind, fields, report)
    field = cls(
        name=name,
        at=at,
        type=kind,
        description=fields.get("description", ""),
        required=fields.get("required", "default" not in fields.values),
        example=fields.get("example", ""),
        options=names_of(fields.get("options", ())),
        min=fields.get("min"),
        max=fields.get("max"),
        **more,
    )
    return _with_default(field, fields, report)


def _check_options(name: str, kind: str, fields: Fields, report: Report) -> None:
    if kind == "choice" and not fields.get("options"):
        report.error("no-options", fields.at, f"{name} is a choice without options", fix="add options: [a, b]")
    if kind != "choice" and "options" in fields:
        report.error(
            "misplaced-key", fields.place("options"), f"options do not apply to {kind}", fix="use type: choice"
        )
    for key in ("min", "max"):
        if kind != "number" and key in fields:
            report.error("misplaced-key", fields.place(key), f"{key} does not apply to {kind}", fix="use type: number")
    low, high = fields.get("min"), fields.get("max")
    if low is not None and high is not None and low > high:
        report.error("bad-range", fields.place("max"), f"no number is at least {low:g} and at most {high:g}")


def _with_default(field: F, fields: Fields, report: Report) -> F:
    if "default" not in fields.values:
        return field
    try:
        return replace(field, default=coerce(field, fields.get("default")))
    except ValueError as error:
        report.error("bad-default", fields.place("default"), f"the default of {field.name}: {error}")
        return field


def coerce(field: Field, value: Any) -> Any:
    """A value as a field's type. Text is read as people type it. Raises ValueError that says what the field takes."""
    if value is None:
        if field.required:
            raise ValueError(f"{field.name} must not be null")
        return None
    if field.type == "any":
        return value
    return _COERCIONS[field.type](field, value)


def _text(field: Field, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ValueError(f"{field.name} is text, not {value!r:.60}")
    text = str(value)
    if field.type == "str" and "\n" in text.strip("\n"):
        raise ValueError(f"{field.name} is one line of text; type: text takes several")
    return text


def _number(field: Field, value: Any) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        number = float(value) if isinstance(value, float) or not _is_whole(value) else int(value)
        if not math.isfinite(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"{field.name} is a number, not {value!r:.60}") from None
    if (field.min is not None and number < field.min) or (field.max is not None and number > field.max):
        bounds = [f"at least {field.min:g}"] if field.min is not None else []
        bounds += [f"at most {field.max:g}"] if field.max is not None else []
        raise ValueError(f"{field.name} is {' and '.join(bounds)}, not {number:g}")
    return number


def _is_whole(value: str | float) -> bool:
    return isinstance(value, int) or (
        isinstance(value, str) and value.strip().lstrip("+-").isdecimal() and len(value) < 30
    )


def _bool(field: Field, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{field.name} is true or false, not {value!r:.60}")
    return word in _TRUE


def _choice(field: Field, value: Any) -> str:
    text = _text(field, value)
    if text not in field.options:
        raise ValueError(f"{field.name} is one of {', '.join(map(str, field.options))}, not {text!r:.60}")
    return text


def _of_type(kind: type, noun: str) -> Any:
    def check(field: Field, value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"{field.name} is {noun}, not {value!r:.60}")
        return value

    return check


_COERCIONS: dict[str, Any] = {
    "str": _text,
    "text": _text,
    "number": _number,
    "bool": _bool,
    "choice": _choice,
    "list": _of_type(list, "a list"),
    "object": _of_type(dict, "an object"),
}
