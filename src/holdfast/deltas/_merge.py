"""Merging the deltas of steps that overlapped.

A step that overlaps others computes its delta against an older base than the state it is committed to. What it did is done to
the committed state when that cannot lose anybody's write:

- appends to one list follow one another in the order in which the steps finished, and go with changes further up;
- changes at different keys, fields and indexes, and members added to or taken from one set, combine;
- two writes of one value to one path are one write, unless there is a number in it: two `counter += 1` are not one.

The rest are clashes: other writes to one path (growth of a text is a write of the text), a write inside what another step
replaced or deleted, a list of which two steps took or inserted items. A declared reducer decides them, or they are conflicts.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.deltas._apply import apply
from holdfast.deltas._compare import same_plain
from holdfast.deltas._delta import Delete, Delta, Operation, Set
from holdfast.deltas._paths import MISSING, Path, locate, value_at
from holdfast.deltas._reducers import UNDECIDED, Reducer, decide, decides_at_path, holds_number
from holdfast.deltas._touched import Touched, single_operations

StepDelta: TypeAlias = tuple[str, Delta]
"""The name of a step, and what it changed."""


class Conflict(msgspec.Struct, frozen=True):
    """Steps that overlapped wrote what cannot be combined at `path`; a value is UNSET where the path was deleted."""

    path: Path
    steps: tuple[str, ...]
    """Those that were committed first, then the one that came last."""
    mine: Any = msgspec.UNSET
    theirs: Any = msgspec.UNSET

    def __str__(self) -> str:
        others = ", ".join(self.steps[:-1])
        return (
            f"{locate(self.path)}: {self.steps[-1]} and {others} ran at the same time and changed it differently;"
            f" declare a reducer for {self.path[0]!r}, let each step write a field of its own,"
            ' or set on_state_conflict="last"'
        )


class Merged(msgspec.Struct, frozen=True):
    """What to apply to the committed state, and what could not be decided."""

    delta: Delta
    conflicts: tuple[Conflict, ...] = ()
    overruled: tuple[Conflict, ...] = ()
    """Conflicts that the last writer won, where that was asked for."""


class Merge(msgspec.Struct, frozen=True):
    """How a state merges: a reducer for some fields, and what happens to clashes that none decides."""

    reducers: Mapping[str, Reducer] = {}
    on_conflict: Literal["fail", "last"] = "fail"

    def combine(
        self,
        committed_since_base: Sequence[StepDelta],
        mine: StepDelta,
        plain_base: dict[str, Any],
        plain_committed: dict[str, Any],
    ) -> Merged:
        """Merge `mine` as the function `combine` does; with `"last"`, its side of a conflict is what is written."""
        delta, conflicts = combine(committed_since_base, mine, plain_base, plain_committed, self.reducers)
        if self.on_conflict == "fail":
            return Merged(delta, conflicts)
        written = (write for conflict in conflicts for write in _overrule(conflict))
        return Merged(Delta((*delta.operations, *written)), overruled=conflicts)


def combine(
    committed_since_base: Sequence[StepDelta],
    mine: StepDelta,
    plain_base: dict[str, Any],
    plain_committed: dict[str, Any],
    reducers: Mapping[str, Reducer],
) -> tuple[Delta, tuple[Conflict, ...]]:
    """Return the delta that does to the committed state what `mine` did to its base, and what could not be decided.

    `committed_since_base` are the deltas, as they were committed, that lead from `plain_base` to `plain_committed`; `mine` is
    one diff against `plain_base`. Nothing of a conflict is in the delta; everything else of `mine` is. Nothing is changed in
    place. What a reducer raises is raised.
    """
    step, delta = mine
    touched = Touched(plain_base)
    for name, committed in committed_since_base:
        touched.note(name, committed)
    found = [clash for clash in map(touched.find_clash, single_operations(delta)) if clash is not None]
    if not found:
        return delta, ()
    sides = _Sides(plain_base, plain_committed, apply(plain_base, delta))
    clashes = _outermost(sides.widen(path, reducers) for path in found)
    kept = [operation for operation in single_operations(delta) if not _is_within(operation.path, clashes)]
    conflicts: list[Conflict] = []
    for path in clashes:
        decided = sides.decide(path, reducers)
        if decided is UNDECIDED:
            conflicts.append(sides.conflict(path, (*touched.steps_at(path), step)))
        else:
            kept += sides.write(path, decided)
    return Delta(tuple(kept)), tuple(conflicts)


class _Sides:
    """The three states that meet."""

    def __init__(self, base: dict[str, Any], committed: dict[str, Any], mine: dict[str, Any]) -> None:
        self._base = base
        self._committed = committed
        self._mine = mine

    def widen(self, path: Path, reducers: Mapping[str, Reducer]) -> Path:
        """The path at which a clash is decided: the whole field, or the list that is joined, if its reducer wants that."""
        reducer = reducers.get(str(path[0]))
        if reducer is None or self._agree_at(path):
            return path
        if reducer is not operator.add:
            return path if decides_at_path(reducer) else path[:1]
        outer = (path[:size] for size in range(1, len(path)))
        return next((part for part in outer if isinstance(value_at(self._committed, part), list)), path)

    def decide(self, path: Path, reducers: Mapping[str, Reducer]) -> Any:
        """The value that both sides become, which may be MISSING; or UNDECIDED."""
        committed, mine = value_at(self._committed, path), value_at(self._mine, path)
        if self._agree_at(path):
            return committed
        reducer = reducers.get(str(path[0]))
        return UNDECIDED if reducer is None else decide(reducer, value_at(self._base, path), committed, mine)

    def write(self, path: Path, value: Any) -> list[Operation]:
        """What leads from the committed value at `path` to this one."""
        committed = value_at(self._committed, path)
        if value is MISSING:
            return [] if committed is MISSING else [Delete(path)]
        return [] if committed is not MISSING and same_plain(committed, value) else [Set(path, value)]

    def conflict(self, path: Path, steps: tuple[str, ...]) -> Conflict:
        """What to tell about a clash that nobody decided."""
        mine, theirs = (value_at(state, path) for state in (self._mine, self._committed))
        return Conflict(path, steps, *(msgspec.UNSET if value is MISSING else value for value in (mine, theirs)))

    def _agree_at(self, path: Path) -> bool:
        """Whether both sides came to the same, and none of it may be a count that happened to come out alike."""
        committed, mine = value_at(self._committed, path), value_at(self._mine, path)
        both_gone = committed is MISSING and mine is MISSING
        return both_gone or (same_plain(committed, mine) and not holds_number(mine))


def _overrule(conflict: Conflict) -> list[Operation]:
    """What writes my side of a conflict."""
    if conflict.mine is not msgspec.UNSET:
        return [Set(conflict.path, conflict.mine)]
    return [] if conflict.theirs is msgspec.UNSET else [Delete(conflict.path)]


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Each path once, and none that lies inside another."""
    found: list[Path] = []
    for path in sorted(paths, key=len):
        if not _is_within(path, found):
            found.append(path)
    return found


def _is_within(path: Path, others: Iterable[Path]) -> bool:
    return any(path[: len(other)] == other for other in others)
