"""Time, passed in rather than looked up, so that a test can hold it still."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


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
