"""Writing beside a run instead of in its way: for `durability="async"`."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

from holdfast.context import OUTSIDE, Position, at
from holdfast.threads import LoopThread


class WriteBehind:
    """Calls `write` on the runtime's own loop after each `wake`, one call at a time; several wakes may share one.

    It stands at `place` then, not where the first wake came from: that may be a run inside, which is over by now.
    """

    def __init__(
        self, loop_thread: LoopThread, write: Callable[[], Awaitable[None]], place: Position = OUTSIDE
    ) -> None:
        self._loop_thread = loop_thread
        self._write = write
        self._place = place
        self._lock = threading.Lock()
        self._is_awake = False
        self._wanted = False
        self._failure: Exception | None = None

    def wake(self) -> None:
        """See that what is there now will be written. Raises what an earlier writing met: nothing was written since."""
        self.check()
        self._wanted = True
        if self._is_awake:
            return
        with self._lock:
            starting, self._is_awake = not self._is_awake, True
        if starting:
            with at(self._place):
                self._loop_thread.submit(self._run())

    def check(self) -> None:
        """Raise what an earlier writing met, if it failed."""
        if self._failure is not None:
            raise self._failure

    async def _run(self) -> None:
        while self._failure is None:
            self._wanted = False
            try:
                await self._write()
            except Exception as error:  # told to the run, at its next step or its end
                self._failure = error
            with self._lock:
                if not self._wanted:
                    self._is_awake = False
                    return
