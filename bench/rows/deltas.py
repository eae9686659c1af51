"""What finding a step's change costs, beside a recursive walk in Python over the same state."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench._harness import Row, best_of, compare
from holdfast.deltas import Shadow

ROUNDS = 7
CALLS = 40


@dataclass
class Case:
    """A list, what to append to it, and how many microseconds the difference may take."""

    name: str
    items: list[Any]
    another: Callable[[int], Any]
    budget: float


def _chat(number: int) -> dict[str, str]:
    return {"role": "user" if number % 2 else "assistant", "content": f"message {number} " * 4}


def _small(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"item {number}", "done": False}


def cases() -> list[Case]:
    """The three lists of CORE.md, each with one append between two comparisons."""
    return [
        Case("1,600 strings", [f"line {n}" for n in range(1_600)], lambda n: f"line {n}", 15),
        Case("1,600 chat messages", [_chat(n) for n in range(1_600)], _chat, 90),
        Case("10,000 small dicts", [_small(n) for n in range(10_000)], _small, 700),
    ]


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _walk(old: Any, new: Any, path: tuple[Any, ...], found: list[Any]) -> None:
    """What one writes first: compare leaf by leaf."""
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            _walk(old.get(key), value, (*path, key), found)
        found.extend((*path, key) for key in old if key not in new)
    elif isinstance(old, list) and isinstance(new, list):
        for index, (one, other) in enumerate(zip(old, new, strict=False)):
            _walk(one, other, (*path, index), found)
        found.extend((path, item) for item in new[len(old) :])
    elif type(old) is not type(new) or old != new:
        found.append((path, new))


class Naive:
    """The same promise as a Shadow, kept by that walk."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._old = _copied(fields)

    def diff(self, fields: dict[str, Any]) -> list[Any]:
        found: list[Any] = []
        _walk(self._old, fields, (), found)
        for name, value in fields.items():
            self._old[name].extend(_copied(item) for item in value[len(self._old[name]) :])
        return found


def _microseconds(case: Case, keeper: Callable[[dict[str, Any]], Any]) -> float:
    """The time of one diff after one append, in the best of some rounds."""
    fields = {"items": [*map(_copied, case.items)]}
    kept = keeper(fields)

    def once() -> float:
        spent = 0.0
        for number in range(CALLS):
            fields["items"].append(case.another(number))
            started = time.perf_counter()
            found = kept.diff(fields)
            spent += time.perf_counter() - started
            if not found:
                raise AssertionError("the append was not seen")
        return spent / CALLS * 1e6

    return best_of(ROUNDS, once)


def measure_deltas() -> list[Row]:
    """One append to a list that is otherwise as it was."""
    return [_row(case, _microseconds(case, Shadow), _microseconds(case, Naive)) for case in cases()]


def _row(case: Case, ours: float, naive: float) -> Row:
    return compare(
        f"delta, one append to {case.name}",
        "us",
        ours,
        better="lower",
        peers={"naive walk": naive},
        target=f"≤ {case.budget:g} us",
        ok=ours <= case.budget,
    )


ROWS = {"deltas": measure_deltas}
