"""`JournalProvider`: checkpoints that are marks in a journal. SQLite's and PostgreSQL's providers are this one with their store."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from holdfast.checkpoints._export import export_checkpoint
from holdfast.checkpoints._import import import_checkpoint
from holdfast.checkpoints._pruning import check_asked, newest_first, select_old
from holdfast.clock import Clock, SystemClock
from holdfast.errors import ClosedError
from holdfast.ports import CheckpointInfo, JournalStore, Mark, RunInfo
from holdfast.ports._checkpoints import Infos
from holdfast.stores._closing import Closing
from holdfast.threads import LoopThread

T = TypeVar("T")
Store = TypeVar("Store", bound=JournalStore)
_ALL = 2**31 - 1


class JournalProvider(Closing, Generic[Store]):
    """A `CheckpointProvider` over a journal: writing imports a document, reading exports one, and a list is one of marks.

    Closing it closes the store.
    """

    def __init__(self, journal: Store, *, clock: Clock | None = None) -> None:
        self._journal = journal
        self._clock = clock or SystemClock()
        self._thread = LoopThread("holdfast-checkpoints")
        self._turn = asyncio.Lock()
        """One import or prune at a time, on the thread's loop: two of one run would find it busy."""
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._journal!r})"

    @property
    def journal(self) -> Store:
        return self._journal

    # -- the port --------------------------------------------------------------------------------------------------

    def write(self, document: bytes) -> str:
        return self._wait(self._write(document))

    async def awrite(self, document: bytes) -> str:
        return await self._there(self._write(document))

    def read(self, where: str) -> bytes:
        return self._wait(export_checkpoint(self._journal, where))

    async def aread(self, where: str) -> bytes:
        self._check_open()
        return await export_checkpoint(self._journal, where)

    def list(self, *, run_id: str | None = None, limit: int = 1000) -> Infos:
        return self._wait(self._list(run_id, limit))

    async def alist(self, *, run_id: str | None = None, limit: int = 1000) -> Infos:
        self._check_open()
        return await self._list(run_id, limit)

    def prune(self, *, run_id: str | None = None, keep: int | None = None, before_us: int | None = None) -> int:
        check_asked(keep, before_us)
        return self._wait(self._prune(run_id, keep, before_us))

    async def aprune(self, *, run_id: str | None = None, keep: int | None = None, before_us: int | None = None) -> int:
        check_asked(keep, before_us)
        return await self._there(self._prune(run_id, keep, before_us))

    def close(self) -> None:
        self._closed = True
        self._thread.stop()
        self._journal.close()

    async def aclose(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._thread.stop)
        await self._journal.aclose()

    # -- how -------------------------------------------------------------------------------------------------------

    async def _write(self, document: bytes) -> str:
        async with self._turn:
            mark = await import_checkpoint(self._journal, document, now_us=self._clock.time_ns() // 1000)
        return mark.id

    async def _list(self, run_id: str | None, limit: int) -> Infos:
        marks = await self._journal.marks(run_id, limit=limit)
        runs = {root: await self._journal.run(root) for root in {mark.root_run_id for mark in marks}}
        return newest_first(_info(mark, run) for mark in marks if (run := runs[mark.root_run_id]))

    async def _prune(self, run_id: str | None, keep: int | None, before_us: int | None) -> int:
        async with self._turn:
            infos = await self._list(run_id, _ALL)
            old = select_old(infos, keep, before_us)
            dropped = {info.id for info in old}
            for root in {info.root_run_id for info in old}:
                kept = [info.id for info in infos if info.root_run_id == root and info.id not in dropped]
                await self._journal.prune(root, keep_marks=kept)
        return len(old)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        self._check_open(work)
        return self._thread.submit(work).result()

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        self._check_open(work)
        return await asyncio.wrap_future(self._thread.submit(work))

    def _check_open(self, work: Coroutine[Any, Any, Any] | None = None) -> None:
        if not self._closed:
            return
        if work is not None:
            work.close()  # never started; left alone it would warn of that
        raise ClosedError(f"{self!r} was closed; make a new one")


def _info(mark: Mark, run: RunInfo) -> CheckpointInfo:
    return CheckpointInfo(
        id=mark.id,
        root_run_id=mark.root_run_id,
        branch=mark.branch,
        parent_id=mark.parent_id,
        trigger=mark.trigger,
        at_us=mark.at_us,
        size=mark.size,
        kind=run.kind,
        name=run.name,
        status=run.status,
        location=mark.id,
    )
