"""Stubs whose tree is gone, and which wait for another one: that spares forking one for each of many short commands."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

from msgspec import Struct, field

from holdfast.context import Forks

MOST = 8
"""How many wait at once, where several commands run beside each other. Each takes a megabyte."""
USES = 100
"""After so many trees a stub is not used again, so that nothing can pile up in it."""
LINGER_SECONDS = 0.25
"""How long one waits."""
MARGIN_SECONDS = 0.5
"""By itself it leaves so much later, so that nobody sends an order to one that is leaving."""


def rest_seconds() -> float:
    """After how long a stub leaves by itself, as where the loop of its owner stands still."""
    return LINGER_SECONDS + MARGIN_SECONDS


class Line(Struct, eq=False):
    """Our end of the channel to a stub."""

    channel: socket.socket
    uses: int = 1
    since: float = 0.0
    """when it began to wait, as it says itself: by the monotonic clock, which is the same for all processes"""
    is_timed: bool = False
    """whether somebody will look whether it has waited for long enough: one timer for a line, however often it is used"""
    generation: int = field(default_factory=lambda: Forks.generation)

    def send(self, handles: list[int]) -> bool:
        """Order another tree. False if the stub was killed meanwhile; then this is closed."""
        try:
            socket.send_fds(self.channel, [b"spawn"], handles)
        except OSError:
            self.channel.close()
            return False
        return True

    def hang_up(self) -> None:
        """Let the stub leave, also if a forked child of ours has the channel open; such a child only closes its own."""
        if self.generation == Forks.generation:
            self.channel.shutdown(socket.SHUT_RDWR)
        self.channel.close()


class IdleStubs:
    """Those of one owner. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: list[Line] = []
        self._is_closed = False

    def take(self) -> Line | None:
        """One that waits, if there is one; the one that was given back last."""
        with self._lock:
            self._drop_stale()
            return self._lines.pop() if self._lines else None

    def give(self, line: Line, since: float) -> None:
        """Let a stub wait, or hang up if there are enough. On a running loop."""
        with self._lock:
            self._drop_stale()
            if self._is_closed or len(self._lines) >= MOST or line.uses >= USES:
                line.hang_up()
                return
            line.since = since
            line.uses += 1
            self._lines.append(line)
            is_timed, line.is_timed = line.is_timed, True
        if not is_timed:
            self._drop_later(line)

    def _drop_later(self, line: Line) -> None:
        seconds = line.since + LINGER_SECONDS - time.monotonic()
        asyncio.get_running_loop().call_later(seconds, self._drop, line)

    def _drop(self, line: Line) -> None:
        """Hang up on one that has waited for long enough, or look again when it will have."""
        with self._lock:
            self._drop_stale()
            line.is_timed = line in self._lines
        if line.is_timed:
            self._drop_later(line)

    def _drop_stale(self) -> None:
        """Of all: the loop that would see to one may be busy, or have ended."""
        latest = time.monotonic() - LINGER_SECONDS
        for line in [line for line in self._lines if line.since <= latest]:
            self._lines.remove(line)
            line.hang_up()

    def hang_up(self) -> None:
        """Let all leave that wait."""
        with self._lock:
            while self._lines:
                self._lines.pop().hang_up()

    def close(self) -> None:
        """Let no more wait, either."""
        with self._lock:
            self._is_closed = True
        self.hang_up()
