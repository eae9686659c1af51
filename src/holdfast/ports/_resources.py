"""Resources: who a process is, what is held and written down, who manages it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from msgspec import Struct

from holdfast.ports._core import Lease


class Place(Struct, frozen=True):
    """Where a pid means anything."""

    machine: str
    boot: str
    namespace: str
    """of pids: a container has its own"""


class ProcessIdentity(Struct, frozen=True):
    """One process and no other, ever: its number alone is given to others later, and so is its start time."""

    place: Place
    pid: int
    started: int
    """in the kernel's ticks since the boot"""
    inode: int = 0
    """of its pidfd, never given twice in one boot; 0 on kernels before 6.9"""


class ProcessUse(Struct, frozen=True):
    """A process and what it takes."""

    pid: int
    name: str
    memory_bytes: int
    """its proportional share; what it shares with others is split among them"""


class ProcessTable(Protocol):
    """What the system knows of processes. Behind a port, so that a test can have a pid given to a stranger."""

    def place(self) -> Place:
        """Where this process is."""
        ...

    def identify(self, pid: int) -> ProcessIdentity | None:
        """Who has this number now; None if nobody has. Raises OSError or PlatformError if it cannot look, as for want of files."""
        ...

    def carriers(self, tag: int) -> list[int]:
        """The processes that carry a tag, as everything started in a tagged tree does. It raises the same."""
        ...

    def kill_carrier(self, pid: int, tag: int) -> bool:
        """Kill a process, but only if the very process that is signalled carries the tag. Says whether it was signalled."""
        ...

    def tree(self, pid: int) -> list[ProcessUse]:
        """Every process below `pid`, and what it takes."""
        ...


class Owner(Struct, frozen=True):
    """Who answers for a resource: one life of one process."""

    id: str
    process: ProcessIdentity


class LedgerRow(Struct, frozen=True):
    """A resource that exists, or may: written before it is made, completed after, removed when it is proved gone."""

    id: str
    kind: str
    """which manager can end it: `process`, `directory`, …"""
    name: str
    owner: Owner
    since_us: int
    runs: tuple[str, ...] = ()
    """who holds it; none when it is kept warm"""
    tag: int = 0
    """carried by every process of its tree; 0 if it has none"""
    keeper: ProcessIdentity | None = None
    leader: ProcessIdentity | None = None
    """of its tree; None for an intent: it may not have come to be"""
    path: str = ""
    """of its directory"""


class Ledger(Protocol):
    """Where live resources are written down, so that another process can end what a dead one left."""

    async def put(self, row: LedgerRow) -> None:
        """Write a row, in place of the one with its id if there is one. It is durable when this returns."""
        ...

    async def remove(self, row_id: str) -> None:
        """Take a row out. One that is not there is fine."""
        ...

    async def rows(self) -> list[LedgerRow]:
        """All of them, oldest first. Raises StorageError if they cannot be read, all of them or none."""
        ...

    async def aclose(self) -> None:
        """Let go of the storage. Twice is fine."""
        ...


class HeldResource(Struct, frozen=True):
    """One line of a manager's inventory."""

    id: str
    kind: str
    name: str
    state: str
    """`starting`, `held`, `idle`, `ending` or `stuck`"""
    runs: tuple[str, ...]
    since_us: int
    processes: tuple[ProcessUse, ...] = ()

    @property
    def memory_bytes(self) -> int:
        return sum(use.memory_bytes for use in self.processes)


class SweepReport(Struct):
    """What a sweep did, and what it left alone and why."""

    ended: list[LedgerRow]
    left: list[tuple[LedgerRow, str]]
    """rows whose owner is gone, or may be, that were not touched, with the reason"""
    problem: str = ""
    """why nothing was done at all"""


class Holder(Protocol):
    """Whoever holds leases: a run."""

    @property
    def id(self) -> str: ...

    def own(self, lease: Lease) -> None:
        """Take over a lease and release it at the end. Raises RunEndedError when it is too late for that."""
        ...


class ResourceManager(Protocol):
    """Makes, shares and ends resources of one kind. Everything may be called from any thread and any event loop."""

    @property
    def kind(self) -> str: ...

    async def acquire(self, spec: Any, run: Holder) -> Lease:
        """A lease on a resource that fits `spec`, owned by `run`. Waits its turn where a cap is reached.

        Raises what making the resource raises, having left nothing behind; ClosedError after `release_all()`.
        """
        ...

    async def release_for_run(self, run_id: str) -> None:
        """Release all that a run holds. Raises after trying all, if one could not be ended."""
        ...

    async def release_all(self) -> None:
        """End everything, idle or held, and make nothing new. Raises after trying all, if one could not be ended."""
        ...

    async def sweep(self) -> SweepReport:
        """End what owners that are proved gone left behind."""
        ...

    def inventory(self) -> list[HeldResource]:
        """What there is now."""
        ...


class Spec(Protocol):
    """What a resource shall be."""

    @property
    def name(self) -> str:
        """For people: in inventories and events."""
        ...

    def key(self) -> Hashable:
        """Everything that shapes the resource: two specs with the same key can share one."""
        ...
