"""The fields of a state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from holdfast.deltas._kinds import dataclass_reader, is_model, model_reader, struct_reader
from holdfast.errors import UsageError

Reader: TypeAlias = Callable[[Any], dict[str, object]]
"""Gives the live values of the fields of one kind of state, by name, in a new dict."""

_readers: WeakKeyDictionary[type, Reader] = WeakKeyDictionary()
"""Finding out what fields a kind of state has is dearer than reading them."""

_TEXT = frozenset({str})


def fields_of(state: object) -> dict[str, object]:
    """The live values of a state's fields, by name, in a new dict.

    A pydantic model gives its fields and extras without private and excluded ones, a dataclass or a msgspec struct its
    fields, a dict its items. What is declared sensitive is withheld. Raises UsageError for anything else, and for a dict with a
    key that is not text.
    """
    return reader_of(type(state))(state)


def reader_of(kind: type) -> Reader:
    """What `fields_of` does with a state of this kind, for those who ask again and again. Raises UsageError if it is none."""
    reader = _readers.get(kind)
    if reader is None:
        reader = _readers[kind] = _find_reader(kind)
    return reader


def _find_reader(kind: type) -> Reader:
    if issubclass(kind, dict):
        return _read_dict
    if is_model(kind):
        return model_reader(kind)
    if issubclass(kind, msgspec.Struct):
        return struct_reader(kind)
    if dataclasses.is_dataclass(kind):
        return dataclass_reader(kind)
    raise UsageError(f"a state is a pydantic model, a dataclass, a msgspec struct or a dict, not a {kind.__name__}")


def _read_dict(state: dict[Any, object]) -> dict[str, object]:
    if not _TEXT.issuperset(map(type, state)) and (strange := [key for key in state if not isinstance(key, str)]):
        raise UsageError(f"the fields of a state are named by text, not by {strange[0]!r}")
    return dict(state)
