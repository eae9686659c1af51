"""Between the port's structs and SQLite's columns."""

from __future__ import annotations

import functools
import re
from typing import Any

from holdfast.ports import Mark, Row, RunInfo

Id = str | bytes


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch


@functools.lru_cache(1024)  # an event's id comes back as the parent, cause or opener of the next
def pack(text: str | None) -> Id | None:
    """An id as it is stored: 16 bytes if it is a UUID in its usual spelling, else the text itself."""
    return bytes.fromhex(text.replace("-", "")) if text is not None and _UUID(text) else text


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


def event_values(branch: int, row: Row) -> tuple[Any, ...]:
    """For `add_event`."""
    return (
        key_of(branch, row.seq),
        row.type,
        pack(row.event_id),
        row.at_us,
        pack(row.run_id),
        pack(row.parent_event_id),
        pack(row.triggered_by_event_id),
        pack(row.started_event_id),
        row.source_type,
        pack(row.source_id),
        row.source_name,
        pack(row.task_id),
        row.task_name,
        pack(row.agent_id),
        row.agent_role,
        row.payload,
        row.delta,
    )


def mark_values(branch: int, mark: Mark) -> tuple[Any, ...]:
    """For `add_mark`."""
    return (pack(mark.id), branch, mark.seq, mark.at_us, mark.trigger, pack(mark.parent_id), mark.size)


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
        source_type,
        unpack_optional(source_id),
        source_name,
        unpack_optional(task_id),
        task_name,
        unpack_optional(agent_id),
        agent_role,
    )


def to_run(values: tuple[Any, ...]) -> RunInfo:
    """Of `run` and `runs`."""
    return RunInfo(unpack(values[0]), *values[1:])


def to_mark(values: tuple[Any, ...]) -> Mark:
    """Of `mark` and `marks`."""
    mark_id, seq, at_us, trigger, branch, root_run_id, parent_id, size = values
    return Mark(unpack(mark_id), seq, at_us, trigger, branch, unpack(root_run_id), unpack_optional(parent_id), size)
