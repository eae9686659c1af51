"""One event loop in a thread of its own that talks to PostgreSQL for every thread and loop of the process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.context import Forks
from holdfast.errors import HoldfastError
from holdfast.ports import Batch
from holdfast.stores import _rules as rules
from holdfast.stores._group import LastingWaiter, Waiter, wake
from holdfast.stores._postgres_appends import Append, append_group, was_stored
from holdfast.stores._postgres_driver import (
    CONNECT_SECONDS,
    broken,
    driver,
    failing,
    make_schema,
    settings,
    translate,
    unfit,
)
from holdfast.threads import LoopThread

T = TypeVar("T")

GROUP = 256
"""How many batches share a statement at most: a bound on how long the first waits for the last."""

_abandoned: list[object] = []
"""Connections of the parent. A forked child must neither use nor close them."""


class PostgresEngine:
    """Appends through one connection in groups; everything else through a small pool."""

    def __init__(self, dsn: str, schema: str, connections: int, seconds: float) -> None:
        self._dsn = dsn
        self._schema = schema
        self._connections = connections
        self._seconds = seconds
        self._thread = LoopThread("holdfast-postgres")
        self.closed = False
        self._reset()

    def _reset(self) -> None:
        self._generation = Forks.generation
        self._pool: Any = None
        self._writer: Any = None
        self._opening: asyncio.Lock | None = None
        self._queue: deque[Append] = deque()
        self._rung = False
        self._writing: asyncio.Task[None] | None = None

    @property
    def used(self) -> bool:
        """True once there is a thread to end."""
        return self._thread.started

    def _check(self) -> None:
        if self.closed:
            raise rules.store_closed("this PostgreSQL store")
        if self._generation != Forks.generation:
            _abandoned.append((self._pool, self._writer, self._writing))
            self._reset()

    # -- from any thread and any loop ------------------------------------------------------------------------------

    async def call(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do work in a transaction of its own."""
        return await asyncio.wrap_future(self._submit(work))

    def call_now(self, work: Callable[[Any], Awaitable[T]]) -> T:
        return self._submit(work).result()

    def _submit(self, work: Callable[[Any], Awaitable[T]]) -> Future[T]:
        self._check()
        return self._thread.submit(self._transact(work))

    async def append(self, batch: Batch) -> None:
        self._check()
        waiter: Waiter[None] = LastingWaiter()
        self._enqueue(Append(batch, waiter))
        await waiter.wait()

    def append_now(self, batch: Batch) -> None:
        self._check()
        append = Append(batch)
        self._enqueue(append)
        assert append.ready is not None
        append.ready.wait()
        append.outcome()

    def _enqueue(self, append: Append) -> None:
        self._queue.append(append)
        if not self._rung:
            self._rung = True
            self._thread.loop.call_soon_threadsafe(self._start_writing)

    # -- on the engine's own loop ----------------------------------------------------------------------------------

    async def _transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        try:
            pool = await self._opened_pool()
            connection, transaction = await self._begin(pool)
            try:
                result = await work(connection)
            except BaseException:
                if not connection.is_closed():
                    await transaction.rollback()
                raise
            else:
                await transaction.commit()
                return result
            finally:
                await pool.release(connection)
        except HoldfastError:
            raise
        except failing() as error:
            raise translate(error) from error

    async def _begin(self, pool: Any) -> tuple[Any, Any]:
        """A connection in a transaction. One that was cut while idle is noticed here, where nothing is lost by it."""
        idle = self._connections
        while True:
            connection = await pool.acquire()
            transaction = connection.transaction()
            try:
                await transaction.start()
                return connection, transaction
            except broken():
                with suppress(driver().InterfaceError):  # the pool was faster and has taken it back
                    connection.terminate()
                await pool.release(connection)
                if not idle:
                    raise
                idle -= 1

    def _start_writing(self) -> None:
        self._rung = False
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_queued())

    async def _write_queued(self) -> None:
        while self._queue:
            group = self._take()
            try:
                await self._write(group)
            except BaseException as error:  # whoever waits gets it, whatever it is
                for append in group:
                    append.error = append.error or error
                if not isinstance(error, Exception):
                    raise
            finally:
                for append in group:
                    if append.ready is not None:
                        append.ready.set()
                wake(group)

    def _take(self) -> list[Append]:
        """The next group: at most one batch of each session, as the next one stands on it."""
        group: list[Append] = []
        later: list[Append] = []
        fences: set[int] = set()
        while self._queue and len(group) < GROUP:
            append = self._queue.popleft()
            (later if append.fence in fences else group).append(append)
            fences.add(append.fence)
        self._queue.extendleft(reversed(later))
        return group

    async def _write(self, group: Sequence[Append]) -> None:
        try:
            await append_group(await self._opened_writer(), group)
        except broken() as error:
            await self._write_again(group, error)
        except (*unfit(), *failing()):
            for append in group:
                await self._write_alone(append)

    async def _write_again(self, group: Sequence[Append], error: BaseException) -> None:
        """After a lost connection, see what arrived and send the rest once more."""
        self._drop_writer()
        for append in group:
            try:
                append.error = None
                if not await was_stored(await self._opened_writer(), append.batch):
                    await append_group(await self._opened_writer(), [append])
            except failing() as again:
                self._drop_writer()
                append.error = translate(again)
                append.error.__cause__ = error

    async def _write_alone(self, append: Append) -> None:
        append.error = None
        try:
            await append_group(await self._opened_writer(), [append])
        except unfit() as error:
            append.error = error
        except failing() as error:
            append.error = translate(error)
            append.error.__cause__ = error

    # -- connections -----------------------------------------------------------------------------------------------

    async def _opened_pool(self) -> Any:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._pool is None:
                connection = await self._connect()
                try:
                    await make_schema(connection, self._schema)
                finally:
                    await connection.close()
                self._pool = await driver().create_pool(
                    self._dsn,
                    min_size=0,
                    max_size=self._connections,
                    timeout=CONNECT_SECONDS,
                    command_timeout=self._seconds,
                    server_settings=settings(self._schema),
                )
            return self._pool

    async def _opened_writer(self) -> Any:
        if self._writer is None or self._writer.is_closed():
            await self._opened_pool()
            self._writer = await self._connect()
        return self._writer

    async def _connect(self) -> Any:
        return await driver().connect(
            self._dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=self._seconds,
            server_settings=settings(self._schema),
        )

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.terminate()
            self._writer = None

    # -- ending ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish what is queued, let go of the connections and the thread."""
        if self.closed:
            return
        self.closed = True
        if self._generation == Forks.generation and self._thread.started:
            self._thread.submit(self._shut_down()).result()
            self._thread.stop()

    async def _shut_down(self) -> None:
        self._start_writing()
        assert self._writing is not None
        await self._writing
        if self._writer is not None:
            await self._writer.close(timeout=CONNECT_SECONDS)
        if self._pool is not None:
            await self._pool.close()
