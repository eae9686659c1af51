"""From a copy to the live value: which operations lead there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.deltas._codec import encode_plain
from holdfast.deltas._compare import Comparison, same_plain
from holdfast.deltas._delta import Add, Append, Delete, Discard, Operation, Set, Splice
from holdfast.deltas._kinds import ATOMS, Refusal, is_leaf
from holdfast.deltas._paths import MISSING, Path
from holdfast.deltas._tree import PLAIN_ATOMS, Node, check_keys, copy, plain_of, refused, strip

GROWING = frozenset({list, str})
"""What can be declared append-only."""

_FROZEN = frozenset({tuple, frozenset})


class Extent(NamedTuple):
    """What is kept of a list or a text that only grows."""

    kind: type
    length: int


class Walk(Struct, eq=False):
    """One comparison: the operations it finds, and the moves that bring the copy up to date.

    The copy stays as it is until the moves are made, so a value that is refused half-way loses nothing.
    """

    comparison: Comparison
    operations: list[Operation] = []
    puts: list[tuple[dict[str, Any], str, Any]] = []
    """The moves of atoms: to which copies of fields, under which name. A tuple is several times as cheap as a partial."""
    moves: list[Callable[[], object]] = []

    def compare_fields(self, old: dict[str, Any], new: dict[str, Any], path: Path) -> None:
        """Find what leads from the copies of some fields to the live ones, in whatever order they are.

        A leaf is compared strictly, a container as far as the comparison goes. Each step comes here with all fields of its
        state: what did not change, or is a number that did, is done with on the spot.
        """
        staying, equal = len(old), self.comparison.equal
        for name, before in old.items():
            try:
                if new[name] is before:
                    continue
            except KeyError:
                staying -= 1
                self._record(Delete((*path, name)), partial(old.pop, name))
                continue
            value, kind = new[name], type(before)
            if kind is int and type(value) is int:
                if before != value:
                    self.operations.append(Set((*path, name), value))
                    self.puts.append((old, name, value))
            elif kind in PLAIN_ATOMS and type(value) in PLAIN_ATOMS:
                if (operation := _between_atoms(before, value, (*path, name))) is not None:
                    self.operations.append(operation)
                    self.puts.append((old, name, value))
            else:
                try:
                    differs = kind in ATOMS or not (kind is type(value) or kind is Node) or not equal(before, value)
                except Exception:  # as in `_equal`
                    differs = True
                if differs:
                    self._descend(before, value, (*path, name), partial(old.__setitem__, name))
        if staying < len(new):
            self._add_fields(old, new, path)

    def _add_fields(self, old: dict[str, Any], new: dict[str, Any], path: Path) -> None:
        for name, value in new.items():
            if name not in old:
                self._exchange(MISSING, value, (*path, name), partial(old.__setitem__, name))

    def compare_extent(self, old: object, new: list[Any] | str, path: Path, put: Callable[[Any], object]) -> None:
        """Find what leads from an extent, if that is what was kept, to a live list or text that only grows."""
        now = extent_of(new)
        if not isinstance(old, Extent) or old.kind is not now.kind or old.length > now.length:
            self._record(Set(path, plain_of(new, path)), partial(put, now))
        elif old.length < now.length:
            tail = new[old.length :]
            values = tail if isinstance(tail, str) else strip(_copy_items(tail, old.length, path))
            self._record(Append(path, values), partial(put, now))

    def _equal(self, old: Any, new: Any) -> bool:
        try:
            return bool(self.comparison.equal(old, new))
        except Exception:  # a strange object; arrays, for one, have no single truth
            return False

    def _descend(self, old: Any, new: Any, path: Path, put: Callable[[Any], object]) -> None:
        """Find what leads from the copy to a live value that probably differs; `put` takes another copy in its place."""
        kind = type(old)
        if kind is Node and type(new) is old.kind:
            self._descend_node(old, new, path)
        elif kind is not type(new) or kind not in _DESCENTS:
            self._exchange(old, new, path, put)
        else:
            _DESCENTS[kind](self, old, new, path)

    def _exchange(self, old: Any, new: Any, path: Path, put: Callable[[Any], object]) -> None:
        kind, now = type(old), type(new)
        if kind in PLAIN_ATOMS and now in PLAIN_ATOMS:
            if (operation := _between_atoms(old, new, path)) is not None:
                self._record(operation, partial(put, new))
            return
        comparable = (is_leaf(kind) and is_leaf(now)) or (kind in _FROZEN and kind is now)
        if not comparable or not same_plain(strip(old), plain_of(new, path)):
            copied = copy(new, path)
            self._record(Set(path, strip(copied)), partial(put, copied))

    def _record(self, operation: Operation, move: Callable[[], object]) -> None:
        self.operations.append(operation)
        self.moves.append(move)

    def _descend_node(self, old: Node, new: Any, path: Path) -> None:
        try:
            shape = old.reading.read(new)
        except Refusal as refusal:
            raise refused(refusal, path) from refusal.__cause__
        if old.reading.keyed:
            self.compare_fields(old.shape, shape, path)
        else:
            self._descend(old.shape, shape, path, old.reshape)

    def _descend_set(self, old: set[Any], new: set[Any], path: Path) -> None:
        lost, gained = self.comparison.exchanged(old, new)
        if gained:
            copy(new, path)  # refuses a new member that cannot be stored, or not beside the others
        if lost:
            self._record(Discard(path, _in_order(lost)), partial(old.difference_update, lost))
        if gained:
            self._record(Add(path, _in_order(gained)), partial(old.update, gained))

    def _descend_dict(self, old: dict[Any, Any], new: dict[Any, Any], path: Path) -> None:
        check_keys(new, path)
        staying = self._find_staying([*old], [*new])
        for key in old if len(staying) < len(old) else ():
            if key not in staying:
                self._record(Delete((*path, strip(key))), partial(old.pop, key))
        keys = [*staying]
        for index in self.comparison.differing([old[key] for key in keys], [new[key] for key in keys]):
            key = keys[index]
            self._descend(old[key], new[key], (*path, strip(key)), partial(old.__setitem__, key))
        for key in [*new][len(keys) :]:
            self._exchange(MISSING, new[key], (*path, strip(key)), partial(old.__setitem__, key))

    def _find_staying(self, old: list[Any], new: list[Any]) -> dict[Any, None]:
        """The keys at the beginning of `new` that stay where they are; a key that is set anew goes to the end."""
        head = new[: len(old)]
        if head == old and self.comparison.same_keys(old, head):
            return dict.fromkeys(head)
        places = {key: place for place, key in enumerate(old)}
        staying: dict[Any, None] = {}
        last = -1
        for key in new:
            place = places.get(key, -1)
            if place <= last or not self.comparison.same_keys([old[place]], [key]):
                break
            staying[key] = None
            last = place
        return staying

    def _descend_list(self, old: list[Any], new: list[Any], path: Path) -> None:
        size = len(old)
        if len(new) > size and self._equal(old, new[:size]):
            self._append(old, new, size, path)
            return
        if len(new) == size and len(changed := self.comparison.differing(old, new)) * 2 <= size:
            self._descend_items(old, new, changed, path)
            return
        head = self.comparison.agreeing(old, new)
        tail = self.comparison.agreeing(old[head:][::-1], new[head:][::-1])
        lost, gained = size - head - tail, len(new) - head - tail
        if shift := self._find_shift(old, new, head):
            self._splice(old, head, shift, [], path)
            self._append(old, new, size - shift, path)
        elif lost == gained or (lost < gained and not tail):
            self._descend_items(old, new, self.comparison.differing(old, new), path)
            self._append(old, new, size, path)
        else:
            self._splice(old, head, lost, new[head : head + gained], path)

    def _find_shift(self, old: list[Any], new: list[Any], head: int) -> int:
        """How many items after the first `head` were taken away, if that and growth at the end is all there is."""
        if head >= len(new) or head >= len(old):
            return 0
        try:
            at = old.index(new[head], head + 1)
        except Exception:  # no such item, or a strange object
            return 0
        kept = len(old) - at
        fits = kept <= len(new) - head and self._equal(old[at:], new[head : head + kept])
        return at - head if fits else 0

    def _descend_items(self, old: list[Any], new: list[Any], changed: list[int], path: Path) -> None:
        atoms: list[int] = []
        for index in changed:
            if type(old[index]) in ATOMS and type(new[index]) in ATOMS:
                atoms.append(index)
            else:
                self._descend(old[index], new[index], (*path, index), partial(old.__setitem__, index))
        for _, pairs in groupby(enumerate(atoms), lambda pair: pair[1] - pair[0]):
            run = [index for _, index in pairs]
            if len(run) == 1:
                self._exchange(old[run[0]], new[run[0]], (*path, run[0]), partial(old.__setitem__, run[0]))
            else:
                self._splice(old, run[0], len(run), new[run[0] : run[-1] + 1], path)

    def _append(self, old: list[Any], new: list[Any], start: int, path: Path) -> None:
        if len(new) > start:
            values = new[start:]
            if PLAIN_ATOMS.issuperset(map(type, values)):  # each is its own copy, and its own plain form
                self._record(Append(path, values), partial(old.extend, values))
            else:
                copied = _copy_items(values, start, path)
                self._record(Append(path, strip(copied)), partial(old.extend, copied))

    def _splice(self, old: list[Any], start: int, count: int, values: list[Any], path: Path) -> None:
        copied = _copy_items(values, start, path)
        move = partial(old.__setitem__, slice(start, start + count), copied)
        self._record(Splice(path, start, count, strip(copied)), move)


_DESCENTS: dict[type, Callable[[Walk, Any, Any, Path], None]] = {
    list: Walk._descend_list,
    dict: Walk._descend_dict,
    set: Walk._descend_set,
}


def _between_atoms(old: Any, new: Any, path: Path) -> Operation | None:
    """What leads from one plain atom to another, if they differ. Each is its own copy, and its own plain form."""
    kind = type(old)
    if kind is not type(new):
        return Set(path, new)
    if kind is str and old and len(new) > len(old) and new.startswith(old):
        return Append(path, new[len(old) :])
    return None if same_plain(old, new) else Set(path, new)


def extent_of(growing: list[Any] | str) -> Extent:
    """What is kept of a list or a text that only grows."""
    return Extent(type(growing), len(growing))


def _copy_items(values: list[Any], start: int, path: Path) -> list[Any]:
    if ATOMS.issuperset(map(type, values)):
        return values
    return [copy(value, (*path, start + offset)) for offset, value in enumerate(values)]


def _in_order(members: Iterable[Any]) -> list[Any]:
    """Plain members in one order, whatever the hash seed."""
    return sorted(map(strip, members), key=encode_plain)
