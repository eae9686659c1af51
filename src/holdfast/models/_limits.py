"""Caps on concurrent requests, one for each provider, shared fairly among runs."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager

from holdfast.context import current_run_id
from holdfast.errors import UsageError
from holdfast.threads import done_here


class RequestLimits:
    """How many requests each provider gets at once: `RequestLimits({"openai": 8})`. A provider not named has no cap.

    Runs that wait take turns, so one with a hundred calls does not hold up another with one. May be shared by models, loops
    and threads.
    """

    def __init__(self, caps: Mapping[str, int]) -> None:
        if bad := {provider: cap for provider, cap in caps.items() if cap < 1}:
            raise UsageError(f"a cap must be at least 1: {bad}; leave a provider out if it is to have no cap")
        self._queues = {provider: _Queue(cap) for provider, cap in caps.items()}

    @asynccontextmanager
    async def slot(self, provider: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it for the block."""
        queue = self._queues.get(provider)
        if queue is None:
            yield
            return
        await queue.enter(current_run_id())
        try:
            yield
        finally:
            queue.leave()

    def in_use(self, provider: str) -> int:
        """How many requests of a capped provider are under way."""
        queue = self._queues.get(provider)
        return queue.taken if queue else 0


class _Queue:
    """The turns of one provider."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str | None, deque[Future[None]]] = OrderedDict()
        self.taken = 0

    async def enter(self, run_id: str | None) -> None:
        with self._lock:
            if self.taken < self._cap and not self._waiting:
                self.taken += 1
                return
            turn: Future[None] = Future()
            self._waiting.setdefault(run_id, deque()).append(turn)
        try:
            await done_here(turn)
        except BaseException:
            self._give_up(run_id, turn)
            raise

    def _give_up(self, run_id: str | None, turn: Future[None]) -> None:
        with self._lock:
            waiting = self._waiting.get(run_id)
            if waiting is not None and turn in waiting:
                waiting.remove(turn)
                if not waiting:
                    del self._waiting[run_id]
                return
        self.leave()  # its turn had come already: pass it on

    def leave(self) -> None:
        """Pass the turn to the run that has waited longest for one."""
        with self._lock:
            if not self._waiting:
                self.taken -= 1
                return
            run_id, waiting = self._waiting.popitem(last=False)
            turn = waiting.popleft()
            if waiting:
                self._waiting[run_id] = waiting  # at the end: the others first
        turn.set_result(None)
