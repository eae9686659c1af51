"""An alarm for what goes on by itself when its time has come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from holdfast.clock import Clock
from holdfast.jobs._scope import Wait


class Alarm:
    """Rings at one time, and is set anew for another. Stop it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: asyncio.Task[None] | None = None
        self._set_for = 0

    def rings(self, due_us: int | None) -> list[asyncio.Future[Any]]:
        """Done at that time; nothing for no time."""
        if due_us is None:
            return []
        if self._timer is None or self._timer.done() or self._set_for != due_us:
            self.stop()
            seconds = max(0.0, (due_us - self._clock.time_ns() // 1000) / 1e6)
            self._set_for = due_us
            self._timer = asyncio.ensure_future(self._clock.sleep(seconds))
        return [self._timer]

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def first_due(waits: Iterable[Wait]) -> int | None:
    """When the first of what waits goes on by itself; None if nothing does."""
    return min((wait.until_us for wait in waits if wait.until_us is not None), default=None)
