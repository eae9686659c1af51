"""Values made from JSON Schemas, as far as the API's own description uses them: fitting ones, and others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def fitting(schema: dict[str, Any], components: dict[str, Any], known: dict[str, list[str]]) -> st.SearchStrategy[Any]:
    """Values that a schema allows; what is `known` for a property is tried as well."""

    def of(schema: dict[str, Any], name: str = "") -> st.SearchStrategy[Any]:
        made = plain(schema)
        return st.sampled_from(known[name]) | made if name in known else made

    def plain(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
        if "$ref" in schema:
            return of(components[schema["$ref"].rpartition("/")[2]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        if "anyOf" in schema:
            return st.one_of(*(of(one) for one in schema["anyOf"]))
        make = BY_TYPE.get(schema.get("type", ""))
        return ANYTHING if make is None else make(schema)

    def an_object(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
        properties = schema.get("properties")
        if properties is None:
            names = of({"type": "string", **schema.get("propertyNames", {})})
            values = schema.get("additionalProperties")
            return st.dictionaries(names, of(values) if isinstance(values, dict) else ANYTHING, max_size=3)
        required = set(schema.get("required", ()))
        parts = {name: of(one, name) for name, one in properties.items()}
        return st.fixed_dictionaries(
            {name: part for name, part in parts.items() if name in required},
            optional={name: part for name, part in parts.items() if name not in required},
        )

    def an_integer(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
        return st.integers(schema.get("minimum"), schema.get("maximum"))

    def an_array(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
        return st.lists(of(schema.get("items", {})), max_size=min(schema.get("maxItems", 3), 3))

    def a_string(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
        pattern = re.compile(schema.get("pattern", ""))
        if "=" in pattern.pattern:
            return st.from_regex(pattern).filter(lambda text: len(text) <= schema["maxLength"])
        texts = st.text(min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 30), 30))
        return texts.filter(lambda text: pattern.search(text) is not None)

    BY_TYPE: dict[str, Callable[[dict[str, Any]], st.SearchStrategy[Any]]] = {
        "array": an_array,
        "boolean": lambda _: st.booleans(),
        "integer": an_integer,
        "null": lambda _: st.none(),
        "object": an_object,
        "string": a_string,
    }
    return of(schema)
