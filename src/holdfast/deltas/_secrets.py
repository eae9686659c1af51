"""Values that are never stored: secrets by their type (`SecretStr`), and fields that are declared sensitive.

What is stored in their place is a `Withheld`. Whoever takes a state up again puts the values back with `reveal`; the process that
withheld them still has them, and `unveil` gives them back.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_type_hints
from weakref import WeakKeyDictionary

from msgspec import UNSET, Struct


class Withheld:
    """Stands for a value that is not stored. No struct: what it holds is not to be encoded by whoever meets one."""

    __slots__ = ("token", "value")

    def __init__(self, token: int = 0, value: Any = UNSET) -> None:
        self.token = token
        """tells the values of a process apart, so that a change of one is seen; not stored either"""
        self.value = value
        """what it stands for, in the process that withheld it"""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Withheld) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)

    def __deepcopy__(self, memo: object) -> Withheld:
        return self

    def __repr__(self) -> str:
        return "<secret>"


class Sensitive(Struct, frozen=True):
    """Marks a field: `token: Annotated[str, sensitive]`."""


WITHHELD = Withheld()
sensitive = Sensitive()


def is_secret(kind: type) -> bool:
    """Whether values of this kind hide what they hold, as pydantic's `SecretStr` does."""
    return hasattr(kind, "get_secret_value")


def withheld(value: Any) -> Withheld:
    """What stands for a value."""
    if isinstance(value, Withheld):
        return value
    secret = value.get_secret_value() if is_secret(type(value)) else value
    try:
        return Withheld(hash(secret), value)
    except TypeError:  # a list or the like
        return Withheld(hash(repr(secret)), _own(value))


def unveil(plain: Any) -> Any:
    """A copy of a plain value with what this process withheld put back. What came from storage stays a Withheld."""
    if isinstance(plain, Withheld):
        return plain if plain.value is UNSET else _own(plain.value)
    if isinstance(plain, dict):
        return {key: unveil(item) for key, item in plain.items()}
    if isinstance(plain, list | tuple):
        return type(plain)(map(unveil, plain))
    return copy.copy(plain)


def _own(value: Any) -> Any:
    """The value, copied if it can change unseen and can be copied."""
    try:
        hash(value)
    except TypeError:  # a list or the like
        try:
            return copy.deepcopy(value)
        except Exception:  # it holds a connection, a lock, whatever
            return value
    return value


def sensitive_fields(kind: Any) -> frozenset[str]:
    """The fields of a model, a dataclass or a struct that are declared sensitive: by `sensitive`, anywhere in their annotation, or
    by `{"sensitive": True}` in pydantic's `json_schema_extra` or a dataclass field's `metadata`."""
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = frozenset(_find_sensitive(kind))
    return found


_known: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()


def _find_sensitive(kind: Any) -> Iterator[str]:
    if isinstance(fields := getattr(kind, "model_fields", None), dict):
        yield from (name for name, field in fields.items() if _is_marked(field))
    elif dataclasses.is_dataclass(kind):
        yield from (field.name for field in dataclasses.fields(kind) if field.metadata.get("sensitive"))
        yield from _annotated(kind)
    elif hasattr(kind, "__struct_fields__"):
        yield from _annotated(kind)


def _is_marked(field: Any) -> bool:
    extra = getattr(field, "json_schema_extra", None)
    by_extra = isinstance(extra, dict) and bool(extra.get("sensitive"))
    return by_extra or any(map(_says_so, (*getattr(field, "metadata", ()), getattr(field, "annotation", None))))


def _annotated(kind: Any) -> Iterator[str]:
    hints = {
        name: _resolved(base, name, hint)
        for base in reversed(kind.__mro__)
        for name, hint in vars(base).get("__annotations__", {}).items()
    }
    yield from (name for name, hint in hints.items() if _says_so(hint))


def _resolved(kind: type, name: str, hint: Any) -> Any:
    """An annotation, by itself: that only a type checker can see one does not make another one invisible."""
    hint = getattr(hint, "__forward_arg__", hint)
    if not isinstance(hint, str):
        return hint
    alone = type(kind.__name__, (), {"__annotations__": {name: hint}, "__module__": kind.__module__})
    try:
        return get_type_hints(alone, include_extras=True)[name]
    except (NameError, TypeError, AttributeError):  # it cannot be known, so its words count
        return sensitive if re.search(r"\bsensitive\b", hint) else None


def _says_so(hint: Any) -> bool:
    """Whether the mark is in an annotation: `Annotated[str, sensitive] | None` hides the field, and so does a list of such."""
    if isinstance(hint, Sensitive):
        return True
    inside = get_args(hint)
    if hasattr(hint, "__total__") or hasattr(hint, "_fields"):  # of a TypedDict or a NamedTuple the value does not tell
        inside = tuple(_resolved(hint, *item) for item in hint.__annotations__.items())
    return any(map(_says_so, inside))


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
