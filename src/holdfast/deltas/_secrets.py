"""Values that are never stored: secrets by their type (`SecretStr`), and fields that are declared sensitive.

What is stored in their place is a `Withheld`. Whoever takes a state up again puts the values back with `reveal`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import Struct


class Withheld(Struct, frozen=True):
    """Stands for a value that is not stored."""

    def __repr__(self) -> str:
        return "<secret>"


class Sensitive(Struct, frozen=True):
    """Marks a field: `token: Annotated[str, sensitive]`."""


WITHHELD = Withheld()
sensitive = Sensitive()


def is_secret(kind: type) -> bool:
    """Whether values of this kind hide what they hold, as pydantic's `SecretStr` does."""
    return hasattr(kind, "get_secret_value")


def sensitive_fields(kind: Any) -> frozenset[str]:
    """The fields of a model or a dataclass that are declared sensitive: by `sensitive`, or by `{"sensitive": True}` in
    pydantic's `json_schema_extra` or a dataclass field's `metadata`."""
    if dataclasses.is_dataclass(kind):
        noted = {field.name for field in dataclasses.fields(kind) if field.metadata.get("sensitive")}
        return frozenset(noted | _annotated(kind))
    return frozenset(name for name, field in getattr(kind, "model_fields", {}).items() if _is_marked(field))


def _is_marked(field: Any) -> bool:
    extra = getattr(field, "json_schema_extra", None)
    by_extra = isinstance(extra, dict) and bool(extra.get("sensitive"))
    return by_extra or any(isinstance(item, Sensitive) for item in getattr(field, "metadata", ()))


def _annotated(kind: Any) -> set[str]:
    try:
        hints = get_type_hints(kind, include_extras=True)
    except (NameError, TypeError):  # an annotation that only a type checker can see
        return set()
    return {
        name
        for name, hint in hints.items()
        if get_origin(hint) is Annotated and any(isinstance(item, Sensitive) for item in get_args(hint)[1:])
    }


def reveal(plain: Any, value_at: Callable[[str], Any], path: str = "") -> Any:
    """A plain value with what was withheld put back: `value_at("llm.api_key")` gives it, or WITHHELD if it cannot."""
    if isinstance(plain, Withheld):
        return value_at(path)
    if isinstance(plain, dict):
        return {key: reveal(item, value_at, f"{path}.{key}" if path else str(key)) for key, item in plain.items()}
    if isinstance(plain, list | tuple):
        items = (reveal(item, value_at, f"{path}.{index}") for index, item in enumerate(plain))
        return type(plain)(items)
    return plain


def withheld_in(plain: Any) -> list[str]:
    """Where something is withheld."""
    found: list[str] = []

    def note(path: str) -> Withheld:
        found.append(path)
        return WITHHELD

    reveal(plain, note)
    return found


def live_value(state: Any, path: str) -> Any:
    """What a live state has at a path; WITHHELD if there is nothing."""
    for part in path.split("."):
        if isinstance(state, dict):
            state = state.get(part, WITHHELD)
        elif isinstance(state, list | tuple):
            state = state[int(part)] if part.isdigit() and int(part) < len(state) else WITHHELD
        else:
            state = getattr(state, part, WITHHELD)
    return state
