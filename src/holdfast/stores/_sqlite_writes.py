"""Changing an SQLite journal. Each function runs inside a write transaction that others may share.

It raises StorageError only before it has changed anything, so that a refusal leaves the transaction as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from sqlite3 import Connection
from typing import Any

from msgspec import Struct

from holdfast.ports import Batch, BranchInfo, RunInfo, Session
from holdfast.stores import _job_rules as job_rules
from holdfast.stores import _rules as rules
from holdfast.stores import _sqlite_job_reads as job_reads
from holdfast.stores import _sqlite_job_writes as job_writes
from holdfast.stores import _sqlite_reads as reads
from holdfast.stores._sqlite_entries import ROWS, Standing, entry_of, is_inside
from holdfast.stores._sqlite_reads import END, SQL
from holdfast.stores._sqlite_rows import key_of, mark_values, pack

UNLISTED = 128
"""So many rows of an open session may have marks that are in no list yet: whoever wants to see marks reads them all."""
Standings = dict[int, Standing]
"""By fence. A fence belongs to one session for ever, so what is known of it stays true, but for its end and for rows that the
same session wrote elsewhere: adding rows then fails, and all that is known is forgotten."""


def open_run(
    connection: Connection, info: RunInfo, branch: str, owner: str, now_us: int, hold_until_us: int
) -> Session:
    root_run_id = info.root_run_id
    known = connection.execute(SQL["find_run"], (pack(root_run_id),)).fetchone()
    if known:
        rules.check_free(root_run_id, owner, known[2], known[3], now_us)
    branches, keys = reads.branches(connection, root_run_id)
    if branch not in (branches or {rules.MAIN}):
        raise rules.no_branch(root_run_id, branch, branches)
    connection.execute(SQL["next_fence"])
    (fence,) = connection.execute(SQL["last_fence"]).fetchone()
    values = {
        "id": pack(root_run_id),
        "kind": info.kind,
        "name": info.name,
        "status": info.status,
        "fingerprint": info.fingerprint,
        "created_us": info.created_us,
        "definition": info.definition,
        "fence": fence,
        "owner": owner,
        "held_until_us": hold_until_us,
        "now_us": now_us,
    }
    if known:
        run, head = known[0], branches[branch].head
        connection.execute(SQL["take_run"], values | {"key": run})
        # Of the last session, which may have died. Once the run is held: or those of one that was ended without this are not seen.
        connection.execute(SQL["list_marks"], (run,))
        connection.execute(SQL["start_listing"], (key_of(keys[branch], head), run))
        return Session(root_run_id, branch, known[1] + 1, fence, head)
    run = connection.execute(SQL["add_run"], values).lastrowid
    main = connection.execute(SQL["add_branch"], (run, rules.MAIN, None, 0, 0, now_us)).lastrowid
    assert main is not None
    connection.execute(SQL["start_listing"], (key_of(main, 0), run))
    return Session(root_run_id, branch, 1, fence, 0)


class Append(Struct, frozen=True, gc=False):
    """A batch on its way to the file. Called in a transaction, it is written."""

    batch: Batch
    standings: Standings

    def __call__(self, connection: Connection) -> None:
        entry = self.entry()
        if entry is None:
            _append_any(connection, self.batch, self.standings)
        else:
            connection.execute(*entry)

    def entry(self) -> tuple[str, list[Any]] | None:
        """The statement that writes the batch, and its values; the session's standing is then that after it.

        None for a batch that one statement does not write, or of which it must be seen first whether and where it fits. Most
        steps of a run need nothing more; and for many runs the same statement is carried out for all at once.
        """
        batch = self.batch
        rows, standing = batch.rows, self.standings.get(batch.session.fence)
        if (
            standing is None
            or not 0 < len(rows) <= ROWS
            or batch.status is not None
            or batch.hold_until_us is not None
            or batch.snapshot is not None
            or batch.blobs
            or standing.head + len(rows) > standing.listed + UNLISTED
        ):
            return None
        return entry_of(standing, rows, batch.marks, rows[-1].at_us)  # None may mean that the session was overtaken


class Entries:
    """Batches that are one statement each, gathered in a transaction: all that have the same statement are written in one go."""

    __slots__ = ("_connection", "_values")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._values: dict[str, list[list[Any]]] = {}

    def take(self, append: Append) -> bool:
        """False for a batch that is not of this kind."""
        entry = append.entry()
        if entry is None:
            return False
        statement, values = entry
        self._values.setdefault(statement, []).append(values)
        return True

    def write(self) -> None:
        """Write those taken so far."""
        for statement, values in self._values.items():
            self._connection.executemany(statement, values)
        self._values.clear()


def _append_any(connection: Connection, batch: Batch, standings: Standings) -> None:
    """Look whether and where a batch fits, and write all of it."""
    session, rows = batch.session, batch.rows
    standings.pop(session.fence, None)
    found = connection.execute(SQL["standing"], (pack(session.root_run_id), session.branch)).fetchone()
    rules.check_fence(session, found[0] if found else None)
    standing = Standing(session.fence, *found[1:])
    rules.check_batch(batch, standing.head, standing.fork_seq)
    told_us = rows[-1].at_us if rows else -1  # the rows themselves say when the run changed last
    by_seq = {row.seq: row for row in rows}
    inside = {mark.seq: mark for mark in batch.marks if (row := by_seq.get(mark.seq)) and is_inside(mark, row, told_us)}
    other_marks = [mark for mark in batch.marks if inside.get(mark.seq) is not mark]
    for part in (rows[n : n + ROWS] for n in range(0, len(rows), ROWS)):
        marks = [inside[row.seq] for row in part if row.seq in inside]
        entry = entry_of(standing, part, marks, told_us)
        assert entry is not None  # they follow the head, and have no other marks
        connection.execute(*entry)
    if batch.blobs:
        connection.executemany(SQL["add_blob"], batch.blobs)
        connection.executemany(SQL["use_blob"], [(standing.run, digest) for digest, _ in batch.blobs])
    if batch.snapshot is not None:
        connection.execute(SQL["add_snapshot"], (standing.branch, batch.snapshot.seq, batch.snapshot.data))
    changed_us = told_us
    for mark in other_marks:
        connection.execute(SQL["unmark_row"], (pack(mark.id),))
        connection.execute(SQL["add_mark"], mark_values(standing.branch, mark))
        changed_us = max(changed_us, mark.at_us)
    # before the limit too: while the run's page is being written anyway
    if batch.hold_until_us == 0 or standing.head > standing.listed + UNLISTED // 2:
        _list_marks(connection, standing.run)
        standing.listed = standing.head
    if batch.status is not None or batch.hold_until_us is not None or not 0 <= changed_us <= told_us:
        connection.execute(SQL["touch_run"], (max(changed_us, 0), batch.status, batch.hold_until_us, standing.run))
    if batch.hold_until_us != 0:
        standings[session.fence] = standing


def _list_marks(connection: Connection, run: int) -> None:
    """Put marks that are in rows where all others are."""
    connection.execute(SQL["list_marks"], (run,))
    connection.execute(SQL["note_listed"], (run,))


def close_session(connection: Connection, session: Session) -> None:
    known = connection.execute(SQL["find_run"], (pack(session.root_run_id),)).fetchone()
    if known is not None:
        _list_marks(connection, known[0])
        connection.execute(SQL["leave_run"], (known[0], session.fence))


def fork(connection: Connection, root_run_id: str, branch: str, parent: str, at_seq: int, now_us: int) -> BranchInfo:
    known = reads.branches(connection, root_run_id)
    rules.check_fork(root_run_id, known.infos, branch, parent, at_seq)
    segments = rules.needed(rules.lineage(known.infos, parent, at_seq), reads.snapshots(connection, known))
    for name, after, upto in segments:
        assert upto is not None
        place = (key_of(known.keys[name], after), key_of(known.keys[name], upto))
        (found,) = connection.execute(SQL["count_events"], place).fetchone()
        rules.check_restorable(root_run_id, at_seq, upto - after, found)
    (run, *_) = connection.execute(SQL["find_run"], (pack(root_run_id),)).fetchone()
    connection.execute(SQL["add_branch"], (run, branch, parent, at_seq, at_seq, now_us))
    return BranchInfo(branch, parent, at_seq, at_seq, now_us)


def prune(connection: Connection, root_run_id: str, keep_marks: Iterable[str]) -> int:
    known = reads.branches(connection, root_run_id)
    if not known.infos:
        raise rules.no_run(root_run_id)
    (run, *_) = connection.execute(SQL["find_run"], (pack(root_run_id),)).fetchone()
    _list_marks(connection, run)
    marks = reads.marks(connection, root_run_id, END)
    plan = rules.plan_prune(known.infos, reads.snapshots(connection, known), marks, keep_marks)
    connection.execute(SQL["settle_run"], (run,))
    freed = 0
    for name, first, last in plan.rows:
        place = (key_of(known.keys[name], first), key_of(known.keys[name], last))
        freed += connection.execute(SQL["size_events"], place).fetchone()[0]
        connection.execute(SQL["drop_events"], place)
        connection.execute(SQL["raise_floor"], (known.infos[name].head, known.keys[name]))
    for name, seq in plan.snapshots:
        freed += connection.execute(SQL["size_snapshot"], (known.keys[name], seq)).fetchone()[0]
        connection.execute(SQL["drop_snapshot"], (known.keys[name], seq))
    connection.executemany(SQL["drop_mark"], [(pack(mark),) for mark in plan.marks])
    connection.executemany(SQL["reparent_mark"], [(pack(parent), pack(mark)) for mark, parent in plan.parents.items()])
    unused = [
        key
        for key, digest in connection.execute(SQL["used_blobs"], (run,)).fetchall()
        if not connection.execute(SQL["mentions"], {"run": run, "digest": digest.encode()}).fetchone()[0]
    ]
    return freed + _drop_blobs(connection, run, unused)


def _drop_blobs(connection: Connection, run: int, keys: Iterable[int]) -> int:
    """Take blobs from a run; those that no run uses go."""
    freed = 0
    for key in keys:
        connection.execute(SQL["disuse_blob"], (run, key))
        if size := connection.execute(SQL["size_unused_blob"], (key,)).fetchone():
            freed += size[0]
            connection.execute(SQL["drop_blob"], (key,))
    return freed


def delete(connection: Connection, root_run_id: str, now_us: int) -> None:
    known = connection.execute(SQL["find_run"], (pack(root_run_id),)).fetchone()
    if known is None:
        return
    run, _, owner, held_until_us, _ = known
    rules.check_free(root_run_id, "", owner, held_until_us, now_us)
    job_rules.check_ended(root_run_id, job_reads.job(connection, root_run_id))
    job_writes.delete(connection, root_run_id)  # in the same transaction: nobody can retry a job that has no journal
    for key in reads.branches(connection, root_run_id).keys.values():
        connection.execute(SQL["drop_events"], (key_of(key, 0), key_of(key, END)))
        for query in ("drop_branch_snapshots", "drop_branch_marks"):
            connection.execute(SQL[query], (key,))
    _drop_blobs(connection, run, [key for key, _ in connection.execute(SQL["used_blobs"], (run,)).fetchall()])
    connection.execute(SQL["drop_branches"], (run,))
    connection.execute(SQL["drop_run"], (run,))
