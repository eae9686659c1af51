"""What a pool counts: resources, the leases on them, and those who wait for one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from msgspec import Struct

from holdfast.clock import check_seconds
from holdfast.context import Forks
from holdfast.ports import LedgerRow, Spec

R = TypeVar("R")


class Limits(Struct, frozen=True):
    """How many there may be. What is over the limit waits for its turn."""

    total: int = 64
    """resources at once"""
    per_key: int = 16
    """resources with the same key at once"""
    sharing: int | None = None
    """leases on one resource at once; None for any number"""
    idle_timeout: float = 0.0
    """how many seconds a resource that nobody holds is kept warm; 0 ends it with its last lease"""
    max_idle: int = 4
    """resources kept warm at once"""

    def __post_init__(self) -> None:
        check_seconds(idle_timeout=self.idle_timeout)


class PooledLease(Generic[R]):
    """A run's hold on a resource that others may hold too."""

    def __init__(
        self, kind: str, entry: Entry[R], run_id: str, release: Callable[[PooledLease[R]], Awaitable[None]]
    ) -> None:
        self.kind = kind
        self.name = entry.row.name
        self.run_id = run_id
        self.entry = entry
        self._release = release

    def __repr__(self) -> str:
        return f"<lease of {self.run_id} on {self.kind} {self.name}>"

    @property
    def resource(self) -> R:
        """The thing itself."""
        return self.entry.made()

    async def release(self) -> None:
        """Give it back; the last one to do so ends the resource. Twice is fine. Raises StuckError if it could not be ended."""
        await self._release(self)


class Entry(Generic[R]):
    """A resource, from the intent to make it until it is proved gone."""

    def __init__(self, key: Hashable, row: LedgerRow) -> None:
        self.key = key
        self.row = row
        self.generation = Forks.generation
        """Which process it belongs to, counted in forks."""
        self.state = "starting"
        """`starting`, `held`, `idle`, `ending`, `stuck` or `gone`"""
        self.idle_since = 0.0
        self.leases: set[PooledLease[R]] = set()
        self.making: asyncio.Task[R] | None = None
        self.resource: R | None = None
        self.ending: asyncio.Task[None] | None = None
        self.watching: asyncio.Task[None] | None = None
        self.resting: asyncio.Task[None] | None = None
        self.noting: asyncio.Task[None] | None = None

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(sorted({lease.run_id for lease in self.leases.copy()}))

    @property
    def is_usable(self) -> bool:
        return self.state in ("starting", "held", "idle")

    def made(self) -> R:
        assert self.resource is not None
        return self.resource

    def has_place(self, sharing: int | None) -> bool:
        return self.is_usable and (sharing is None or len(self.leases) < sharing)

    def take(self, lease: PooledLease[R]) -> None:
        """Count a lease; one that was idle is no more."""
        self.leases.add(lease)
        if self.resting is not None:
            self.resting.cancel()
            self.resting = None
        if self.state == "idle":
            self.state = "held"

    def is_held_by(self, run_id: str) -> bool:
        return any(lease.run_id == run_id for lease in self.leases)


class Waiter(Generic[R]):
    """Somebody in the queue."""

    def __init__(self, spec: Spec, run_id: str) -> None:
        self.spec = spec
        self.key = spec.key()
        self.run_id = run_id
        self.turn: asyncio.Future[PooledLease[R]] = asyncio.get_running_loop().create_future()


async def settle(tasks: list[asyncio.Task[None]]) -> list[BaseException]:
    """Wait for all, and return what went wrong."""
    if not tasks:
        return []
    await asyncio.wait(tasks)
    return [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
