"""Writing the outbox of an SQLite file, each time inside a transaction that changes the job too."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from sqlite3 import Connection
from typing import Any

import msgspec

from holdfast.ports import Ask, Delivery, DeliveryStatus, Job, JobMove, JobStatus
from holdfast.stores import _outbox_rules as rules
from holdfast.stores import _sqlite_job_reads as job_reads
from holdfast.stores import _sqlite_reads as reads
from holdfast.stores._outbox_rules import Telling
from holdfast.stores._queries import load
from holdfast.stores._sqlite_rows import pack

SQL = load("sqlite", "outbox.sql")


# -- what the job store tells --------------------------------------------------------------------------------------


def tell_of_new(connection: Connection, telling: Telling, job: Job) -> None:
    """A job was added."""
    if telling.hears(job.webhook) and (what := rules.happening(job, (), job.created_us)) is not None:
        _tell(connection, telling, job, [what])


def tell_of_move(connection: Connection, telling: Telling, move: JobMove, asked: tuple[Ask, ...]) -> None:
    """A job has a new status; before, it asked for `asked`."""
    job = job_reads.job(connection, move.job_id)
    assert job is not None
    if move.target is JobStatus.RUNNING and rules.follows_steps(job.flow, telling.subscriptions):
        connection.execute(SQL["begin_tail"], {"job_id": job.id, "run": pack(job.id)})
    if move.source is JobStatus.RUNNING:
        tell_of_steps(connection, telling, job.id)
    if job.status.is_terminal:
        connection.execute(SQL["end_tail"], (job.id,))
    if (what := rules.happening(job, asked, move.now_us)) is not None:
        _tell(connection, telling, job, [what])


def tell_of_asks(connection: Connection, telling: Telling, job_id: str, asked: tuple[Ask, ...], now_us: int) -> None:
    """A running job asks for something; before, it asked for `asked`."""
    tell_of_steps(connection, telling, job_id)
    job = job_reads.job(connection, job_id)
    if job is not None and (what := rules.happening(job, asked, now_us)) is not None:
        _tell(connection, telling, job, [what])


def tell_of_steps(connection: Connection, telling: Telling, job_id: str = "") -> None:
    """Steps completed since journals were last read for this: of one job, or of all that somebody follows."""
    for followed, run, after, head in connection.execute(SQL["heads"], {"job_id": job_id}).fetchall():
        rows = connection.execute(SQL["new_steps"], {"after": after, "head": head, "run": run}).fetchall()
        job = job_reads.job(connection, followed)
        if job is None:
            connection.execute(SQL["end_tail"], (followed,))
            continue
        steps = (rules.completed_step(data, at_us, partial(reads.blob, connection)) for at_us, data in rows)
        _tell(connection, telling, job, filter(None, steps))
        connection.execute(SQL["move_tail"], (head, followed))


def _tell(connection: Connection, telling: Telling, job: Job, happenings: Iterable[rules.Happening]) -> None:
    for what in happenings:
        for delivery in rules.deliveries(job, what, telling.subscriptions):
            connection.execute(SQL["add_delivery"], msgspec.structs.asdict(delivery))
            telling.has_told = True


# -- what deliverers do --------------------------------------------------------------------------------------------


def claim(
    connection: Connection, telling: Telling, owner: str, now_us: int, until_us: int, limit: int
) -> list[Delivery]:
    tell_of_steps(connection, telling)
    due = connection.execute(SQL["due"], (now_us, limit)).fetchall()
    found = [
        connection.execute(SQL["claim"], {"owner": owner, "until_us": until_us, "key": key}).fetchall()
        for (key,) in due
    ]
    return [Delivery(*row) for rows in found for row in rows]


def settle(
    connection: Connection,
    claimed: Delivery,
    status: DeliveryStatus,
    error: str = "",
    next_us: int | None = None,
    now_us: int | None = None,
) -> bool:
    values: dict[str, Any] = {
        "id": claimed.id, "owner": claimed.owner, "attempts": claimed.attempts, "status": status, "error": error,
        "next_us": next_us, "settled_us": now_us,
    }  # fmt: skip
    if not connection.execute(SQL["settle"], values).rowcount:
        return False
    if status != "pending":
        values = {"job_id": claimed.job_id, "target": claimed.target, "now_us": now_us}
        connection.execute(SQL["release_next"], values)
    return True


def retry(connection: Connection, delivery_id: str, now_us: int) -> bool:
    return connection.execute(SQL["retry"], {"id": delivery_id, "now_us": now_us}).rowcount > 0


def prune(connection: Connection, delivered_before_us: int, dead_before_us: int) -> int:
    bounds = (("delivered", delivered_before_us), ("dead", dead_before_us))
    return sum(connection.execute(SQL["prune"], bound).rowcount for bound in bounds)
