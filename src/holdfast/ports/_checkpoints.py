"""`CheckpointProvider`: where checkpoints are kept. JSON files, SQLite and PostgreSQL implement it and pass one suite.

What goes in and comes out is a *document*: one self-contained text from which a machine that never saw the run can restore it.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from msgspec import Struct

from holdfast.ports._journal import JournalStore


class CheckpointInfo(Struct, frozen=True):
    """What a list says of a checkpoint, without reading its run."""

    id: str
    root_run_id: str
    branch: str
    parent_id: str | None
    """the checkpoint before it, across branches; None if there is none any more"""
    trigger: str
    """the event type that caused it, or `manual`"""
    at_us: int
    size: int
    """bytes: of the file, or of what was written to the journal since the checkpoint before it"""
    kind: str
    """`flow`, `crew`, `agent`, `job`"""
    name: str
    status: str
    """the run's: as the journal has it now, or as it was when the file was written"""
    location: str
    """what `read` takes; so does the id"""


Infos: TypeAlias = list[CheckpointInfo]  # inside a class that has a method `list` it needs another name


class CheckpointProvider(Protocol):
    """Where checkpoints are kept. Every method may be called from any thread and any event loop, several at once.

    Methods without an `a` block the caller; their twins do not block a loop. Each raises StoreUnavailableError when the storage
    cannot be read or written, and ClosedError once the provider was closed.
    """

    @property
    def journal(self) -> JournalStore | None:
        """Where runs that use this provider are written down as they go.

        None: their journal is in memory, and each checkpoint is written as one document.
        """
        ...

    def write(self, document: bytes) -> str:
        """Store a document whole or not at all, and say where: what `read` takes. The same one again changes nothing.

        Raises StorageError for what is no document, or contradicts what is stored of the same run; RunBusyError if what it
        adds belongs to a run that a live process holds.
        """
        ...

    def read(self, where: str) -> bytes:
        """The document at a place that `write` or `list` named, or of a checkpoint's id. Raises StorageError if there is none."""
        ...

    def list(self, *, run_id: str | None = None, limit: int = 1000) -> Infos:
        """Checkpoints of one root run, or of all, newest first: by their own time, then by id."""
        ...

    def prune(self, *, run_id: str | None = None, keep: int | None = None, before_us: int | None = None) -> int:
        """Drop old checkpoints of one root run, or of every run; returns how many.

        `keep` protects that many of the newest on each branch, `before_us` all that are not older; what neither protects goes.
        While a run keeps any, it also keeps the newest of each branch, and those where a branch left another. Nothing that
        another checkpoint, a branch or a resume needs is lost. Raises UsageError if neither is given.
        """
        ...

    async def awrite(self, document: bytes) -> str:
        """`write`, without blocking the loop."""
        ...

    async def aread(self, where: str) -> bytes:
        """`read`, without blocking the loop."""
        ...

    async def alist(self, *, run_id: str | None = None, limit: int = 1000) -> Infos:
        """`list`, without blocking the loop."""
        ...

    async def aprune(self, *, run_id: str | None = None, keep: int | None = None, before_us: int | None = None) -> int:
        """`prune`, without blocking the loop."""
        ...

    def close(self) -> None:
        """Let go of the storage. Twice is fine; any other use afterwards is a ClosedError."""
        ...

    async def aclose(self) -> None:
        """`close`, without blocking the loop."""
        ...
