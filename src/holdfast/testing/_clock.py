"""Time that moves only when a test says so."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading


class ManualClock:
    """A `Clock` that stands still until `advance()`. Safe to use from several threads and loops."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000) -> None:
        self._start_ns = start_ns
        self._elapsed = 0.0
        self._lock = threading.Lock()
        self._number = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def time_ns(self) -> int:
        return self._start_ns + int(self._elapsed * 1_000_000_000)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._number), woken))
            self._tell_watchers()
        await woken

    def advance(self, seconds: float) -> None:
        """Let time pass and wake whoever slept until now."""
        with self._lock:
            self._elapsed += seconds
            while self._sleepers and self._sleepers[0][0] <= self._elapsed:
                _wake(heapq.heappop(self._sleepers)[2])

    async def until_sleeping(self, sleepers: int = 1) -> None:
        """Wait until that many calls of `sleep` are under way, so that `advance` will not come too early."""
        seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._watchers.append((sleepers, seen))
            self._tell_watchers()
        await seen

    def _tell_watchers(self) -> None:
        asleep = sum(1 for _, _, woken in self._sleepers if not woken.done())
        for wanted, seen in self._watchers:
            if asleep >= wanted:
                _wake(seen)
        self._watchers = [(wanted, seen) for wanted, seen in self._watchers if asleep < wanted]


def _wake(future: asyncio.Future[None]) -> None:
    def set_result() -> None:
        if not future.done():
            future.set_result(None)

    loop = future.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(set_result)
