"""The heartbeat of a process: one task that renews the holds of all its runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.clock import Clock
from holdfast.logs import get_logger
from holdfast.threads import LoopThread

log = get_logger("checkpoints")
Renew = Callable[[], Awaitable[None]]


class Heartbeat:
    """Calls everyone who is registered once in a while, on the runtime's own loop. Sleeps on, for a turn, when nobody is."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._lock = threading.Lock()
        self._renewals: set[Renew] = set()
        self._task: Future[Any] | None = None

    def add(self, renew: Renew, loop_thread: LoopThread) -> None:
        """Have `renew` called until it is removed. From any thread."""
        with self._lock:
            self._renewals.add(renew)
            if self._task is None or self._task.done() or not loop_thread.started:
                # in a context of its own: it outlives the run that happened to be the first
                self._task = Context().run(loop_thread.submit, self._beat())

    def remove(self, renew: Renew) -> None:
        with self._lock:
            self._renewals.discard(renew)

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(self._seconds)
            with self._lock:
                due = list(self._renewals)
                if not due:
                    self._task = None
                    return
            for problem in await asyncio.gather(*(renew() for renew in due), return_exceptions=True):
                if problem is not None:  # the others' holds go on
                    log.error("a hold could not be renewed", exc_info=problem)


_heartbeats: WeakKeyDictionary[LoopThread, Heartbeat] = WeakKeyDictionary()


def heartbeat_of(loop_thread: LoopThread, clock: Clock, seconds: float) -> Heartbeat:
    """The heartbeat of a runtime, which its loop's thread stands for."""
    return _heartbeats.setdefault(loop_thread, Heartbeat(clock, seconds))
