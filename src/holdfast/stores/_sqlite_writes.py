"""Changing an SQLite journal. Each function runs inside a write transaction that others may share.

It raises StorageError only before it has changed anything, so that a refusal leaves the transaction as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from sqlite3 import Connection

from holdfast.ports import Batch, BranchInfo, RunInfo, Session
from holdfast.stores import _job_rules as job_rules
from holdfast.stores import _rules as rules
from holdfast.stores import _sqlite_job_reads as job_reads
from holdfast.stores import _sqlite_job_writes as job_writes
from holdfast.stores import _sqlite_reads as reads
from holdfast.stores._sqlite_reads import END, SQL
from holdfast.stores._sqlite_rows import event_values, key_of, mark_values, pack

_ADD_EVENT, _ADD_MARK, _FENCE = SQL["add_event"], SQL["add_mark"], SQL["fence"]
Standings = dict[int, tuple[int, int, int, int]]
"""By fence: the keys of run and branch, the fork, the head. A fence belongs to one session for ever, so what is known of it stays
true, but for rows that the same session wrote elsewhere: those are found when a row would be written twice."""


def open_run(
    connection: Connection, info: RunInfo, branch: str, owner: str, now_us: int, hold_until_us: int
) -> Session:
    root_run_id = info.root_run_id
    known = connection.execute(SQL["find_run"], (pack(root_run_id),)).fetchone()
    if known:
        rules.check_free(root_run_id, owner, known[2], known[3], now_us)
    branches = reads.branches(connection, root_run_id).infos
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
        connection.execute(SQL["take_run"], values | {"key": known[0]})
        return Session(root_run_id, branch, known[1] + 1, fence, branches[branch].head)
    key = connection.execute(SQL["add_run"], values).lastrowid
    connection.execute(SQL["add_branch"], (key, rules.MAIN, None, 0, 0, now_us))
    return Session(root_run_id, branch, 1, fence, 0)


def append(connection: Connection, batch: Batch, standings: Standings) -> None:
    run, branch = _place(connection, batch, standings)
    if batch.rows:
        connection.executemany(_ADD_EVENT, [event_values(branch, row) for row in batch.rows])
    if batch.blobs:
        connection.executemany(SQL["add_blob"], batch.blobs)
        connection.executemany(SQL["use_blob"], [(run, digest) for digest, _ in batch.blobs])
    if batch.snapshot is not None:
        connection.execute(SQL["add_snapshot"], (branch, batch.snapshot.seq, batch.snapshot.data))
    told_us = batch.rows[-1].at_us if batch.rows else -1  # the rows themselves say when the run changed last
    changed_us = told_us
    for mark in batch.marks:
        connection.execute(_ADD_MARK, mark_values(branch, mark))
        changed_us = max(changed_us, mark.at_us)
    if batch.status is not None or batch.hold_until_us is not None or not 0 <= changed_us <= told_us:
        connection.execute(SQL["touch_run"], (max(changed_us, 0), batch.status, batch.hold_until_us, run))


def _place(connection: Connection, batch: Batch, standings: Standings) -> tuple[int, int]:
    """Where the batch goes, once it is clear that it may: the keys of its run and branch."""
    session = batch.session
    known = standings.get(session.fence)
    if known is not None:
        (fence,) = connection.execute(_FENCE, (known[0],)).fetchone() or (None,)
        if fence != session.fence or (batch.rows and batch.rows[0].seq != known[3] + 1):
            known = None
    if known is None:
        standings.pop(session.fence, None)
        found = connection.execute(SQL["standing"], (pack(session.root_run_id), session.branch)).fetchone()
        rules.check_fence(session, found[0] if found else None)
        known = found[1:]
    run, branch, fork_seq, head = known
    rules.check_batch(batch, head, fork_seq)
    standings[session.fence] = (run, branch, fork_seq, head + len(batch.rows))
    return run, branch


def close_session(connection: Connection, session: Session) -> None:
    connection.execute(SQL["leave_run"], (pack(session.root_run_id), session.fence))


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
    marks = reads.marks(connection, root_run_id, END)
    plan = rules.plan_prune(known.infos, reads.snapshots(connection, known), marks, keep_marks)
    (run, *_) = connection.execute(SQL["find_run"], (pack(root_run_id),)).fetchone()
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
