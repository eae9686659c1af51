"""What a paused job goes on holding for a while: whoever looks at it soon finds its agents in mid-conversation."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from holdfast.clock import Clock
from holdfast.errors import StorageError
from holdfast.logs import get_logger
from holdfast.ports import JournalStore, Lease
from holdfast.runs import RunStatus

log = get_logger("jobs")
GRACE_SECONDS = 300.0
LOOK_SECONDS = 0.1
"""How often it is looked whether another process has taken a job up meanwhile, or ended it."""


class Kept(Struct, frozen=True, eq=False):
    """What one run of a job holds."""

    leases: tuple[Lease, ...]
    """newest first: what was built on another thing is released before it"""
    sessions: dict[str, Any]
    """open conversations with agents, by id"""

    async def release(self) -> None:
        """Give everything back. What cannot be is told of, and stays in the ledger for the sweep."""
        for lease in self.leases:
            try:
                await lease.release()
            except Exception as error:
                log.error("%s %s of a paused job could not be released: %s", lease.kind, lease.name, error)


class Grace:
    """Keeps what paused jobs hold until their time is up, or until another process has the job. Close it."""

    def __init__(self, store: JournalStore, clock: Clock, seconds: float = GRACE_SECONDS) -> None:
        self._store, self._clock = store, clock
        self.seconds = seconds
        self._kept: dict[str, dict[str, Kept]] = {}
        """By job and run."""
        self._watches: dict[str, asyncio.Task[None]] = {}

    def keep(self, job_id: str, kept: dict[str, Kept]) -> None:
        """Hold for a job that is being paused."""
        if kept:
            self._kept[job_id] = kept
            self._watches[job_id] = asyncio.create_task(self._watch(job_id))

    async def take(self, job_id: str) -> dict[str, Kept]:
        """What is held for a job that goes on here; the caller answers for it."""
        watch, kept = self._watches.pop(job_id, None), self._kept.pop(job_id, None)
        if watch is not None:
            if kept is not None:  # else it is being given back in this moment
                watch.cancel()
            await asyncio.wait({watch})
        return kept or {}

    async def _watch(self, job_id: str) -> None:
        until = self._clock.monotonic() + self.seconds
        while (left := until - self._clock.monotonic()) > 0 and await self._is_paused(job_id):
            await self._clock.sleep(min(left, LOOK_SECONDS))
        await let_go(self._kept.pop(job_id, {}))
        self._watches.pop(job_id, None)

    async def _is_paused(self, job_id: str) -> bool:
        try:
            info = await self._store.run(job_id)
        except StorageError:  # out of reach: nobody else gets at the job either
            return True
        return info is not None and info.status == RunStatus.PAUSED

    async def aclose(self) -> None:
        """Give everything back. Twice is fine."""
        for job_id in list(self._watches):
            await let_go(await self.take(job_id))


async def let_go(kept: dict[str, Kept]) -> None:
    """Give back what runs of a job held."""
    for one in kept.values():
        await one.release()
