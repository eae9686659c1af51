"""A copy of the containers of a value, which shares its leaves; and the plain form of such a copy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import datetime, time, timezone
from decimal import Decimal
from typing import Any

from holdfast import serde
from holdfast.deltas._kinds import ATOMS, ZONED, Reading, Refusal, is_leaf, reading_of
from holdfast.deltas._paths import Path, locate
from holdfast.errors import NotStorableError

MAX_DEPTH = 100
PLAIN_ATOMS = ATOMS - ZONED
_TEXT = frozenset({str})
_FLAT = frozenset({list, dict})
_SAFE = ATOMS - {float, Decimal}  # no NaN, and different members have different plain forms


class Node:
    """The copy of an object that is not exactly a builtin container: what its reading gives, copied.

    It compares itself with a live object without asking that object's `__eq__`, which may look at an id only. For that
    it has to be on the left: always write `copy == live`.
    """

    __slots__ = ("kind", "reading", "shape")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, kind: type, reading: Reading, shape: Any) -> None:
        self.kind = kind
        self.reading = reading
        self.shape = shape

    def __eq__(self, live: object) -> bool:
        return type(live) is self.kind and self.shape == self.reading.glance(live)

    def reshape(self, shape: Any) -> None:
        """Take another copy."""
        self.shape = shape


def copy(value: object, path: Path = ()) -> Any:
    """Copy the containers of a live value that sits at `path`.

    Raises NotStorableError, naming the path, when something in it cannot be stored.
    """
    try:
        return _Copier(len(path)).copy(value)
    except Refusal as refusal:
        raise refused(refusal, path) from refusal.__cause__


def plain_of(value: object, path: Path = ()) -> Any:
    """The plain form of a live value that sits at `path`. Raises NotStorableError as `copy` does."""
    return value if type(value) in PLAIN_ATOMS else strip(copy(value, path))


def check_keys(mapping: dict[Any, Any], path: Path) -> None:
    """Refuse a dict at `path` whose keys would not come back as they are, with a NotStorableError."""
    if not _TEXT.issuperset(map(type, mapping)):
        try:
            _check_members(mapping, "key")
        except Refusal as refusal:
            raise refused(refusal, path) from refusal.__cause__


def refused(refusal: Refusal, path: Path) -> NotStorableError:
    """Make the error of a refusal somewhere below `path`."""
    where = locate((*path, *reversed(refusal.parts))) + refusal.below
    return NotStorableError(where, refusal.kind, refusal.hint)


class _Copier:
    """One walk down; it remembers which containers it is inside of."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._inside: set[int] = set()

    def _check_depth(self, kind: type) -> None:
        if len(self._inside) + self._depth > MAX_DEPTH:
            raise Refusal(kind.__name__, f"it is nested more than {MAX_DEPTH} deep")

    def copy(self, value: Any) -> Any:
        kind = type(value)
        if kind in ATOMS:
            return value
        if kind in _FLAT and _holds_atoms(value):
            self._check_depth(kind)
            return value.copy()
        copier = _COPIERS.get(kind)
        if copier is None and is_leaf(kind):
            _plain_leaf(value)  # an enum may have a value that cannot be stored
            return value
        if id(value) in self._inside:
            raise Refusal(kind.__name__, "it contains itself; keep an id instead of the object")
        self._check_depth(kind)
        self._inside.add(id(value))
        result = copier(self, value) if copier else self._node(kind, value)
        self._inside.discard(id(value))
        return result

    def _node(self, kind: type, value: object) -> Node:
        reading = reading_of(kind)
        shape = reading.read(value)
        copier = _COPIERS.get(type(shape))  # not `copy`: the object and what its reading gives are one level
        return Node(kind, reading, copier(self, shape) if copier else self.copy(shape))

    def _list(self, value: list[Any]) -> list[Any]:
        return self._items(value)

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        items = self._items(value)
        return value if all(map(_is, items, value)) else tuple(items)

    def _items(self, value: Iterable[Any]) -> list[Any]:
        items: list[Any] = []
        for item in value:
            try:
                items.append(self.copy(item))
            except Refusal as refusal:
                refusal.parts.append(len(items))
                raise
        return items

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        if not _TEXT.issuperset(map(type, value)):
            _check_members(value, "key")
        items: dict[Any, Any] = {}
        for key, item in value.items():
            try:
                items[key] = self.copy(item)
            except Refusal as refusal:
                refusal.parts.append(strip(key))
                raise
        return items

    def _set(self, value: set[Any]) -> set[Any]:
        _check_members(value, "member")
        return value.copy()

    def _frozenset(self, value: frozenset[Any]) -> frozenset[Any]:
        _check_members(value, "member")
        return value


_COPIERS: dict[type, Callable[[_Copier, Any], Any]] = {
    list: _Copier._list,
    tuple: _Copier._tuple,
    dict: _Copier._dict,
    set: _Copier._set,
    frozenset: _Copier._frozenset,
}


def _holds_atoms(value: Any) -> bool:
    """Whether a list, or a dict with text for keys, holds nothing but atoms."""
    if type(value) is list:
        return ATOMS.issuperset(map(type, value))
    return ATOMS.issuperset(map(type, value.values())) and _TEXT.issuperset(map(type, value))


def _is(one: object, other: object) -> bool:
    return one is other


def _check_members(members: Iterable[Any], role: str) -> None:
    """Refuse keys, or members of a set, that would not come back as they are."""
    if _SAFE.issuperset(map(type, members)):
        return
    plain: set[Hashable] = set()
    for member in members:
        form = _plain_member(member, role)
        if form in plain:
            raise Refusal(type(member).__name__, f"another {role} has the same plain form, {form!r}")
        plain.add(form)


def _plain_member(member: Any, role: str) -> Hashable:
    kind = type(member)
    if is_leaf(kind):
        form: Hashable = strip(member)
        if form != form:
            raise Refusal(kind.__name__, f"NaN as a {role} cannot be found again")
        if type(form) in ATOMS:
            return form
    elif issubclass(kind, tuple):
        return tuple(_plain_member(item, role) for item in member)
    elif issubclass(kind, frozenset):
        _check_members(member, role)
        return frozenset(_plain_member(item, role) for item in member)
    raise Refusal(kind.__name__, f"a {role} is text, a number, another plain value, or a tuple of these")


def strip(tree: Any) -> Any:
    """The plain form of a copy, sharing nothing that can change."""
    kind = type(tree)
    if kind in PLAIN_ATOMS:
        return tree
    stripper = _STRIPPERS.get(kind)
    if stripper is not None:
        return stripper(tree)
    return _plain_leaf(tree) if is_leaf(kind) else _strip_member(tree)


def _plain_leaf(leaf: object) -> Any:
    """The plain form of an enum or a path."""
    try:
        return strip(copy(serde.to_plain(leaf)))
    except NotStorableError as error:
        raise Refusal(error.type_name, below=error.path[1:]) from error


def _strip_member(member: Any) -> Any:
    """The plain form of a subclass of tuple or frozenset. Only keys and members of sets are such here."""
    base = tuple if isinstance(member, tuple) else frozenset
    return base(map(strip, member))


def _strip_list(tree: list[Any]) -> list[Any]:
    return tree.copy() if PLAIN_ATOMS.issuperset(map(type, tree)) else [strip(item) for item in tree]


def _strip_dict(tree: dict[Any, Any]) -> dict[Any, Any]:
    if PLAIN_ATOMS.issuperset(map(type, tree)):
        return {key: strip(item) for key, item in tree.items()}
    return {strip(key): strip(item) for key, item in tree.items()}


def _strip_zone(moment: datetime | time) -> datetime | time:
    if moment.tzinfo is None or type(moment.tzinfo) is timezone:
        return moment
    offset = moment.utcoffset()
    return moment.replace(tzinfo=None if offset is None else timezone(offset), fold=0)


_STRIPPERS: dict[type, Callable[[Any], Any]] = {
    list: _strip_list,
    tuple: lambda tree: tuple(map(strip, tree)),
    dict: _strip_dict,
    set: lambda tree: set(map(strip, tree)),
    frozenset: lambda tree: frozenset(map(strip, tree)),
    datetime: _strip_zone,
    time: _strip_zone,
    Node: lambda tree: strip(tree.shape),
}
