"""`SqliteOutbox`: what is to be told of jobs, in the SQLite file that the jobs are kept in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Self, TypeVar

from holdfast.ports import Backlog, Delivery, DeliveryQuery, Subscriptions
from holdfast.stores import _sqlite_outbox_writes as writes
from holdfast.stores._outbox_rules import Telling, nobody
from holdfast.stores._sqlite import SqliteEngine, SqliteStore
from holdfast.stores._sqlite_beside import Beside
from holdfast.stores._sqlite_outbox_writes import SQL

T = TypeVar("T")


class SqliteOutbox(Beside):
    """The outbox of an SQLite file. `beside()` shares a store's connections.

    `hooks` says who is to be told of steps; what else is told was written by `SqliteJobs`.
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
        self._telling = Telling(hooks)

    @classmethod
    def beside(cls, store: SqliteStore, *, hooks: Callable[[], Subscriptions] = nobody) -> Self:
        """The outbox in a store's file. Closing it leaves the store open."""
        outbox = cls.__new__(cls)
        outbox.path, outbox._engine, outbox._owns_engine = store.path, store._engine, False
        outbox._telling = Telling(hooks)
        return outbox

    async def claim(self, owner: str, *, now_us: int, until_us: int, limit: int) -> list[Delivery]:
        if not await self._engine.read(partial(_has_work, now_us=now_us)):
            return []  # an idle deliverer takes no lock
        self._telling.prepare()
        work = partial(writes.claim, telling=self._telling, owner=owner, now_us=now_us, until_us=until_us, limit=limit)
        return await self._write(work)

    async def next_due(self) -> int | None:
        return await self._engine.read(_next_due)

    async def delivered(self, claimed: Delivery, *, now_us: int) -> bool:
        return await self._write(partial(writes.settle, claimed=claimed, status="delivered", now_us=now_us))

    async def put_off(self, claimed: Delivery, *, error: str, next_us: int) -> bool:
        work = partial(writes.settle, claimed=claimed, status="pending", error=error, next_us=next_us)
        return await self._write(work)

    async def give_up(self, claimed: Delivery, *, error: str, now_us: int) -> bool:
        return await self._write(partial(writes.settle, claimed=claimed, status="dead", error=error, now_us=now_us))

    async def retry(self, delivery_id: str, *, now_us: int) -> bool:
        return await self._write(partial(writes.retry, delivery_id=delivery_id, now_us=now_us))

    async def delivery(self, delivery_id: str) -> Delivery | None:
        return await self._engine.read(partial(_delivery, delivery_id=delivery_id))

    async def deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        return await self._engine.read(partial(_deliveries, query=query))

    async def backlog(self) -> Backlog:
        return await self._engine.read(_backlog)

    async def prune(self, *, delivered_before_us: int, dead_before_us: int) -> int:
        work = partial(writes.prune, delivered_before_us=delivered_before_us, dead_before_us=dead_before_us)
        return await self._write(work)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        self._engine.check_open()
        return await self._engine.writer.write(work, alone=False)


def _has_work(connection: Connection, now_us: int) -> bool:
    due = _next_due(connection)
    if due is not None and due <= now_us:
        return True
    return connection.execute(SQL["heads"], {"job_id": ""}).fetchone() is not None


def _next_due(connection: Connection) -> int | None:
    due: int | None = connection.execute(SQL["next_due"]).fetchone()[0]
    return due


def _backlog(connection: Connection) -> Backlog:
    return Backlog(*connection.execute(SQL["backlog"]).fetchone())


def _delivery(connection: Connection, delivery_id: str) -> Delivery | None:
    found = connection.execute(SQL["delivery"], (delivery_id,)).fetchone()
    return None if found is None else Delivery(*found)


def _deliveries(connection: Connection, query: DeliveryQuery) -> list[Delivery]:
    values = {
        "job_id": query.job_id,
        "statuses": json.dumps(query.statuses) if query.statuses else None,
        "limit": query.limit,
    }
    return [Delivery(*row) for row in connection.execute(SQL["deliveries"], values).fetchall()]
