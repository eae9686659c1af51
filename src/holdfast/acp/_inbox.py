"""`Inbox`: what an agent sends to one session, from the loop that reads the agent to the loop of the run."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from holdfast.threads import signal_here

T = TypeVar("T")

INBOX_BYTES = 4 * 1024 * 1024


class Inbox(Generic[T]):
    """A queue between two loops. It takes whatever is put; who puts asks for `room()` first, and waits while there is none."""

    def __init__(self, limit: int = INBOX_BYTES) -> None:
        self._limit = limit
        self._items: deque[tuple[T, int]] = deque()
        self._held = 0
        self._lock = threading.Lock()
        self._wake_reader: Callable[[], None] = _nobody
        self._wake_writer: Callable[[], None] = _nobody

    def put(self, item: T, size: int = 0) -> None:
        """Add something, from any thread."""
        with self._lock:
            self._items.append((item, size))
            self._held += size
            wake, self._wake_reader = self._wake_reader, _nobody
        wake()

    async def get(self) -> T:
        """The next thing. One at a time may wait here."""
        while (found := self._pop()) is None:
            here, wake = signal_here()
            with self._lock:
                self._wake_reader = wake
                if self._items:
                    continue
            await here
        return found[0]

    def _pop(self) -> tuple[T, int] | None:
        with self._lock:
            if not self._items:
                return None
            item, size = self._items.popleft()
            self._held -= size
            wake = self._wake_writer if self._held <= self._limit else _nobody
        wake()
        return item, size

    @property
    def is_full(self) -> bool:
        return self._held > self._limit

    def room(self) -> asyncio.Future[None]:
        """Done once it is no longer full. One at a time may wait for it."""
        here, wake = signal_here()
        with self._lock:
            self._wake_writer = wake
            is_full = self.is_full
        if not is_full:
            wake()
        return here

    def clear(self) -> None:
        """Forget what nobody will read."""
        with self._lock:
            self._items.clear()
            self._held = 0
            wake = self._wake_writer
        wake()


def _nobody() -> None:
    """Who to wake while nobody waits."""
