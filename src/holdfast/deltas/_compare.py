"""Two ways to tell a copy from the live value: fast, and exact."""

from __future__ import annotations

import marshal
import math
from collections.abc import Sequence
from datetime import datetime, time
from decimal import Decimal
from itertools import compress
from operator import eq, ne
from typing import Any, Protocol

from holdfast.deltas._codec import encode_plain
from holdfast.deltas._kinds import Refusal
from holdfast.deltas._tree import Node, plain_of, strip
from holdfast.errors import NotStorableError

# The last version of the format without back-references: the same value always gives the same bytes.
_MARSHAL = 2


class Comparison(Protocol):
    """Tells what differs between copies and live values. The copy is always the first argument."""

    def equal(self, old: Any, new: Any, /) -> Any:
        """Whether these two are the same, as far as this comparison goes. Whatever it raises, or its truth, means no."""
        ...

    def differing(self, old: Sequence[Any], new: Sequence[Any]) -> list[int]:
        """The indexes at which two sequences may differ, up to the end of the shorter."""
        ...

    def agreeing(self, old: Sequence[Any], new: Sequence[Any]) -> int:
        """How many items at the beginning of two sequences are the same; it may be too low."""
        ...

    def same_keys(self, old: Sequence[Any], new: Sequence[Any]) -> bool:
        """Whether keys that are pairwise equal are the same."""
        ...

    def exchanged(self, old: set[Any], new: set[Any]) -> tuple[set[Any], set[Any]]:
        """The members that a set has lost, and those that are new."""
        ...


class Fast:
    """What `==` can tell, in C. It takes 1, True and 1.0 for the same, and dicts in another order."""

    equal = staticmethod(eq)

    def differing(self, old: Sequence[Any], new: Sequence[Any]) -> list[int]:
        try:
            return list(compress(range(len(old)), map(ne, old, new)))
        except Exception:
            return [*range(min(len(old), len(new)))]

    def agreeing(self, old: Sequence[Any], new: Sequence[Any]) -> int:
        shorter = min(len(old), len(new))
        try:
            return next(compress(range(shorter), map(ne, old, new)), shorter)
        except Exception:
            return 0

    def same_keys(self, old: Sequence[Any], new: Sequence[Any]) -> bool:
        return True

    def exchanged(self, old: set[Any], new: set[Any]) -> tuple[set[Any], set[Any]]:
        return old - new, new - old


class Exact:
    """Whether two values are stored as the same bytes."""

    def equal(self, old: Any, new: Any) -> bool:
        try:
            if marshal.dumps(old, _MARSHAL) == marshal.dumps(new, _MARSHAL):
                return True
        except ValueError:  # something in it that marshal does not know
            pass
        try:
            return _same(old, new)
        except (NotStorableError, Refusal):
            return False

    def differing(self, old: Sequence[Any], new: Sequence[Any]) -> list[int]:
        pairs = enumerate(zip(old, new, strict=False))
        return [index for index, (one, other) in pairs if not self.equal(one, other)]

    def agreeing(self, old: Sequence[Any], new: Sequence[Any]) -> int:
        differing = self.differing(old, new)
        return differing[0] if differing else min(len(old), len(new))

    def same_keys(self, old: Sequence[Any], new: Sequence[Any]) -> bool:
        return all(map(_same, old, new))

    def exchanged(self, old: set[Any], new: set[Any]) -> tuple[set[Any], set[Any]]:
        before, after = ({encode_plain(plain_of(member)): member for member in members} for members in (old, new))
        return (
            {before[code] for code in before.keys() - after.keys()},
            {after[code] for code in after.keys() - before.keys()},
        )


FAST, EXACT = Fast(), Exact()


def same_plain(one: Any, other: Any) -> bool:
    """Whether two plain values are exactly the same: type, sign of zero, order of keys. NaN is NaN."""
    kind = type(one)
    if one is other:
        return True
    if kind is not type(other):
        return False
    if kind is str or kind is int:
        return bool(one == other)
    if kind is float:
        return _same_float(one, other)
    if kind is list or kind is tuple:
        return len(one) == len(other) and all(map(same_plain, one, other))
    if kind is dict:
        return same_plain([*one.items()], [*other.items()])
    if kind is set or kind is frozenset:
        return {*map(encode_plain, one)} == {*map(encode_plain, other)}
    if kind is Decimal or kind is datetime or kind is time:
        return str(one) == str(other)
    return bool(one == other)


def _same_float(one: float, other: float) -> bool:
    return math.copysign(1, one) == math.copysign(1, other) if one == other else math.isnan(one) and math.isnan(other)


def _same(old: Any, new: Any) -> bool:
    """Whether a copy and a live value have exactly the same plain form."""
    kind = type(old)
    if kind is Node:
        return type(new) is old.kind and _same_shape(old, old.reading.read(new))
    if kind is dict and type(new) is dict:
        return len(old) == len(new) and all(map(_same, old, new)) and all(map(_same, old.values(), new.values()))
    if kind is type(new) and (kind is list or kind is tuple):
        return len(old) == len(new) and all(map(_same, old, new))
    return same_plain(strip(old), plain_of(new))


def _same_shape(old: Node, shape: Any) -> bool:
    if not old.reading.keyed:
        return _same(old.shape, shape)
    return old.shape.keys() == shape.keys() and all(_same(old.shape[name], shape[name]) for name in old.shape)
