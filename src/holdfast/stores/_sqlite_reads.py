"""Reading an SQLite journal. Each function takes a connection and one short read."""

from __future__ import annotations

from sqlite3 import Connection

from holdfast.ports import BranchInfo, Mark, Row, RunInfo, Snapshot
from holdfast.stores import _rules as rules
from holdfast.stores._queries import load
from holdfast.stores._sqlite_rows import key_of, pack, to_mark, to_row, to_run

SQL = load("sqlite")
END = 2**32 - 1
"""Stands for "no end" where SQL wants a number. A branch has no more positions than this."""


def branches(connection: Connection, root_run_id: str) -> rules.Branches:
    infos, keys = {}, {}
    for key, name, parent, fork_seq, head, created_us in connection.execute(SQL["branches"], (pack(root_run_id),)):
        infos[name] = BranchInfo(name, parent, fork_seq, head, created_us)
        keys[name] = key
    return rules.Branches(infos, keys)


def run(connection: Connection, root_run_id: str) -> RunInfo | None:
    values = connection.execute(SQL["run"], (pack(root_run_id),)).fetchone()
    return to_run(values) if values else None


def runs(connection: Connection, status: str | None, limit: int) -> list[RunInfo]:
    if status is None:
        return [to_run(values) for values in connection.execute(SQL["runs"], (limit,))]
    return [to_run(values) for values in connection.execute(SQL["runs_with_status"], (status, limit))]


def page(connection: Connection, branch_key: int, segment: rules.Segment) -> list[Row]:
    """The next rows of a stretch, bounded in number and bytes; empty at its end."""
    upto = END if segment.upto is None else min(segment.upto, END)
    first, last = key_of(branch_key, segment.after), key_of(branch_key, upto)
    found: list[Row] = []
    size = 0
    cursor = connection.execute(SQL["page"], (first, last, rules.PAGE_ROWS))
    try:
        for values in cursor:
            row = to_row(values)
            found.append(row)
            size += len(row.payload) + len(row.delta or b"")
            if size >= rules.PAGE_BYTES:
                break
    finally:
        cursor.close()  # an open cursor would keep the WAL from being reset
    return found


def last_snapshot(connection: Connection, root_run_id: str, branch: str, upto: int | None) -> Snapshot | None:
    known = branches(connection, root_run_id)
    for name, _, last in reversed(known.lineage(root_run_id, branch, upto)):
        values = connection.execute(SQL["last_snapshot"], (known.keys[name], END if last is None else last)).fetchone()
        if values:
            return Snapshot(*values)
    return None


def blob(connection: Connection, digest: str) -> bytes:
    values = connection.execute(SQL["blob"], (digest,)).fetchone()
    if values is None:
        raise rules.no_blob(digest)
    data: bytes = values[0]
    return data


def mark(connection: Connection, mark_id: str) -> Mark | None:
    values = connection.execute(SQL["mark"], (pack(mark_id),)).fetchone()
    return to_mark(values) if values else None


def marks(connection: Connection, root_run_id: str | None, limit: int) -> list[Mark]:
    if root_run_id is None:
        return [to_mark(values) for values in connection.execute(SQL["marks"], (limit,))]
    return [to_mark(values) for values in connection.execute(SQL["marks_of_run"], (pack(root_run_id), limit))]


def size(connection: Connection, root_run_id: str) -> int:
    (total,) = connection.execute(SQL["size_run"], {"id": pack(root_run_id)}).fetchone()
    return int(total)


def snapshots(connection: Connection, known: rules.Branches) -> dict[str, list[int]]:
    """Where the snapshots of each branch are."""
    return {name: [seq for (seq,) in connection.execute(SQL["snapshots"], (key,))] for name, key in known.keys.items()}
