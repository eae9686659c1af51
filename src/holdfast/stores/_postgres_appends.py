"""Appending to PostgreSQL: a group of batches as the columns of one statement."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import astuple

from holdfast.errors import PositionError, StorageError
from holdfast.ports import Batch, Mark
from holdfast.stores import _rules as rules
from holdfast.stores._group import Pending, Waiter
from holdfast.stores._postgres_reads import END, SQL


class Append(Pending[None]):
    """A batch, whoever waits for it, and what became of it."""

    __slots__ = ("batch", "fence", "ready")

    def __init__(self, batch: Batch, waiter: Waiter[None] | None = None) -> None:
        super().__init__(_never, waiter)
        self.batch = batch
        self.fence = batch.session.fence
        self.ready = threading.Event() if waiter is None else None


def _never(_: object) -> None:
    raise AssertionError("a batch is written as data, not called")


async def append_group(connection: Any, group: Sequence[Append]) -> None:
    """Write a group of batches, no two of one session, in one transaction; a refused one gets its error and stays out.

    Raises the driver's error, and has then written none of them.
    """
    wanted = [append for append in group if _is_sound(append)]
    if any(append.batch.blobs or append.batch.snapshot for append in wanted):
        async with connection.transaction():
            written = await _append(connection, wanted)
            await _append_extras(connection, written)
    elif wanted:
        written = await _append(connection, wanted)
    else:
        return
    done = {id(append) for append, _, _ in written}
    for append in wanted:
        if id(append) not in done:
            await refuse(connection, append)


async def was_stored(connection: Any, batch: Batch) -> bool:
    """True if the batch's last row is there. For a batch whose statement was sent, but not answered."""
    if not batch.rows:
        return False  # without rows it may be written twice
    last, session = batch.rows[-1], batch.session
    stored = await connection.fetchval(SQL["stored_event"], session.root_run_id, session.branch, last.seq)
    return bool(stored == last.event_id)


async def refuse(connection: Any, append: Append) -> None:
    """Find out why a batch could not be written."""
    batch, session = append.batch, append.batch.session
    found = await connection.fetchrow(SQL["standing"], session.root_run_id, session.branch)
    try:
        rules.check_fence(session, found[0] if found else None)
        rules.check_batch(batch, found[2], found[1])
        raise PositionError(f"run {session.root_run_id} was changed meanwhile by another writer of the same session")
    except StorageError as error:
        append.error = error


def _is_sound(append: Append) -> bool:
    """Whether the rows follow one another; whether they follow the head is for the statement to say."""
    rows = append.batch.rows
    try:
        if rows:
            rules.check_batch(append.batch, rows[0].seq - 1, 0)
    except PositionError as error:
        append.error = error
        return False
    return True


async def _append(connection: Any, group: Sequence[Append]) -> list[tuple[Append, int, int]]:
    """Returns those that were written, with the keys of their run and branch."""
    sessions = _columns(11, (_wanted(nr, append.batch) for nr, append in enumerate(group)))
    rows = _columns(18, (_row(nr, row) for nr, append in enumerate(group) for row in append.batch.rows))
    marks = _columns(7, (_mark(nr, mark) for nr, append in enumerate(group) for mark in append.batch.marks))
    found = await connection.fetch(SQL["append"], *sessions, *rows, *marks)
    return [(group[nr], run, branch) for nr, run, branch in found]


async def _append_extras(connection: Any, written: Sequence[tuple[Append, int, int]]) -> None:
    blobs = [(run, *blob) for append, run, _ in written for blob in append.batch.blobs]
    if blobs:
        await connection.execute(SQL["add_blobs"], *_columns(3, blobs))
    snapshots = [(branch, one.seq, one.data) for append, _, branch in written if (one := append.batch.snapshot)]
    if snapshots:
        await connection.execute(SQL["add_snapshots"], *_columns(3, snapshots))


def _wanted(nr: int, batch: Batch) -> tuple[Any, ...]:
    session = batch.session
    highest = [batch.snapshot.seq] if batch.snapshot else []
    highest += [mark.seq if mark.seq >= 0 else END for mark in batch.marks]
    return (
        nr,
        session.root_run_id,
        session.branch,
        session.fence,
        batch.rows[0].seq if batch.rows else 0,
        len(batch.rows),
        batch.snapshot.seq if batch.snapshot else None,
        max(highest, default=0),
        batch.status,
        batch.hold_until_us,
        rules.changed_at(batch),
    )


def _row(nr: int, row: Any) -> tuple[Any, ...]:
    return (
        nr,
        row.seq,
        row.type,
        row.event_id,
        row.at_us,
        row.run_id,
        row.payload,
        row.delta,
        row.parent_event_id,
        row.triggered_by_event_id,
        row.started_event_id,
        *astuple(row.origin),
    )


def _mark(nr: int, mark: Mark) -> tuple[Any, ...]:
    return (nr, mark.id, mark.seq, mark.at_us, mark.trigger, mark.parent_id, mark.size)


def _columns(count: int, rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    turned = [list(column) for column in zip(*rows, strict=True)]
    return turned or [[] for _ in range(count)]
