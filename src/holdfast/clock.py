"""Time, passed in rather than looked up, so that a test can hold it still."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from holdfast.errors import UsageError


class Clock(Protocol):
    """What the runtime needs of time. `holdfast.testing.ManualClock` is the other one."""

    def time_ns(self) -> int:
        """Wall time in nanoseconds since 1970, for stamps that people read."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once `monotonic()` has grown by `seconds`."""
        ...


class SystemClock:
    """The machine's own time."""

    time_ns = staticmethod(time.time_ns)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def check_seconds(**given: float | None) -> None:
    """Raise UsageError, naming it, for what is no time to wait: NaN, which no deadline survives, or less than nothing. None is."""
    for name, seconds in given.items():
        if seconds is not None and not seconds >= 0:
            raise UsageError(f"{name}={seconds!r} is no time to wait; give a number of seconds, 0 or more")
