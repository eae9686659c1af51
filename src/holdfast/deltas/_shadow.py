"""A kept copy of a state, which tells what a step changed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from holdfast.deltas._compare import EXACT, FAST, Comparison
from holdfast.deltas._delta import Delta
from holdfast.deltas._paths import MISSING
from holdfast.deltas._tree import copy, plain_of, strip
from holdfast.deltas._walk import GROWING, Extent, Walk, extent_of


def plain(fields: Mapping[str, object]) -> dict[str, Any]:
    """The plain form of a state given as its fields. Raises NotStorableError, naming the path."""
    return {name: plain_of(value, (name,)) for name, value in fields.items()}


class Shadow:
    """A copy of a state's containers, sharing its leaves, to compare the live state with.

    `append_only` names fields whose lists, or texts, only grow: of these nothing is kept but the length, so a change to an
    item that was there before is not seen. Should such a field shrink or hold something else, it is written as a whole.
    """

    def __init__(self, state_fields: Mapping[str, object], *, append_only: frozenset[str] = frozenset()) -> None:
        self._append_only = sorted(append_only)
        self._fields: dict[str, Any] = {}
        self._growing: dict[str, Any] = {}
        for name, value in state_fields.items():
            copied = copy(value, (name,))
            if name not in append_only:
                self._fields[name] = copied
            else:
                self._growing[name] = extent_of(copied) if type(copied) in GROWING else copied

    def anew(self, state_fields: Mapping[str, object]) -> Shadow:
        """A copy of another state, with the same fields declared append-only."""
        return Shadow(state_fields, append_only=frozenset(self._append_only))

    def diff(self, current_fields: dict[str, Any], comparison: Comparison = FAST) -> Delta:
        """Return what changed since the last call, or since the beginning, and move on to the current state.

        No change in place is missed, at any depth, but for one kind: inside a container, a value that is replaced by one
        that is equal but of another type (1, True, 1.0, -0.0), and keys that change only their order. `check` sees these.

        Raises NotStorableError, naming the path, when the state holds something that cannot be stored; nothing has moved
        then.
        """
        # every step comes through here: `check` hands in its comparison, rather than both asking a third method
        walk = Walk(comparison)
        if self._append_only:
            current_fields = self._compare_growing(walk, dict(current_fields))
        walk.compare_fields(self._fields, current_fields, ())
        for fields, name, value in walk.puts:
            fields[name] = value
        for move in walk.moves:
            move()
        return Delta(tuple(walk.operations))

    def check(self, current_fields: dict[str, Any]) -> Delta:
        """Return what `diff` missed, exact to the stored byte, and move on. As dear as writing the state: for snapshots."""
        return self.diff(current_fields, EXACT)

    def committed(self, current_fields: Mapping[str, object]) -> dict[str, Any]:
        """The plain state as it was when `diff` was last called. Of a field that only grows, as much as there was of it."""
        plain = {name: strip(value) for name, value in self._fields.items()}
        for name, kept in self._growing.items():
            growing = isinstance(kept, Extent)
            now: Any = current_fields.get(name)
            plain[name] = plain_of(now[: kept.length], (name,)) if growing and type(now) is kept.kind else strip(kept)
        return plain

    def _compare_growing(self, walk: Walk, fields: dict[str, Any]) -> dict[str, Any]:
        """Compare the fields that only grow, and return the others."""
        others = self._growing.copy()
        for name in self._append_only:
            new = fields.pop(name, MISSING)
            if type(new) in GROWING:
                old = self._growing.get(name, MISSING)
                walk.compare_extent(old, new, (name,), partial(self._growing.__setitem__, name))
            elif new is MISSING:
                others.pop(name, None)
            else:
                others[name] = new
        walk.compare_fields(self._growing, others, ())
        return fields
