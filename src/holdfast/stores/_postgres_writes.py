"""Changing a PostgreSQL journal. Each function runs in a READ COMMITTED transaction and locks its run first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.ports import BranchInfo, RunInfo, Session
from holdfast.stores import _postgres_reads as reads
from holdfast.stores import _rules as rules
from holdfast.stores._postgres_reads import END, SQL


async def open_run(connection: Any, info: RunInfo, branch: str, owner: str, now_us: int, hold_until_us: int) -> Session:
    root_run_id = info.root_run_id
    while (known := await connection.fetchrow(SQL["lock_run"], root_run_id)) is None:
        if branch != rules.MAIN:
            raise rules.no_branch(root_run_id, branch)
        if session := await _open_new(connection, info, owner, now_us, hold_until_us):
            return session
    key, _, holder, held_until_us = known
    rules.check_free(root_run_id, owner, holder, held_until_us, now_us)
    branches = (await reads.branches(connection, root_run_id)).infos
    if branch not in branches:
        raise rules.no_branch(root_run_id, branch, branches)
    taken = (key, info.kind, info.name, info.status, info.fingerprint, info.definition, now_us, owner, hold_until_us)
    incarnation, fence = await connection.fetchrow(SQL["take_run"], *taken)
    return Session(root_run_id, branch, incarnation, fence, branches[branch].head)


async def _open_new(connection: Any, info: RunInfo, owner: str, now_us: int, hold_until_us: int) -> Session | None:
    """None if the run is there after all."""
    said = (info.root_run_id, info.kind, info.name, info.status, info.fingerprint, info.definition, info.created_us)
    made = await connection.fetchrow(SQL["add_run"], *said, now_us, owner, hold_until_us)
    if made is None:
        return None
    key, fence = made
    await connection.execute(SQL["add_branch"], key, rules.MAIN, None, 0, now_us)
    return Session(info.root_run_id, rules.MAIN, 1, fence, 0)


async def close_session(connection: Any, session: Session) -> None:
    await connection.execute(SQL["leave_run"], session.root_run_id, session.fence)


async def fork(connection: Any, root_run_id: str, branch: str, parent: str, at_seq: int, now_us: int) -> BranchInfo:
    run = await _lock(connection, root_run_id)
    known = await reads.branches(connection, root_run_id)
    rules.check_fork(root_run_id, known.infos, branch, parent, at_seq)
    lineage = rules.lineage(known.infos, parent, at_seq)
    for name, after, upto in rules.needed(lineage, await reads.snapshots(connection, known)):
        assert upto is not None
        found = await connection.fetchval(SQL["count_events"], known.keys[name], after, upto)
        rules.check_restorable(root_run_id, at_seq, upto - after, found)
    await connection.execute(SQL["add_branch"], run, branch, parent, at_seq, now_us)
    return BranchInfo(branch, parent, at_seq, at_seq, now_us)


async def prune(connection: Any, root_run_id: str, keep_marks: Iterable[str]) -> int:
    run = await _lock(connection, root_run_id)
    known = await reads.branches(connection, root_run_id)
    marks = await reads.marks(connection, root_run_id, END)
    plan = rules.plan_prune(known.infos, await reads.snapshots(connection, known), marks, keep_marks)
    freed = 0
    for name, first, last in plan.rows:
        freed += await connection.fetchval(SQL["drop_events"], known.keys[name], first, last)
    for name, seq in plan.snapshots:
        freed += await connection.fetchval(SQL["drop_snapshot"], known.keys[name], seq)
    await connection.execute(SQL["drop_marks"], plan.marks)
    await connection.executemany(SQL["reparent_mark"], list(plan.parents.items()))
    unused = [digest for (digest,) in await connection.fetch(SQL["unmentioned"], run)]
    return freed + await _drop_blobs(connection, run, unused)


async def _drop_blobs(connection: Any, run: int, digests: list[str]) -> int:
    """Take blobs from a run; those that no run uses go."""
    if not digests:
        return 0
    await connection.execute(SQL["lock_blobs"], digests)
    await connection.execute(SQL["disuse_blobs"], run, digests)
    freed: int = await connection.fetchval(SQL["drop_blobs"], digests)
    return freed


async def delete(connection: Any, root_run_id: str, now_us: int) -> None:
    known = await connection.fetchrow(SQL["lock_run"], root_run_id)
    if known is None:
        return
    run, _, owner, held_until_us = known
    rules.check_free(root_run_id, "", owner, held_until_us, now_us)
    keys = list((await reads.branches(connection, root_run_id)).keys.values())
    for query in ("drop_branch_events", "drop_branch_snapshots", "drop_branch_marks"):
        await connection.execute(SQL[query], keys)
    await _drop_blobs(connection, run, [digest for (digest,) in await connection.fetch(SQL["used_blobs"], run)])
    await connection.execute(SQL["drop_run"], run)


async def _lock(connection: Any, root_run_id: str) -> int:
    known = await connection.fetchrow(SQL["lock_run"], root_run_id)
    if known is None:
        raise rules.no_run(root_run_id)
    key: int = known[0]
    return key
