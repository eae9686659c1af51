"""`SqliteJobs`: jobs and their queue in the SQLite file that journals are kept in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Self, TypeVar

from holdfast.errors import UsageError
from holdfast.ports import (
    Ask,
    Caps,
    Job,
    JobChange,
    JobMove,
    JobQuery,
    JobRequest,
    JobStatus,
    Subscriptions,
    WorkerInfo,
)
from holdfast.stores import _job_rules as rules
from holdfast.stores import _sqlite_job_reads as reads
from holdfast.stores import _sqlite_job_writes as writes
from holdfast.stores._outbox_rules import Telling, nobody
from holdfast.stores._sqlite import SqliteEngine, SqliteStore
from holdfast.stores._sqlite_beside import Beside

T = TypeVar("T")


class SqliteJobs(Beside):
    """Jobs in an SQLite file, made on first use; several processes may share it. `beside()` shares a store's commits too.

    `hooks` says who is to be told of what happens to them; it is read before the first write.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_seconds: float = 10.0,
        hooks: Callable[[], Subscriptions] = nobody,
    ) -> None:
        self.path = Path(path).expanduser().absolute()
        self._engine = SqliteEngine(self.path, busy_seconds)
        self._owns_engine = True
        self._writing = 0
        self._telling = Telling(hooks)

    @classmethod
    def beside(cls, store: SqliteStore, *, hooks: Callable[[], Subscriptions] = nobody) -> Self:
        """Jobs in a store's file, whose changes share transactions with its journals. Closing it leaves the store open."""
        jobs = cls.__new__(cls)
        jobs.path, jobs._engine, jobs._owns_engine, jobs._writing = store.path, store._engine, False, 0
        jobs._telling = Telling(hooks)
        return jobs

    @property
    def has_told(self) -> bool:
        """Whether it has put anything into the outbox."""
        return self._telling.has_told

    # -- jobs ------------------------------------------------------------------------------------------------------

    async def add(self, jobs: Sequence[Job], *, by: str = "") -> None:
        rules.check_new(jobs)
        if problem := await self._write(partial(writes.add, telling=self._telling, jobs=jobs, by=by)):
            raise UsageError(problem)

    async def advance(self, moves: Sequence[JobMove]) -> list[Job | None]:
        rules.check_moves(moves)
        return await self._write(partial(writes.advance, telling=self._telling, moves=moves))

    async def claim(self, worker_id: str, caps: Caps, *, now_us: int, limit: int = 1) -> list[Job]:
        if not await self._engine.read(reads.has_ready):
            return []  # an idle worker takes no lock
        return await self._write(
            partial(writes.claim, telling=self._telling, worker_id=worker_id, caps=caps, now_us=now_us, limit=limit)
        )

    async def claim_job(self, job_id: str, worker_id: str, caps: Caps, *, now_us: int) -> Job | None:
        if not await self._engine.read(partial(reads.is_ready, job_id=job_id)):
            return None
        work = partial(
            writes.claim_job, telling=self._telling, job_id=job_id, worker_id=worker_id, caps=caps, now_us=now_us
        )
        return await self._write(work)

    async def wake(self, *, now_us: int) -> int | None:
        due = await self._engine.read(reads.next_due)
        if due is None or due > now_us:
            return due
        return await self._write(partial(writes.wake, telling=self._telling, now_us=now_us))

    async def show(self, job_id: str, version: int, *, asks: Sequence[Ask], now_us: int) -> bool:
        work = partial(
            writes.show, telling=self._telling, job_id=job_id, version=version, asks=tuple(asks), now_us=now_us
        )
        return await self._write(work)

    async def archive(self, job_id: str, *, archived: bool, now_us: int) -> bool:
        return await self._write(partial(writes.archive, job_id=job_id, archived=archived, now_us=now_us))

    async def delete(self, job_id: str) -> bool:
        return await self._write(partial(writes.delete, job_id=job_id))

    async def job(self, job_id: str) -> Job | None:
        return await self._engine.read(partial(reads.job, job_id=job_id))

    async def jobs(self, query: JobQuery) -> list[Job]:
        return await self._engine.read(partial(reads.jobs, query=query))

    async def find(self, prefix: str, *, limit: int = 10) -> list[str]:
        return await self._engine.read(partial(reads.find, prefix=prefix, limit=limit))

    async def count(self) -> dict[JobStatus, int]:
        return await self._engine.read(reads.count)

    async def changes(self, *, after: int = 0, job_id: str = "", limit: int = 100) -> list[JobChange]:
        return await self._engine.read(partial(reads.changes, after=after, job_id=job_id, limit=limit))

    async def last_change(self) -> int:
        return await self._engine.read(reads.last_change)

    # -- requests --------------------------------------------------------------------------------------------------

    async def request(self, request: JobRequest, move: JobMove | None = None) -> bool:
        if move is not None:
            rules.check_moves([move])
        return await self._write(partial(writes.request, telling=self._telling, request=request, move=move))

    async def requests(self, *, worker_id: str = "", job_id: str = "") -> list[JobRequest]:
        return await self._engine.read(partial(reads.requests, worker_id=worker_id, job_id=job_id))

    async def settle(self, request_id: str) -> None:
        await self._write(partial(writes.settle, request_id=request_id))

    # -- workers ---------------------------------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo) -> None:
        await self._write(partial(writes.register, worker=worker))

    async def renew(self, worker: WorkerInfo) -> bool:
        return await self._write(partial(writes.renew, worker=worker))

    async def register_only(self, worker: WorkerInfo) -> bool:
        return await self._write(partial(writes.register_only, worker=worker))

    async def workers(self) -> list[WorkerInfo]:
        return await self._engine.read(reads.workers)

    async def lose(self, worker_id: str, *, reason: str, now_us: int) -> list[str]:
        return await self._write(
            partial(writes.lose, telling=self._telling, worker_id=worker_id, reason=reason, now_us=now_us)
        )

    # -- noticing --------------------------------------------------------------------------------------------------

    async def stamp(self) -> int:
        self._engine.check_open()
        return self._engine.connections.stamp()

    async def _write(self, work: Callable[[Connection], T]) -> T:
        self._engine.check_open()
        self._telling.prepare()
        self._writing += 1
        try:
            return await self._engine.writer.write(work, alone=self._writing == 1)
        finally:
            self._writing -= 1
