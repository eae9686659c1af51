"""`RunLog`: a run tree's way into its journal."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Literal

from holdfast.checkpoints._rows import row_of
from holdfast.clock import Clock
from holdfast.deltas import Delta
from holdfast.errors import FencedError, StorageError
from holdfast.events._base import BaseEvent
from holdfast.ids import IdFactory
from holdfast.logs import get_logger
from holdfast.ports import Batch, JournalStore, Mark, Row, Session
from holdfast.threads import LoopThread

log = get_logger("checkpoints")
Durability = Literal["step", "exit"]
HOLD_US = 60_000_000  # how long a session is held from its last commit or heartbeat


class RunLog:
    """Takes down the durable events of a tree as they are stamped, and commits them when a step is about to begin.

    With `durability="step"` a step's result is on disk before the next one begins; with `"exit"` all is written at the end.
    """

    def __init__(
        self,
        store: JournalStore,
        session: Session,
        clock: Clock,
        ids: IdFactory,
        *,
        triggers: frozenset[str] = frozenset(),
        durability: Durability = "step",
    ) -> None:
        self.session = session
        self._store = store
        self._clock = clock
        self._new_id = ids
        self._triggers = triggers
        self._durability = durability
        self._seq = session.head
        self._rows: list[Row] = []
        self._marks: list[Mark] = []
        self._carried: dict[int, bytes] = {}
        self._lock = threading.Lock()
        self._order = threading.Lock()
        """Held from taking a batch until it is stored: batches reach the store in order."""
        self._last_mark: str | None = None
        self._beat: Future[None] | None = None

    def record(self, event: BaseEvent) -> None:
        """Take down an event. Under the bus's lock, so rows are in the order of the events."""
        with self._lock:
            row = row_of(event, self._seq + 1, self._carried.pop(threading.get_ident(), None))
            self._seq += 1
            self._rows.append(row)
            if event.type in self._triggers and event.run_id == self.session.root_run_id:
                mark = Mark(self._new_id(), row.seq, row.at_us, event.type, parent_id=self._last_mark)
                self._last_mark = mark.id
                self._marks.append(mark)

    def carry(self, delta: Delta | None) -> None:
        """What a step changed in the state: it is stored with the next event that this thread emits."""
        if delta:
            self._carried[threading.get_ident()] = delta.encode()

    async def commit(self) -> None:
        """Make durable what was taken down, unless that is left for the end."""
        if self._durability == "step":
            await self._store_rows(None)

    def commit_now(self) -> None:
        """`commit`, blocking."""
        if self._durability == "step":
            with self._order:
                if self._rows:
                    self._store.append_now(self._batch(None))

    async def commit_end(self, run_id: str, status: str) -> None:
        """The end of a run of the tree: with the root's, its status is stored in the same transaction."""
        if run_id != self.session.root_run_id:
            await self.commit()
            return
        self.stop_beating()
        await self._store_rows(status)
        await self._store.close_session(self.session)

    def start_beating(self, loop_thread: LoopThread) -> None:
        """Keep the hold on the run while its steps take their time. Until `stop_beating`, or the end."""
        self._beat = loop_thread.submit(self._hold_on())

    def stop_beating(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    async def _hold_on(self) -> None:
        while True:
            await self._clock.sleep(HOLD_US / 3_000_000)
            try:
                await self._store.append(Batch(self.session, hold_until_us=self._hold_until()))
            except FencedError:
                return  # somebody took the run over; its next commit will say so
            except StorageError as error:
                log.warning("the hold on run %s could not be renewed: %s", self.session.root_run_id, error)

    def _hold_until(self) -> int:
        return self._clock.time_ns() // 1000 + HOLD_US

    async def _store_rows(self, status: str | None) -> None:
        while not self._order.acquire(blocking=False):  # noqa: ASYNC110 - a thread of this tree is storing
            await asyncio.sleep(0.001)  # not in a thread: a wait that is cancelled there would take the lock for good
        try:
            if self._rows or status is not None:
                await self._store.append(self._batch(status))
        finally:
            self._order.release()

    def _batch(self, status: str | None) -> Batch:
        with self._lock:
            rows, self._rows = self._rows, []
            marks, self._marks = self._marks, []
        return Batch(self.session, tuple(rows), marks=tuple(marks), status=status, hold_until_us=self._hold_until())
