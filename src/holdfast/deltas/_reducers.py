"""What decides when two overlapping steps wrote the same thing."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from holdfast.deltas._paths import MISSING
from holdfast.deltas._tree import plain_of

Reducer: TypeAlias = Callable[[Any, Any], Any]
"""`reducer(committed value, my value)` gives the value that both become.

`operator.add`, `max`, `min` and `last` decide at the very path of the clash, so they also serve a dict of counters; `add` counts
from the base, and joins a list of which items clash. Any other callable gets the two plain values of the whole field.
"""

UNDECIDED = object()

_NUMBERS = (int, float, Decimal, timedelta)


def last(committed: object, mine: object) -> object:
    """Let the step that finished last win."""
    return mine


def decides_at_path(reducer: Reducer) -> bool:
    """Whether a reducer looks at the clashing values, not at the whole field."""
    return reducer is operator.add or reducer is max or reducer is min or reducer is last


def decide(reducer: Reducer, base: Any, committed: Any, mine: Any) -> Any:
    """What a reducer makes of plain values of which any may be MISSING: a plain value, or UNDECIDED.

    An error of a reducer that is not one of ours is raised as it is.
    """
    if reducer is last:
        return mine
    if committed is MISSING or mine is MISSING:
        return UNDECIDED
    if reducer is operator.add:
        return _add(base, committed, mine)
    if reducer is max or reducer is min:
        try:
            return reducer(committed, mine)
        except TypeError:
            return UNDECIDED
    # Copies both ways: what a reducer changes or keeps is not part of any state.
    return plain_of(reducer(plain_of(committed), plain_of(mine)))


def is_number(value: object) -> bool:
    """Whether this is something to count with."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def holds_number(value: object) -> bool:
    """Whether there is a number in a plain value."""
    if isinstance(value, dict):
        return any(map(holds_number, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(holds_number, value))
    return is_number(value)


def _add(base: Any, committed: Any, mine: Any) -> Any:
    """Both contributions: of a number its difference from the base, of a list or a text what came after the base."""
    try:
        if is_number(committed) and is_number(mine):
            return committed + (mine - base if is_number(base) else mine)
        if type(committed) is type(mine) and isinstance(mine, list | str):
            return _join(base if type(base) is type(mine) else mine[:0], committed, mine)
    except TypeError:  # a decimal and a float, say
        pass
    return UNDECIDED


def _join(base: Any, committed: Any, mine: Any) -> Any:
    size = len(base)
    if mine[:size] == base:
        return committed + mine[size:]
    return mine + committed[size:] if committed[:size] == base else committed + mine
