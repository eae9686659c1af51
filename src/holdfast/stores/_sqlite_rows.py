"""Between the port's structs and SQLite's columns.

`sqlite3` looks for an adapter for each bytes object and each None that it is to bind, which takes longer than storing a row
does. A bytearray and an int it takes as they are: so bytes are bound as the one, and None as `NULL`, a 0 that the statements
turn back (`nullif(?, 0)`) in columns that hold text and blobs only.
"""

from __future__ import annotations

from typing import Any

from holdfast.ports import Mark, Origin, Row, RunInfo

Id = str | bytes
NULL = 0
_HYPHENS = slice(8, 24, 5)
_from_hex = bytearray.fromhex


def pack(text: str | None) -> str | bytearray | int:
    """An id as it is bound: 16 bytes if it is a UUID in its usual spelling, else the text itself; NULL for None."""
    if text is None:
        return NULL
    if len(text) == 36 and text[_HYPHENS] == "----" and text == text.lower():
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
