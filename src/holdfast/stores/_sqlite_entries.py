"""Rows on their way into an SQLite journal: several in one statement, with the marks that are named after them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.ports import Mark, Origin, Row
from holdfast.stores._sqlite_reads import SQL
from holdfast.stores._sqlite_rows import NULL, pack

ROWS = 8
"""So many rows are added by one statement at most."""
_ADD_EVENTS = {
    True: [SQL["add_event"] + SQL["and_event"] * more for more in range(ROWS)],
    False: [SQL["add_event"] + SQL["and_other_event"] * more for more in range(ROWS)],
}
"""By whether the rows come from one place, and how many there are besides the first."""
_NO_MARK = (NULL, NULL, -1)
ENOUGH, MANY = 64, 256
"""So many ids are kept when others are expected, and at most."""


class Bound(dict[Any, Any]):
    """What ids and origins of the rows of one session are bound as. An event's id comes back as the parent, cause or opener of
    others, and where they come from hardly changes: each is made once, and found again without a call."""

    def __missing__(self, key: str | Origin | None) -> object:
        self[key] = made = _columns(key) if isinstance(key, Origin) else pack(key)
        return made

    def expect(self, ids: Iterable[str]) -> None:
        """Make what these ids are bound as: of many at once that costs far less than of each after a wait for the disk."""
        if len(self) > ENOUGH:
            self.clear()
        for each in ids:
            self[each] = pack(each)


def _columns(origin: Origin) -> tuple[Any, ...]:
    return (
        NULL if origin.source_type is None else origin.source_type,
        pack(origin.source_id),
        NULL if origin.source_name is None else origin.source_name,
        pack(origin.task_id),
        NULL if origin.task_name is None else origin.task_name,
        pack(origin.agent_id),
        NULL if origin.agent_role is None else origin.agent_role,
    )


class Standing:
    """What a session's next batch must fit."""

    __slots__ = ("bound", "branch", "fence", "fork_seq", "head", "listed", "origin", "run", "run_id", "said")

    def __init__(self, fence: int, run: int, branch: int, fork_seq: int, head: int, listed: int) -> None:
        self.fence = fence
        self.run = run
        self.branch = branch
        self.fork_seq = fork_seq
        self.head = head
        self.listed = listed
        """up to where its marks are in `mark`"""
        self.bound = Bound()
        self.run_id: str | None = None
        self.origin: Origin | None = None
        self.said: tuple[Any, ...] = ()
        """what was said of both when rows came from there"""

    def speak_for(self, run_id: str, origin: Origin) -> None:
        """Have at hand what is said of rows that come from there."""
        self.run_id, self.origin = run_id, origin
        self.said = (self.run, self.fence, self.bound[run_id], *self.bound[origin])


def entry_of(
    standing: Standing, rows: Sequence[Row], marks: Iterable[Mark], latest_us: int, are_alike: bool = True
) -> tuple[str, list[Any]] | None:
    """The statement that writes rows, and in them the marks that are named after them; and its values. If the rows all come from
    one place, only the first one says which. The standing is then that after it.

    None with other marks, or if the rows do not follow the head. All in one place: every step of a run comes through here.
    """
    bound, head, first = standing.bound, standing.head, rows[0]
    if len(bound) > MANY:
        bound.clear()
    run_id, origin = first.run_id, first.origin
    if standing.origin is not origin or standing.run_id != run_id:
        standing.speak_for(run_id, origin)
    values, key = [*standing.said], (standing.branch << 32) + head  # `key_of`
    waiting = iter(marks)
    mark = next(waiting, None)
    for row in rows:
        head += 1
        key += 1
        if row.seq != head:
            return None
        if not are_alike:
            if row is not first:
                values += [bound[row.run_id], *bound[row.origin]]
        elif (row.origin is not origin and row.origin != origin) or row.run_id != run_id:
            return entry_of(standing, rows, marks, latest_us, False)
        delta, event_id = row.delta, row.event_id
        values += [
            row.type,
            key,
            bound[event_id],
            row.at_us,
            bound[row.parent_event_id],
            bound[row.triggered_by_event_id],
            bound[row.started_event_id],
            bytearray(row.payload),
            NULL if delta is None else bytearray(delta),
        ]
        if mark is None or mark.seq != head:
            values += _NO_MARK
        elif mark.id == event_id and mark.at_us == row.at_us <= latest_us:  # `is_inside`
            values += (NULL if mark.trigger == row.type else mark.trigger, bound[mark.parent_id], mark.size)
            mark = next(waiting, None)
        else:
            return None
    if mark is not None:
        return None
    standing.head = head
    return _ADD_EVENTS[are_alike][len(rows) - 1], values


def is_inside(mark: Mark, row: Row, latest_us: int) -> bool:
    """Whether a mark is written into its row: it is named after that, and no newer than the last row of its batch."""
    return mark.id == row.event_id and mark.at_us == row.at_us <= latest_us
