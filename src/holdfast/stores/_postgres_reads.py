"""Reading a PostgreSQL journal. Each function takes an asyncpg connection."""

from __future__ import annotations

from typing import Any

from holdfast.ports import BranchInfo, Mark, Row, RunInfo, Snapshot
from holdfast.stores import _rules as rules
from holdfast.stores._queries import load

SQL = load("postgres")
END = 2**63 - 1
"""Stands for "no end" where SQL wants a number."""


async def branches(connection: Any, root_run_id: str) -> rules.Branches:
    infos, keys = {}, {}
    for key, name, parent, fork_seq, head, created_us in await connection.fetch(SQL["branches"], root_run_id):
        infos[name] = BranchInfo(name, parent, fork_seq, head, created_us)
        keys[name] = key
    return rules.Branches(infos, keys)


async def run(connection: Any, root_run_id: str) -> RunInfo | None:
    values = await connection.fetchrow(SQL["run"], root_run_id)
    return RunInfo(*values) if values else None


async def runs(connection: Any, status: str | None, limit: int) -> list[RunInfo]:
    return [RunInfo(*values) for values in await connection.fetch(SQL["runs"], status, limit)]


async def page(connection: Any, branch_key: int, segment: rules.Segment) -> list[Row]:
    """The next rows of a stretch, bounded in number and bytes; empty at its end."""
    upto = END if segment.upto is None else segment.upto
    place = (branch_key, segment.after, upto)
    rows = size = 0
    for _, length in await connection.fetch(SQL["page_sizes"], *place, rules.PAGE_ROWS):
        rows += 1
        size += length
        if size >= rules.PAGE_BYTES:
            break
    return [Row.of(values) for values in await connection.fetch(SQL["page"], *place, rows)]


async def last_snapshot(connection: Any, root_run_id: str, branch: str, upto: int | None) -> Snapshot | None:
    known = await branches(connection, root_run_id)
    for name, _, last in reversed(known.lineage(root_run_id, branch, upto)):
        place = (known.keys[name], END if last is None else last)
        if values := await connection.fetchrow(SQL["last_snapshot"], *place):
            return Snapshot(*values)
    return None


async def blob(connection: Any, digest: str) -> bytes:
    data: bytes | None = await connection.fetchval(SQL["blob"], digest)
    if data is None:
        raise rules.no_blob(digest)
    return data


async def mark(connection: Any, mark_id: str) -> Mark | None:
    values = await connection.fetchrow(SQL["mark"], mark_id)
    return Mark(*values) if values else None


async def marks(connection: Any, root_run_id: str | None, limit: int) -> list[Mark]:
    return [Mark(*values) for values in await connection.fetch(SQL["marks"], root_run_id, limit)]


async def size(connection: Any, root_run_id: str) -> int:
    total: int = await connection.fetchval(SQL["size_run"], root_run_id)
    return total


async def snapshots(connection: Any, known: rules.Branches) -> dict[str, list[int]]:
    """Where the snapshots of each branch are."""
    return {name: [seq for (seq,) in await connection.fetch(SQL["snapshots"], key)] for name, key in known.keys.items()}
