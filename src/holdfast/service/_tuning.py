"""How much runs at once, changed while the queue is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from holdfast.clock import Clock, SystemClock
from holdfast.errors import ConfigurationError
from holdfast.ports import Caps
from holdfast.service._settings import changed_at, read_settings, write_settings
from holdfast.service._worker import Worker, WorkerOptions

FOLLOW_SECONDS = 2.0
logger = logging.getLogger(__name__)


class Tuning:
    """Places and caps of a project. With a worker a change counts for it at once; for others once they look."""

    def __init__(self, home: Path, worker: Worker | None = None) -> None:
        self._home, self._worker = home, worker

    @property
    def counts_at_once(self) -> bool:
        return self._worker is not None

    def now(self) -> WorkerOptions:
        """What counts: for the worker of this process, else for the next one. Raises ConfigurationError if that cannot be read."""
        return read_settings(self._home) if self._worker is None else self._worker.options

    def change(self, places: int, caps: Caps) -> WorkerOptions:
        """Keep it, then let it count. Raises UsageError for a cap that is none, and ConfigurationError if it cannot be kept."""
        options = replace(self.now(), places=places, caps=caps)
        write_settings(self._home, options)
        if self._worker is not None:
            self._worker.change(options)
        return self.now()


@asynccontextmanager
async def following(
    worker: Worker, home: Path, read: Callable[[], WorkerOptions], clock: Clock | None = None
) -> AsyncIterator[None]:
    """Within the block, let what other processes change of a project's settings count for a worker, moments later."""
    task = asyncio.create_task(_follow(worker, home, read, clock or SystemClock()))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _follow(worker: Worker, home: Path, read: Callable[[], WorkerOptions], clock: Clock) -> None:
    known: object = "not looked at yet"  # it may have been changed since the worker read it
    while True:
        await clock.sleep(FOLLOW_SECONDS)
        if (found := changed_at(home)) != known:
            known = found
            try:
                worker.change(read())
            except ConfigurationError as error:
                logger.warning("the settings were changed and are of no use, so the former ones count: %s", error)
