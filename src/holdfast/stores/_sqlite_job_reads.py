"""Reading jobs from an SQLite file."""

from __future__ import annotations

import json
from sqlite3 import Connection
from typing import Any

import msgspec

from holdfast.ports import Ask, Job, JobChange, JobQuery, JobRequest, JobStatus, Owner, WorkerInfo
from holdfast.stores import _job_rules as rules
from holdfast.stores._queries import load

SQL = load("sqlite", "jobs.sql")
NEWEST = 2**63 - 1


def job(connection: Connection, job_id: str) -> Job | None:
    found = connection.execute(SQL["job"], (job_id,)).fetchone()
    return None if found is None else _job(connection, found)


def jobs(connection: Connection, query: JobQuery) -> list[Job]:
    before = NEWEST
    if query.before:
        last = connection.execute(SQL["key_and_status"], (query.before,)).fetchone()
        before = 0 if last is None else last[0]
    values = {
        "before": before,
        "statuses": json.dumps(query.statuses) if query.statuses else None,
        "flow": query.flow,
        "archived": query.archived,
        "text": query.text,
        "labels": json.dumps(query.labels),
        "limit": query.limit,
    }
    return [_job(connection, row) for row in connection.execute(SQL["jobs"], values).fetchall()]


def _job(connection: Connection, row: tuple[Any, ...]) -> Job:
    (key, job_id, flow, status, created_us, definition, inputs, name, priority, lane, version, reason, outputs, asks, wake_us,
     worker, runs, updated_us, started_us, ended_us, archived, webhook) = row  # fmt: skip
    return Job(
        id=job_id,
        flow=flow,
        status=JobStatus(status),
        created_us=created_us,
        definition=_bytes(definition),
        inputs=_bytes(inputs),
        name=name,
        labels=dict(connection.execute(SQL["labels"], (key,)).fetchall()),
        priority=priority,
        uses=rules.uses_of(lane),
        needs=tuple(need for (need,) in connection.execute(SQL["needs"], (key,)).fetchall()),
        version=version,
        reason=reason,
        outputs=None if outputs is None else _bytes(outputs),
        asks=decode_asks(asks),
        wake_us=wake_us,
        worker=worker,
        runs=runs,
        updated_us=updated_us,
        started_us=started_us,
        ended_us=ended_us,
        archived=bool(archived),
        webhook=webhook,
    )


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def decode_asks(data: bytes | str) -> tuple[Ask, ...]:
    return msgspec.json.decode(data, type=tuple[Ask, ...])


def asks(connection: Connection, key: int) -> tuple[Ask, ...]:
    return decode_asks(connection.execute(SQL["asks"], (key,)).fetchone()[0])


def has_ready(connection: Connection) -> bool:
    return connection.execute(SQL["ready_lanes"]).fetchone() is not None


def is_ready(connection: Connection, job_id: str) -> bool:
    return connection.execute(SQL["ready"], (job_id,)).fetchone() is not None


def next_due(connection: Connection) -> int | None:
    due: int | None = connection.execute(SQL["next_due"]).fetchone()[0]
    return due


def find(connection: Connection, prefix: str, limit: int) -> list[str]:
    begins = connection.execute(SQL["begins"], {"prefix": prefix, "limit": limit}).fetchall()
    found = begins or connection.execute(SQL["ends"], {"prefix": prefix[::-1], "limit": limit}).fetchall()
    return [job_id for (job_id,) in found]


def count(connection: Connection) -> dict[JobStatus, int]:
    return {JobStatus(status): number for status, number in connection.execute(SQL["count"]).fetchall()}


def changes(connection: Connection, after: int, job_id: str, limit: int) -> list[JobChange]:
    if job_id:
        rows = connection.execute(SQL["changes_of_job"], (job_id, after, limit)).fetchall()
    else:
        rows = connection.execute(SQL["changes"], (after, limit)).fetchall()
    return [
        JobChange(seq, changed, None if source is None else JobStatus(source), JobStatus(target), at_us, reason, by)
        for seq, changed, source, target, at_us, reason, by in rows
    ]


def last_change(connection: Connection) -> int:
    return int(connection.execute(SQL["last_change"]).fetchone()[0])


def requests(connection: Connection, worker_id: str, job_id: str) -> list[JobRequest]:
    query, of = ("requests_of_job", job_id) if job_id else ("requests_of_worker", worker_id)
    return [JobRequest(*row) for row in connection.execute(SQL[query], (of,)).fetchall()]


def workers(connection: Connection) -> list[WorkerInfo]:
    return [
        WorkerInfo(msgspec.json.decode(owner, type=Owner), held_until_us, started_us, bool(serving))
        for owner, held_until_us, started_us, serving in connection.execute(SQL["workers"]).fetchall()
    ]
