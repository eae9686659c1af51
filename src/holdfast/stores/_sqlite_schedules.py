"""`SqliteSchedules`: schedules and their ticks in the SQLite file that jobs are kept in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Self, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.errors import CorruptStoreError, UsageError
from holdfast.ports import KEPT_TICKS, Job, Schedule, Tick
from holdfast.stores import _job_rules as job_rules
from holdfast.stores import _schedule_rules as rules
from holdfast.stores import _sqlite_job_writes as job_writes
from holdfast.stores._outbox_rules import Telling
from holdfast.stores._queries import load
from holdfast.stores._sqlite import SqliteEngine, SqliteStore
from holdfast.stores._sqlite_beside import Beside

SQL = load("sqlite", "schedules.sql")
JOB_SQL = load("sqlite", "jobs.sql")
NEWEST = 2**62
NOBODY = Telling()
"""A job that a schedule fires is queued, which is told to nobody."""
T = TypeVar("T")


class SqliteSchedules(Beside):
    """Schedules in an SQLite file, made on first use; several processes may share it. `beside()` shares a store's commits too."""

    def __init__(self, path: str | os.PathLike[str], *, busy_seconds: float = 10.0) -> None:
        self.path = Path(path).expanduser().absolute()
        self._engine = SqliteEngine(self.path, busy_seconds)
        self._owns_engine = True

    @classmethod
    def beside(cls, store: SqliteStore) -> Self:
        """Schedules in a store's file. Closing them leaves the store open."""
        made = cls.__new__(cls)
        made.path, made._engine, made._owns_engine = store.path, store._engine, False
        return made

    # -- writing ---------------------------------------------------------------------------------------------------

    async def add(self, schedule: Schedule) -> None:
        if problem := await self._write(partial(_add, schedule=schedule)):
            raise UsageError(problem)

    async def record(
        self, schedule: Schedule, ticks: Sequence[Tick] = (), jobs: Sequence[Job] = (), *, by: str = ""
    ) -> bool:
        job_rules.check_new(jobs)
        return await self._write(partial(_record, schedule=schedule, ticks=ticks, jobs=jobs, by=by))

    async def remove(self, schedule_id: str) -> bool:
        return await self._write(partial(_remove, schedule_id=schedule_id))

    async def _write(self, work: Callable[[Connection], T]) -> T:
        self._engine.check_open()
        return await self._engine.writer.write(work, alone=False)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def schedule(self, schedule_id: str) -> Schedule | None:
        found = await self._schedules("schedule", id=schedule_id)
        return found[0] if found else None

    async def schedules(self) -> list[Schedule]:
        return await self._schedules("schedules")

    async def due(self, *, now_us: int) -> list[Schedule]:
        return await self._schedules("due", now_us=now_us)

    async def next_due(self) -> int | None:
        ((due,),) = await self._read("next_due")
        return None if due is None else int(due)

    async def active_jobs(self, name: str, *, limit: int = 1) -> list[str]:
        return [job_id for (job_id,) in await self._read("active_jobs", name=name, limit=limit)]

    async def ticks(self, schedule_id: str, *, before: int = 0, limit: int = 100) -> list[Tick]:
        rows = await self._read("ticks", id=schedule_id, before=before or NEWEST, limit=limit)
        return [Tick(*row) for row in rows]

    async def last_ticks(self) -> dict[str, Tick]:
        return {row[0]: Tick(*row) for row in await self._read("last_ticks")}

    async def _schedules(self, query: str, **values: object) -> list[Schedule]:
        return [self._decode(data) for (data,) in await self._read(query, **values)]

    async def _read(self, query: str, **values: object) -> list[Any]:
        return await self._engine.read(lambda connection: connection.execute(SQL[query], values).fetchall())

    def _decode(self, data: bytes) -> Schedule:
        try:
            return msgspec.json.decode(data, type=Schedule)
        except msgspec.DecodeError as error:
            raise CorruptStoreError(f"{self.path}: a schedule cannot be read: {error}; remove it") from error

    # -- noticing --------------------------------------------------------------------------------------------------

    async def stamp(self) -> int:
        self._engine.check_open()
        return self._engine.connections.stamp()


# -- inside a transaction that others may share: each refuses by what it returns, having changed nothing --------------


def _add(connection: Connection, schedule: Schedule) -> str:
    for known_id, known_name in connection.execute(SQL["taken"], _row(schedule)).fetchall():
        try:
            rules.check_new(schedule, known_id, known_name)
        except UsageError as error:
            return str(error)
    connection.execute(SQL["add_schedule"], _row(schedule))
    return ""


def _record(connection: Connection, schedule: Schedule, ticks: Sequence[Tick], jobs: Sequence[Job], by: str) -> bool:
    found = connection.execute(SQL["key_and_version"], (schedule.id,)).fetchone()
    if found is None or found[1] != schedule.version:
        return False
    key = found[0]
    fresh = [tick for tick in ticks if _add_tick(connection, key, tick)]
    new = [job for job in rules.jobs_of(fresh, jobs) if not _is_known(connection, job)]
    problem = job_writes.add(connection, NOBODY, new, by)
    assert not problem, problem  # they need no other job, and none of them is there
    connection.execute(SQL["set_schedule"], _row(replace(schedule, version=schedule.version + 1)))
    connection.execute(SQL["prune_ticks"], {"schedule": key, "kept": KEPT_TICKS})
    return True


def _add_tick(connection: Connection, key: int, tick: Tick) -> bool:
    values = {
        "schedule": key, "due_us": tick.due_us, "number": tick.number, "at_us": tick.at_us, "outcome": tick.outcome,
        "reason": tick.reason, "job": tick.job_id,
    }  # fmt: skip
    return connection.execute(SQL["add_tick"], values).rowcount > 0


def _is_known(connection: Connection, job: Job) -> bool:
    return connection.execute(JOB_SQL["key_and_status"], (job.id,)).fetchone() is not None


def _remove(connection: Connection, schedule_id: str) -> bool:
    found = connection.execute(SQL["key_and_version"], (schedule_id,)).fetchone()
    if found is None:
        return False
    connection.execute(SQL["delete_ticks"], (found[0],))
    connection.execute(SQL["delete_schedule"], (found[0],))
    return True


def _row(schedule: Schedule) -> dict[str, Any]:
    return {
        "id": schedule.id, "name": schedule.name, "version": schedule.version, "next_us": schedule.next_us,
        "queued_us": schedule.queued_us, "held_until_us": schedule.held_until_us,
        "data": msgspec.json.encode(schedule),
    }  # fmt: skip
