"""What a value is to a delta: an atom, a container, a thing with fields, or something that can only be dumped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from inspect import getattr_static
from operator import attrgetter
from pathlib import PurePath
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

import msgspec

from holdfast import serde
from holdfast.deltas._secrets import Withheld, is_secret, sensitive_fields, withheld
from holdfast.errors import NotStorableError

ATOMS = frozenset({str, int, float, bool, type(None), bytes, datetime, date, time, timedelta, Decimal, UUID, Withheld})
"""Types of immutable values that are shared as they are."""

ZONED = frozenset({datetime, time})
"""Atoms that may carry a zone, which is stored as its offset."""

_CONTAINERS = (dict, list, tuple, set, frozenset)
_SERIALIZERS = frozenset({"PlainSerializer", "WrapSerializer", "SerializeAsAny"})


class Refusal(Exception):
    """A value cannot be stored; the walk back up adds where it sits, and its boundary makes a NotStorableError of it."""

    def __init__(self, kind: str, hint: str = "", below: str = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.hint = hint
        self.below = below
        self.parts: list[object] = []


class Reading:
    """How a kind of object is seen as a builtin container.

    `read` gives exactly what is stored; `glance` may show more, but equals `read` whenever it equals the kept copy.
    """

    __slots__ = ("glance", "keyed", "read")

    def __init__(self, read: Callable[[Any], Any], glance: Callable[[Any], Any] | None = None, *, keyed: bool) -> None:
        self.read = read
        self.glance = glance or read
        self.keyed = keyed
        """Its keys are names of fields: their order says nothing."""


def is_leaf(kind: type) -> bool:
    """Whether values of this kind are immutable and stand for one plain value."""
    return kind in ATOMS or issubclass(kind, Enum | PurePath)


_known: WeakKeyDictionary[type, Reading] = WeakKeyDictionary()


def reading_of(kind: type) -> Reading:
    """How to read objects of this kind, which is neither a leaf nor exactly a builtin container."""
    reading = _known.get(kind)
    if reading is None:
        reading = _known[kind] = _find_reading(kind)
    return reading


def _find_reading(kind: type) -> Reading:
    if is_secret(kind):
        return Reading(withheld, keyed=False)
    if issubclass(kind, msgspec.Struct):
        return _dumped() if kind.__struct_config__.array_like else _struct(kind)
    if is_model(kind):
        return Reading(_dump_model, keyed=False) if _has_own_form(kind) else _model(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    for base in _CONTAINERS:
        if issubclass(kind, base):
            return Reading(base, keyed=False)
    return _dumped()


def is_model(kind: type) -> bool:
    """Whether this is a pydantic model, which is not imported here."""
    return isinstance(getattr(kind, "model_fields", None), dict) and hasattr(kind, "model_dump")


def model_reader(kind: Any) -> Callable[[Any], dict[str, object]]:
    """Make what reads a model's fields and extras, but neither private nor excluded ones. Sensitive ones are withheld."""
    names = [name for name, field in kind.model_fields.items() if not getattr(field, "exclude", None)]
    hidden, bare = sensitive_fields(kind), _is_bare(kind)

    def read(model: Any) -> dict[str, object]:
        present: dict[str, object] = model.__dict__.copy()
        if bare and [*present] == names:  # as nearly always, and several times as fast
            return present
        fields = {name: present[name] for name in names if name in present}
        if hidden:
            withhold(fields, hidden)
        return fields | (getattr(model, "__pydantic_extra__", None) or {})

    return read


def withhold(fields: dict[str, object], hidden: frozenset[str]) -> None:
    """Take out what is not to be stored. That there is nothing is no secret."""
    for name in hidden:
        value = fields.get(name)
        if value is not None and not (isinstance(value, _CONTAINERS) and not value):
            fields[name] = withheld(value)


def _has_own_form(kind: Any) -> bool:
    """Whether a model decides itself how it is written, so that its fields do not tell."""
    if getattr(kind, "__pydantic_root_model__", False):
        return True
    decorators = getattr(kind, "__pydantic_decorators__", None)
    if any(getattr(decorators, name, None) for name in ("field_serializers", "model_serializers")):
        return True
    metadata = [item for field in kind.model_fields.values() for item in getattr(field, "metadata", ())]
    return any(type(item).__name__ in _SERIALIZERS for item in metadata)


def _is_bare(kind: Any) -> bool:
    """Whether all that a model has in its `__dict__` is stored, but for what is there beside its fields."""
    excluded = any(getattr(field, "exclude", None) for field in kind.model_fields.values())
    open_ended = getattr(kind, "model_config", {}).get("extra") == "allow"
    return not excluded and not open_ended and not sensitive_fields(kind)


def _model(kind: Any) -> Reading:
    return Reading(model_reader(kind), attrgetter("__dict__") if _is_bare(kind) else None, keyed=True)


def struct_reader(kind: type[msgspec.Struct]) -> Callable[[Any], dict[str, object]]:
    """Make what reads a struct's fields, by their own names. Sensitive ones are withheld."""
    hidden = sensitive_fields(kind)

    def read(struct: msgspec.Struct) -> dict[str, object]:
        values = ((name, getattr(struct, name)) for name in kind.__struct_fields__)
        fields = {name: value for name, value in values if value is not msgspec.UNSET}
        if hidden:
            withhold(fields, hidden)
        return fields

    return read


def _struct(kind: type[msgspec.Struct]) -> Reading:
    names = tuple(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    config = kind.__struct_config__
    tagged: dict[str, Any] = {} if config.tag is None else {str(config.tag_field): config.tag}

    hidden = sensitive_fields(kind)
    hidden_as = frozenset(stored for stored, name in names if name in hidden)

    def read(struct: msgspec.Struct) -> dict[str, object]:
        values = ((stored, getattr(struct, name)) for stored, name in names)
        fields = {stored: value for stored, value in values if value is not msgspec.UNSET}
        if hidden_as:
            withhold(fields, hidden_as)
        return tagged | fields

    as_named = not tagged and not hidden and kind.__struct_fields__ == kind.__struct_encode_fields__
    return Reading(read, msgspec.structs.asdict if as_named else None, keyed=True)


def _dataclass(kind: Any) -> Reading:
    read, hidden = dataclass_reader(kind), sensitive_fields(kind)
    return Reading(read, attrgetter("__dict__") if kind.__dictoffset__ and not hidden else None, keyed=True)


def dataclass_reader(kind: Any) -> Callable[[Any], dict[str, object]]:
    """Make what reads a dataclass's fields. Sensitive ones are withheld."""
    names, hidden = [field.name for field in dataclasses.fields(kind)], sensitive_fields(kind)
    bare = not hidden and _keeps_in_dict(kind, names)

    def read(instance: object) -> dict[str, object]:
        if bare and [*(present := instance.__dict__.copy())] == names:  # as nearly always, and several times as fast
            return present
        fields = {name: getattr(instance, name) for name in names if hasattr(instance, name)}
        if hidden:
            withhold(fields, hidden)
        return fields

    return read


def _keeps_in_dict(kind: Any, names: Iterable[str]) -> bool:
    """Whether these attributes are what `__dict__` has under their names: no descriptor, nor the class, decides that."""
    described = any(hasattr(getattr_static(kind, name, None), "__set__") for name in names)
    return bool(kind.__dictoffset__) and not described and kind.__getattribute__ is object.__getattribute__


def _dumped() -> Reading:
    return Reading(_dump, keyed=False)


def _dump_model(model: object) -> Any:
    return _without_secrets(model, _dump(model))


def _without_secrets(live: Any, dumped: Any) -> Any:
    """What was dumped, without its secrets and what was computed: a dump has what is marked, and asterisks that would come back as
    the secret; and a model may refuse what it computes itself."""
    kind = type(live)
    if is_secret(kind):
        return withheld(live)
    if getattr(kind, "__pydantic_root_model__", False):
        return _without_secrets(live.root, dumped)
    if isinstance(dumped, dict):
        items = live if isinstance(live, dict) else {name: getattr(live, name, None) for name in dumped}
        computed = getattr(getattr(kind, "__pydantic_decorators__", None), "computed_fields", {})
        fields = {
            name: _without_secrets(items.get(name), item) for name, item in dumped.items() if name not in computed
        }
        hidden = sensitive_fields(kind) & fields.keys()
        fields.update((name, items.get(name)) for name in hidden)  # what was dumped may be asterisks of its own
        withhold(fields, hidden)
        return fields
    if isinstance(dumped, list | tuple) and isinstance(live, list | tuple) and len(dumped) == len(live):
        return type(dumped)(map(_without_secrets, live, dumped))
    return dumped


def _dump(value: object) -> Any:
    """What serde makes of a value. It is compared as such, so that a change inside it is seen."""
    if isinstance(value, bytearray | memoryview):
        raise Refusal(type(value).__name__, "it can change unseen: store bytes")
    try:
        return serde.to_plain(value)
    except NotStorableError as error:
        raise Refusal(error.type_name, below=error.path[1:]) from error
    except RecursionError as error:
        raise Refusal(type(value).__name__, "it contains itself") from error
