"""The fields of a state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from holdfast.deltas._kinds import dataclass_reader, is_model, model_reader
from holdfast.errors import UsageError

_readers: WeakKeyDictionary[type, Callable[[Any], dict[str, object]]] = WeakKeyDictionary()
"""Of models and dataclasses: finding out what fields one has is dearer than reading them."""


def fields_of(state: object) -> dict[str, object]:
    """The live values of a state's fields, by name, in a new dict.

    A pydantic model gives its fields and extras without private and excluded ones, a dataclass or a msgspec struct its
    fields, a dict its items. What is declared sensitive is withheld. Raises UsageError for anything else, and for a dict with a
    key that is not text.
    """
    kind = type(state)
    if (reader := _readers.get(kind)) is not None:
        return reader(state)
    if isinstance(state, dict):
        if strange := [key for key in state if not isinstance(key, str)]:
            raise UsageError(f"the fields of a state are named by text, not by {strange[0]!r}")
        return dict(state)
    if is_model(kind):
        reader = _readers[kind] = model_reader(kind)
        return reader(state)
    if isinstance(state, msgspec.Struct):
        values = {name: getattr(state, name) for name in state.__struct_fields__}
        return {name: value for name, value in values.items() if value is not msgspec.UNSET}
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        reader = _readers[kind] = dataclass_reader(kind)
        return reader(state)
    raise UsageError(f"a state is a pydantic model, a dataclass, a msgspec struct or a dict, not a {kind.__name__}")
