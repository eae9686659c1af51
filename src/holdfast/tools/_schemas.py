"""A pydantic class made from a JSON Schema, as pydantic writes them."""

from __future__ import annotations

import copy
import datetime as dt
import functools
import operator
from decimal import Decimal
from typing import Annotated, Any, ForwardRef, Literal, Union
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, create_model

Schema = dict[str, Any]

_PLAIN: dict[str, Any] = {"integer": int, "number": float, "boolean": bool, "null": None, "string": str}
_FORMATS: dict[str, Any] = {
    "date-time": dt.datetime,
    "date": dt.date,
    "time": dt.time,
    "duration": dt.timedelta,
    "uuid": UUID,
    "decimal": Decimal,
}
_BOUNDS = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
}
_DEFINITIONS = "#/$defs/"


def build_class(schema: Schema) -> type[BaseModel]:
    """A class with the fields of an object's schema, whose own schema is that one. Raises ValueError for anything else."""
    known = _with_definitions(schema.get("$defs", {}))
    made: type[BaseModel]
    if "$ref" in schema:  # a class that contains itself is written so
        made = known[schema["$ref"].removeprefix(_DEFINITIONS)]
    elif schema.get("type") == "object":
        made = _make_object(schema, schema.get("title", "Stored"))
        made.model_rebuild(_types_namespace=known)
    else:
        raise ValueError(f"a class needs the schema of an object, not of {schema.get('type')!r}")

    def model_json_schema(cls: type[BaseModel], *_: Any, **__: Any) -> Schema:
        return copy.deepcopy(schema)

    made.model_json_schema = classmethod(model_json_schema)  # type: ignore[assignment, method-assign]
    return made


def _with_definitions(definitions: dict[str, Schema]) -> dict[str, Any]:
    """The types that others refer to by name, which may refer to one another."""
    known: dict[str, Any] = {
        name: _make_object(schema, name) if "properties" in schema else _type_of(schema)
        for name, schema in definitions.items()
    }
    for made in known.values():
        if isinstance(made, type) and issubclass(made, BaseModel):
            made.model_rebuild(_types_namespace=known)
    return known


def _make_object(schema: Schema, name: str) -> type[BaseModel]:
    required = set(schema.get("required", ()))
    fields: dict[str, Any] = {
        key: (_type_of(inner), _field(inner, key in required)) for key, inner in schema.get("properties", {}).items()
    }
    extra: Any = {False: "forbid", True: "allow"}.get(schema.get("additionalProperties", ""), "ignore")
    return create_model(name, __config__=ConfigDict(extra=extra), __doc__=schema.get("description"), **fields)


def _field(schema: Schema, is_required: bool) -> Any:
    told = {key: schema[key] for key in ("description", "title") if key in schema}
    return Field(... if is_required else schema.get("default"), **told)


def _type_of(schema: Schema) -> Any:
    if "$ref" in schema:
        return ForwardRef(schema["$ref"].removeprefix(_DEFINITIONS))
    if "const" in schema:
        return Literal[schema["const"]]
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return Union[tuple(_type_of(choice) for choice in choices)]  # noqa: UP007 - made from a list
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return _type_of(schema["allOf"][0])
    return _bounded(schema, _bare_type_of(schema))


def _bare_type_of(schema: Schema) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        return functools.reduce(operator.or_, (_type_of({**schema, "type": one}) for one in kind))
    if kind == "array":
        return _array_of(schema)
    if kind == "object":
        return _object_of(schema)
    if kind == "string":
        return _FORMATS.get(schema.get("format", ""), str)
    return _PLAIN.get(kind, Any) if kind is not None else Any


def _array_of(schema: Schema) -> Any:
    if "prefixItems" in schema:
        return tuple[tuple(_type_of(item) for item in schema["prefixItems"])]  # type: ignore[misc]
    inner = _type_of(schema["items"]) if schema.get("items") else Any
    return set[inner] if schema.get("uniqueItems") else list[inner]  # type: ignore[valid-type]


def _object_of(schema: Schema) -> Any:
    if "properties" in schema:
        return _make_object(schema, schema.get("title", "Inner"))
    values = schema.get("additionalProperties")
    return dict[str, _type_of(values)] if isinstance(values, dict) else dict[str, Any]  # type: ignore[misc]


def _bounded(schema: Schema, bare: Any) -> Any:
    bounds = {ours: schema[theirs] for theirs, ours in _BOUNDS.items() if theirs in schema}
    if not bounds or "prefixItems" in schema or bare is Any:
        return bare
    return Annotated[bare, Field(**bounds)]
