"""Between the port's structs and SQLite's columns.

`sqlite3` looks for an adapter for each bytes object and each None that it is to bind, which takes longer than storing a row
does. A bytearray and an int it takes as they are: so bytes are bound as the one, and None as `NULL`, a 0 that the statements
turn back (`nullif(?, 0)`) in columns that hold text and blobs only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.ports import Mark, Origin, Row, RunInfo

Id = str | bytes
NULL = 0
_from_hex = bytearray.fromhex


def pack(text: str | None) -> str | bytearray | int:
    """An id as it is bound: 16 bytes if it is a UUID in its usual spelling, else the text itself; NULL for None."""
    if text is None:
        return NULL
    if len(text) == 36 and text[8:24:5] == "----" and text == text.lower():
        try:
            packed = _from_hex(text.replace("-", ""))
        except ValueError:
            return text
        return packed if len(packed) == 16 else text  # there are spaces in it, which `fromhex` takes for nothing
    return text


def unpack(stored: Id) -> str:
    """What `pack` was given."""
    if isinstance(stored, str):
        return stored
    h = stored.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def unpack_optional(stored: Id | None) -> str | None:
    return None if stored is None else unpack(stored)


def key_of(branch: int, seq: int) -> int:
    """Where a row of a branch is found: keys of one branch are in one stretch, in order."""
    return (branch << 32) + seq


def mark_values(branch: int, mark: Mark) -> tuple[Any, ...]:
    """For `add_mark`."""
    return (pack(mark.id), branch, mark.seq, mark.at_us, mark.trigger, pack(mark.parent_id), mark.size)


SHARED, ENTRY = 8, 12
"""How many values say where rows come from, and how many each has besides."""
_NO_MARK = (NULL, NULL, -1)


class Bound(dict[Any, Any]):
    """What ids and origins of the rows of one session are bound as. An event's id comes back as the parent, cause or opener of
    others, and where they come from hardly changes: each is made once, and found again without a call."""

    def __missing__(self, key: str | Origin | None) -> object:
        self[key] = made = _columns(key) if isinstance(key, Origin) else pack(key)
        return made


_BOUND = 64


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


def entry_values(
    branch: int, rows: Sequence[Row], marks: Iterable[Mark], latest_us: int, head: int, bound: Bound
) -> tuple[bool, list[Any]] | None:
    """For `add_event`: rows, and in them the marks that are named after them. Whether they all come from one place: then only the
    first one says which.

    None with other marks, and if the rows do not follow `head`. All in one place: every step of a run comes through here.
    """
    if len(bound) > _BOUND:
        bound.clear()
    marked: dict[int, Mark] = {}
    for mark in marks:  # no comprehension: that is a call
        marked[mark.seq] = mark
    first = rows[0]
    run_id, origin, are_alike = first.run_id, first.origin, True
    for row in rows:
        if (row.origin is not origin and row.origin != origin) or row.run_id != run_id:
            are_alike = False
    values, key = [bound[run_id], *bound[origin]], (branch << 32) + head  # `key_of`
    for row in rows:
        head += 1
        key += 1
        if row.seq != head:
            return None
        if not are_alike and row is not first:
            values += [bound[row.run_id], *bound[row.origin]]
        delta, event_id = row.delta, row.event_id
        bound[event_id] = packed = pack(event_id)
        values += [
            row.type,
            key,
            packed,
            row.at_us,
            bound[row.parent_event_id],
            bound[row.triggered_by_event_id],
            bound[row.started_event_id],
            bytearray(row.payload),
            NULL if delta is None else bytearray(delta),
        ]
        if head not in marked:
            values += _NO_MARK
        elif is_inside(mark := marked.pop(head), row, latest_us):
            values += (NULL if mark.trigger == row.type else mark.trigger, bound[mark.parent_id], mark.size)
        else:
            return None
    return None if marked else (are_alike, values)


def is_inside(mark: Mark, row: Row, latest_us: int) -> bool:
    """Whether a mark is written into its row: it is named after that, and no newer than the last row of its batch."""
    return mark.id == row.event_id and mark.at_us == row.at_us <= latest_us


def to_row(values: tuple[Any, ...]) -> Row:
    """Of `page`."""
    seq, type_, event_id, at_us, run_id, payload, delta, parent, trigger, started, *rest = values
    source_type, source_id, source_name, task_id, task_name, agent_id, agent_role = rest
    return Row(
        seq,
        type_,
        unpack(event_id),
        at_us,
        unpack(run_id),
        payload,
        delta,
        unpack_optional(parent),
        unpack_optional(trigger),
        unpack_optional(started),
        Origin(
            source_type,
            unpack_optional(source_id),
            source_name,
            unpack_optional(task_id),
            task_name,
            unpack_optional(agent_id),
            agent_role,
        ),
    )


def to_run(values: tuple[Any, ...]) -> RunInfo:
    """Of `run` and `runs`."""
    return RunInfo(unpack(values[0]), *values[1:])


def to_mark(values: tuple[Any, ...]) -> Mark:
    """Of `mark` and `marks`."""
    mark_id, seq, at_us, trigger, branch, root_run_id, parent_id, size = values
    return Mark(unpack(mark_id), seq, at_us, trigger, branch, unpack(root_run_id), unpack_optional(parent_id), size)
