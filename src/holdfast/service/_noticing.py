"""Noticing that something was stored: at once by this process, within `POLL_SECONDS` by others."""

from __future__ import annotations

import asyncio
from typing import Protocol

from holdfast.clock import Clock

POLL_SECONDS = 0.05


class Stamped(Protocol):
    """A store that says whether anything may have been written."""

    async def stamp(self) -> int: ...


class Noticing:
    """Tells one waiter that the store may hold something new."""

    def __init__(self, store: Stamped, clock: Clock, poll_seconds: float = POLL_SECONDS) -> None:
        self._store, self._clock, self._poll_seconds = store, clock, poll_seconds
        self._woken = asyncio.Event()
        self._stamp: int | None = None

    def wake(self) -> None:
        """Something changed here; on the waiter's loop only."""
        self._woken.set()

    async def changed(self, deadline: float) -> None:
        """Return when something may have changed, or the clock's `monotonic()` has reached `deadline`.

        What others write is looked for no more often than every `poll_seconds`, however much it is: a busy journal in the same
        file must not keep the waiter busy too. The first call returns at once.
        """
        await asyncio.sleep(0)  # a store that never waits must not keep the loop to itself
        while not self._woken.is_set():
            left = deadline - self._clock.monotonic()
            if left <= 0:
                break
            if self._stamp is not None:
                await self._sleep(min(left, self._poll_seconds))
            stamp = await self._store.stamp()
            if stamp != self._stamp:
                self._stamp = stamp
                break
        self._woken.clear()

    async def _sleep(self, seconds: float) -> None:
        """Until woken, but no longer than so."""
        napping = asyncio.ensure_future(self._clock.sleep(seconds))
        waking = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({napping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            napping.cancel()
            waking.cancel()
