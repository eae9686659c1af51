"""Where deltas have changed a state, and which other changes that rules out."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import Enum, auto

from holdfast.deltas._delta import Add, Append, Delete, Delta, Discard, Operation, Set, Splice
from holdfast.deltas._paths import Path, value_at


class _Change(Enum):
    """What an operation does to the value at its path."""

    WRITE = auto()
    """Put another in its place."""
    GROW = auto()
    """Append to a list."""
    SHIFT = auto()
    """Give items of a list another index."""
    EXCHANGE = auto()
    """Add members to a set, or discard them: members are told apart by value, so the order does not matter."""


class _Place:
    """What happened at one path, and below."""

    __slots__ = ("changes", "places", "steps")

    def __init__(self) -> None:
        self.changes: set[_Change] = set()
        self.places: dict[Hashable, _Place] = {}
        self.steps: dict[str, None] = {}


class Touched:
    """All places that were changed since a base."""

    def __init__(self, base: object) -> None:
        self._base = base
        self._root = _Place()

    def note(self, step: str, delta: Delta) -> None:
        """Remember what a step changed."""
        for operation in single_operations(delta):
            place = self._root
            for part in operation.path:
                place = place.places.setdefault(part, _Place())
            place.changes.add(_change_of(operation))
            place.steps[step] = None

    def steps_at(self, path: Path) -> tuple[str, ...]:
        """The steps that changed something at this path or below."""
        place = self._root
        for part in path:
            place = place.places[part]
        return tuple(_steps(place))

    def find_clash(self, operation: Operation) -> Path | None:
        """The path at which an operation on the base clashes with what was noted, if it does."""
        place = self._root
        for depth, part in enumerate(operation.path):
            if self._bars(place, operation.path[:depth], part):
                return operation.path[:depth]
            if part not in place.places:
                return None
            place = place.places[part]
        return operation.path if _clashes(_change_of(operation), place) else None

    def _bars(self, place: _Place, path: Path, part: Hashable) -> bool:
        """Whether nothing can be done below `path` any more, at least not to `part`."""
        if _Change.GROW in place.changes:
            items = value_at(self._base, path)
            if not isinstance(items, list) or not isinstance(part, int) or part >= len(items):
                return True  # an item that was appended by both, each thinking of another
        return not place.changes.isdisjoint({_Change.WRITE, _Change.SHIFT})


def _clashes(mine: _Change, place: _Place) -> bool:
    """Whether a change at a place clashes with what happened there and below."""
    match mine:
        case _Change.WRITE:
            return bool(place.changes or place.places)
        case _Change.SHIFT:
            return bool(place.changes - {_Change.GROW} or place.places)
        case _:
            return _Change.WRITE in place.changes


def _change_of(operation: Operation) -> _Change:
    match operation:
        case Append(values=list()):
            return _Change.GROW
        case Set() | Delete() | Append():
            return _Change.WRITE
        case Splice():
            return _Change.SHIFT
        case Add() | Discard():
            return _Change.EXCHANGE


def single_operations(delta: Delta) -> Iterator[Operation]:
    """The operations, with one that replaces items of a list in their places taken apart."""
    for operation in delta.operations:
        if isinstance(operation, Splice) and operation.count == len(operation.values):
            for offset, value in enumerate(operation.values):
                yield Set((*operation.path, operation.start + offset), value)
        else:
            yield operation


def _steps(place: _Place) -> dict[str, None]:
    steps = dict(place.steps)
    for below in place.places.values():
        steps |= _steps(below)
    return steps
