"""How uvicorn speaks HTTP for us: with a bound on how long a request's head may take, and a way to cut a connection."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
STUCK_SECONDS = 20.0
"""An answer of which nothing was taken for so long is given up: at the second look at the latest."""


class PatientProtocol(H11Protocol):
    """Closes connections that send the beginning of a request and then nothing, or one byte now and then.

    And those that ask, and then take nothing of the answer: closing them otherwise would wait for just that.
    """

    _timer: asyncio.TimerHandle | None = None
    _looking: asyncio.TimerHandle | None = None
    _left = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.access_log = False  # it would write queries down wherever a program logs anything

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, "abort": transport.abort}
        self._wait_for_head()
        self._look_later()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._looking = self.loop.call_later(STUCK_SECONDS, self._look)

    def _look(self) -> None:
        """Of an answer that is taken, however slowly, less is left each time, or more was added."""
        left = self.transport.get_write_buffer_size()
        if left and left == self._left:
            self.transport.abort()
        else:
            self._left = left
            self._look_later()

    def _wait_for_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
