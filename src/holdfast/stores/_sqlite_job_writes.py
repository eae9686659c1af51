"""Changing jobs in an SQLite file. Each function runs inside a write transaction that others may share: it refuses by what it
returns, having changed nothing."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection

import msgspec

from holdfast.ports import Ask, Caps, Job, JobMove, JobRequest, JobStatus, WorkerInfo
from holdfast.stores import _job_rules as rules
from holdfast.stores import _sqlite_job_reads as reads
from holdfast.stores import _sqlite_outbox_writes as outbox
from holdfast.stores._outbox_rules import Telling
from holdfast.stores._sqlite_job_reads import SQL

_REQUESTABLE = (JobStatus.QUEUED, JobStatus.RUNNING)


def add(connection: Connection, telling: Telling, jobs: Sequence[Job], by: str) -> str:
    """Returns what is wrong, having changed nothing; empty when all is well."""
    if problem := _problem(connection, jobs):
        return problem
    keys: dict[str, int] = {}
    for job in jobs:
        values = {
            "id": job.id, "backwards": job.id[::-1], "flow": job.flow, "name": job.name, "status": job.status,
            "reason": job.reason, "priority": job.priority, "lane": rules.lane_of(job.uses), "created_us": job.created_us,
            "webhook": job.webhook,
        }  # fmt: skip
        key = connection.execute(SQL["add_job"], values).lastrowid
        assert key is not None
        keys[job.id] = key
        connection.execute(SQL["add_data"], (key, job.definition, job.inputs))
        connection.executemany(SQL["add_label"], [(key, label, value) for label, value in job.labels.items()])
        connection.execute(SQL["add_change"], (key, None, job.status, job.created_us, job.reason, by))
    for job in jobs:
        _add_needs(connection, keys, job)
        outbox.tell_of_new(connection, telling, job)
    return ""


def _problem(connection: Connection, jobs: Sequence[Job]) -> str:
    new = {job.id for job in jobs}
    if len(new) < len(jobs):
        return "two of the jobs have the same id"
    for job in jobs:
        if connection.execute(SQL["key_and_status"], (job.id,)).fetchone():
            return f"there is a job {job.id} already"
        for need in set(job.needs) - new:
            found = connection.execute(SQL["key_and_status"], (need,)).fetchone()
            if found is None:
                return f"job {job.id} needs job {need}, and there is no such job"
            if found[1] in (JobStatus.FAILED, JobStatus.CANCELLED):
                return f"job {job.id} needs job {need}, which is {found[1]}: retry that first"
    return ""


def _add_needs(connection: Connection, keys: dict[str, int], job: Job) -> None:
    for need in job.needs:
        key = keys.get(need) or connection.execute(SQL["key_and_status"], (need,)).fetchone()[0]
        connection.execute(SQL["add_need"], (keys[job.id], key))
    if job.needs:
        connection.execute(SQL["recount_needs"], (keys[job.id],))


# -- changes of status ---------------------------------------------------------------------------------------------


def advance(connection: Connection, telling: Telling, moves: Sequence[JobMove]) -> list[Job | None]:
    return [reads.job(connection, move.job_id) if _move(connection, telling, move) else None for move in moves]


def _move(connection: Connection, telling: Telling, move: JobMove, worker: str = "") -> bool:
    """Change one status, and what follows from it. Every change of a status comes through here."""
    if rules.minds_requests(move):
        requests = connection.execute(SQL["requests_of_job"], (move.job_id,)).fetchall()
        heeding = rules.heeding(move, [(request_id, kind) for request_id, _, kind, *_ in requests])
        if heeding is None:
            return False
        move = heeding
    to_queue = move.target is JobStatus.QUEUED
    if to_queue and connection.execute(SQL["lost_need"], (move.job_id,)).fetchone():
        return False
    values = {
        "id": move.job_id, "source": move.source, "target": move.target, "version": move.version, "reason": move.reason,
        "worker": worker, "wake_us": move.wake_us, "now_us": move.now_us,
        "ended_us": move.now_us if move.target.is_terminal else None,
    }  # fmt: skip
    changed = connection.execute(SQL["move"], values).fetchall()  # all: an open cursor would keep the commit waiting
    if not changed:
        return False
    ((key, webhook),) = changed
    by = move.by or worker
    connection.execute(SQL["add_change"], (key, move.source, move.target, move.now_us, move.reason, by))
    hears = telling.hears(webhook)
    asked = reads.asks(connection, key) if hears else ()
    if move.outputs is not None or move.source is JobStatus.COMPLETED:
        connection.execute(SQL["set_outputs"], (move.outputs, key))
    if move.asks is not None or move.target.is_terminal:
        connection.execute(SQL["set_asks"], (msgspec.json.encode(move.asks or ()), key))
    if to_queue:
        connection.execute(SQL["recount_needs"], (key,))
    if hears:
        outbox.tell_of_move(connection, telling, move, asked)
    if move.source is JobStatus.COMPLETED:  # those that need it wait for it again
        connection.execute(SQL["recount_dependents"], (key,))
    if move.target.is_terminal:
        _follow_end(connection, telling, key, move)
    return True


def _follow_end(connection: Connection, telling: Telling, key: int, move: JobMove) -> None:
    for request_id, _, kind, *_ in connection.execute(SQL["requests_of_job"], (move.job_id,)).fetchall():
        if not rules.outlives(kind, move.target):
            connection.execute(SQL["settle"], (request_id,))
    if move.target is JobStatus.COMPLETED:
        connection.execute(SQL["recount_dependents"], (key,))
        return
    reason = rules.following(move.job_id, move.target)
    for job_id, status, version in connection.execute(SQL["dependents"], (key,)).fetchall():
        source = JobStatus(status)
        _move(connection, telling, JobMove(job_id, source, JobStatus.FAILED, version, move.now_us, reason, move.by))


def claim(connection: Connection, telling: Telling, worker_id: str, caps: Caps, now_us: int, limit: int) -> list[Job]:
    if not connection.execute(SQL["is_registered"], (worker_id,)).fetchone():
        return []
    ready = [
        rules.Ready(-priority, key, lane, job_id, version)
        for (lane,) in connection.execute(SQL["ready_lanes"]).fetchall()
        for priority, key, job_id, version in connection.execute(SQL["ready_in_lane"], (lane, limit)).fetchall()
    ]
    running = dict(connection.execute(SQL["running_lanes"]).fetchall())
    claimed: list[Job] = []
    for one in rules.choose(ready, running, caps, limit):
        _move(connection, telling, _claiming(one.job_id, one.version, now_us), worker_id)
        claimed += filter(None, [reads.job(connection, one.job_id)])
    return claimed


def claim_job(
    connection: Connection, telling: Telling, job_id: str, worker_id: str, caps: Caps, now_us: int
) -> Job | None:
    if not connection.execute(SQL["is_registered"], (worker_id,)).fetchone():
        return None
    ready = connection.execute(SQL["ready"], (job_id,)).fetchone()
    running = dict(connection.execute(SQL["running_lanes"]).fetchall())
    if ready is None or not rules.has_room(ready[0], running, caps):
        return None
    _move(connection, telling, _claiming(job_id, ready[1], now_us), worker_id)
    return reads.job(connection, job_id)


def _claiming(job_id: str, version: int, now_us: int) -> JobMove:
    return JobMove(job_id, JobStatus.QUEUED, JobStatus.RUNNING, version, now_us, rules.CLAIMED)


def wake(connection: Connection, telling: Telling, now_us: int) -> int | None:
    for job_id, version in connection.execute(SQL["due"], (now_us,)).fetchall():
        _move(connection, telling, JobMove(job_id, JobStatus.WAITING, JobStatus.QUEUED, version, now_us, rules.WOKEN))
    return reads.next_due(connection)


# -- the rest ------------------------------------------------------------------------------------------------------


def show(
    connection: Connection, telling: Telling, job_id: str, version: int, asks: tuple[Ask, ...], now_us: int
) -> bool:
    found = connection.execute(SQL["version_of"], (job_id,)).fetchone()
    if found is None or found[1:3] != (JobStatus.RUNNING, version):
        return False
    key, _, _, webhook = found
    asked = reads.asks(connection, key) if telling.hears(webhook) else asks
    connection.execute(SQL["set_asks"], (msgspec.json.encode(asks), key))
    if asked != asks:
        outbox.tell_of_asks(connection, telling, job_id, asked, now_us)
    return True


def archive(connection: Connection, job_id: str, archived: bool, now_us: int) -> bool:
    return connection.execute(SQL["archive"], (archived, now_us, job_id)).rowcount > 0


def delete(connection: Connection, job_id: str) -> bool:
    found = connection.execute(SQL["key_and_status"], (job_id,)).fetchone()
    if found is None or not JobStatus(found[1]).is_terminal:
        return False
    for query in ("needs", "needed", "labels", "changes", "requests", "data", "job"):
        connection.execute(SQL[f"delete_{query}"], (found[0],))
    return True


def request(connection: Connection, telling: Telling, request: JobRequest, move: JobMove | None) -> bool:
    known = connection.execute(SQL["find_request"], (request.id,)).fetchone()
    if known:
        return bool(known == (request.data, request.kind))
    found = connection.execute(SQL["key_and_status"], (request.job_id,)).fetchone()
    if found is None:
        return False
    fits = found[1] in _REQUESTABLE if move is None else _move(connection, telling, move)
    if fits:
        values = (request.id, found[0], request.kind, request.at_us, request.data, request.by)
        connection.execute(SQL["add_request"], values)
    return fits


def settle(connection: Connection, request_id: str) -> None:
    connection.execute(SQL["settle"], (request_id,))


def register(connection: Connection, worker: WorkerInfo) -> None:
    owner = msgspec.json.encode(worker.owner)
    values = (worker.id, owner, worker.held_until_us, worker.started_us, worker.serving)
    connection.execute(SQL["register"], values)


def renew(connection: Connection, worker: WorkerInfo) -> bool:
    return connection.execute(SQL["renew"], (worker.held_until_us, worker.serving, worker.id)).rowcount > 0


def register_only(connection: Connection, worker: WorkerInfo) -> bool:
    if connection.execute(SQL["other_serving"], (worker.id, worker.started_us)).fetchone():
        return False
    register(connection, worker)
    return True


def lose(connection: Connection, telling: Telling, worker_id: str, reason: str, now_us: int) -> list[str]:
    connection.execute(SQL["strike"], (worker_id,))
    held = connection.execute(SQL["held"], (worker_id,)).fetchall()
    for job_id, status, version in held:
        move = JobMove(job_id, JobStatus(status), JobStatus.QUEUED, version, now_us, reason, worker_id)
        _move(connection, telling, move)
    return [job_id for job_id, _, _ in held]
