"""What differs between two checkpoints: their states by path, their steps, their results."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import takewhile
from typing import Any, Literal

from msgspec import Struct

from holdfast.checkpoints._browse import Details, Found, describe
from holdfast.deltas import Path, encode_plain
from holdfast.ports import JournalStore

_SETS = (set, frozenset)


class Change(Struct, frozen=True):
    """One difference between two plain states. The side that has nothing there is None."""

    kind: Literal["added", "removed", "changed"]
    path: Path
    before: Any = None
    after: Any = None


class Difference(Struct, frozen=True):
    """What differs between checkpoint A and checkpoint B."""

    state: tuple[Change, ...]
    only_a: tuple[str, ...]
    """executions that are completed in A only"""
    only_b: tuple[str, ...]
    results: tuple[tuple[str, Any, Any], ...]
    """executions completed in both with another result: the key, A's, B's"""

    def __bool__(self) -> bool:
        return bool(self.state or self.only_a or self.only_b or self.results)


async def compare_checkpoints(store: JournalStore, a: Found, b: Found) -> Difference:
    """What differs between two checkpoints, of one run or of two."""
    old, new = await describe(store, a), await describe(store, b)
    return compare(old.state, new.state, _results(old), _results(new))


def _results(details: Details) -> dict[str, Any]:
    return {step.key: step.result for step in details.steps if step.status == "completed"}


def compare(state_a: Any, state_b: Any, results_a: dict[str, Any], results_b: dict[str, Any]) -> Difference:
    """Compare two checkpoints by their plain states and their results by execution key."""
    return Difference(
        state=tuple(compare_plain(state_a, state_b)),
        only_a=tuple(key for key in results_a if key not in results_b),
        only_b=tuple(key for key in results_b if key not in results_a),
        results=tuple(
            (key, result, results_b[key])
            for key, result in results_a.items()
            if key in results_b and any(compare_plain(result, results_b[key]))
        ),
    )


def compare_plain(before: Any, after: Any, path: Path = ()) -> Iterator[Change]:
    """What leads from one plain value to another, path by path; 1, True and 1.0 are three values."""
    if _same(before, after):
        return
    if type(before) is type(after) is dict:
        yield from _compare_dicts(before, after, path)
    elif type(before) is type(after) and isinstance(before, list | tuple):
        yield from _compare_lists(list(before), list(after), path)
    elif type(before) is type(after) and isinstance(before, _SETS):
        yield from _compare_sets(before, after, path)
    else:
        yield Change("changed", path, before, after)


def _compare_dicts(before: dict[Hashable, Any], after: dict[Hashable, Any], path: Path) -> Iterator[Change]:
    for key, value in before.items():
        if key in after:
            yield from compare_plain(value, after[key], (*path, key))
        else:
            yield Change("removed", (*path, key), before=value)
    for key, value in after.items():
        if key not in before:
            yield Change("added", (*path, key), after=value)


def _compare_sets(before: Iterable[Any], after: Iterable[Any], path: Path) -> Iterator[Change]:
    old, new = ({encode_plain(member): member for member in members} for members in (before, after))
    for member in sorted(old.keys() - new.keys()):
        yield Change("removed", (*path, old[member]), before=old[member])
    for member in sorted(new.keys() - old.keys()):
        yield Change("added", (*path, new[member]), after=new[member])


def _compare_lists(before: list[Any], after: list[Any], path: Path) -> Iterator[Change]:
    """What both begin and end with is no difference; in between, item by item."""
    head = _agreeing(before, after)
    tail = _agreeing(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    for index in range(max(len(old), len(new))):
        place = (*path, head + index)
        if index >= len(old):
            yield Change("added", place, after=new[index])
        elif index >= len(new):
            yield Change("removed", place, before=old[index])
        else:
            yield from compare_plain(old[index], new[index], place)


def _agreeing(before: list[Any], after: list[Any]) -> int:
    """How many items at the beginning are the same."""
    return sum(1 for _ in takewhile(lambda pair: _same(*pair), zip(before, after, strict=False)))


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and encode_plain(one) == encode_plain(other))
