"""`JournalStore`: where runs are written down. Memory, SQLite and PostgreSQL implement it and pass one suite.

A journal belongs to a root run; child runs share its numbers, so a position is one number. It has branches: `main`, and forks that
share everything up to the position they left at. Rows are only ever added. What is written in one `Batch` is there as
a whole or not at all, and only if the writer still holds the run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct


class Origin(Struct, frozen=True, gc=False, cache_hash=True):
    """Where an event comes from, and on whose behalf. Most events of a run have the same."""

    source_type: str | None = None
    source_id: str | None = None
    source_name: str | None = None
    task_id: str | None = None
    task_name: str | None = None
    agent_id: str | None = None
    agent_role: str | None = None


NOWHERE = Origin()


class Row(Struct, frozen=True, gc=False):
    """One event as it is stored. `payload` and `delta` are JSON; the store never looks inside."""

    seq: int
    type: str
    event_id: str
    at_us: int
    run_id: str
    payload: bytes
    delta: bytes | None = None
    """What the step that ended with this event changed in its run's state."""
    parent_event_id: str | None = None
    triggered_by_event_id: str | None = None
    started_event_id: str | None = None
    origin: Origin = NOWHERE

    @classmethod
    def of(cls, columns: Sequence[Any]) -> Row:
        """A row from its columns, those of its origin last."""
        seq, type_, event_id, at_us, run_id, payload, delta, parent, cause, opener, *origin = columns
        return Row(seq, type_, event_id, at_us, run_id, payload, delta, parent, cause, opener, Origin(*origin))


class Snapshot(Struct, frozen=True, gc=False):
    """Everything the rows up to `seq` amount to, so that a restore need not read them."""

    seq: int
    data: bytes


class Mark(Struct, frozen=True, gc=False):
    """A named checkpoint: a position somebody may want to come back to."""

    id: str
    seq: int
    at_us: int
    trigger: str
    """the event type that caused it, or `manual`"""
    branch: str = "main"
    root_run_id: str = ""
    parent_id: str | None = None
    """the mark before it, across branches"""
    size: int = 0
    """bytes written since the mark before it"""


class RunInfo(Struct, frozen=True):
    """What the store knows of a root run without reading its journal."""

    root_run_id: str
    kind: str
    """`flow`, `crew`, `agent`, `job`"""
    name: str
    status: str
    incarnation: int
    fingerprint: str
    """of the graph it was started with"""
    created_us: int
    updated_us: int
    held_until_us: int = 0
    """0 when nobody holds it"""
    definition: bytes = b"{}"
    """JSON: what is needed to build its graph again (class, module, steps)"""


class BranchInfo(Struct, frozen=True):
    """A branch of a run's journal."""

    name: str
    parent: str | None
    """None for `main`"""
    fork_seq: int
    """the last position it shares with its parent"""
    head: int
    """its last position"""
    created_us: int


class Session(Struct, frozen=True, gc=False):
    """The right to write one run's journal, proved by a fence that every later session outnumbers."""

    root_run_id: str
    branch: str
    incarnation: int
    fence: int
    head: int
    """the last position when it was opened"""


class Batch(Struct, frozen=True, gc=False):
    """What is written together."""

    session: Session
    rows: tuple[Row, ...] = ()
    blobs: tuple[tuple[str, bytes], ...] = ()
    """large values by the hash of their content; one that is there already is not written again

    A value is kept while some row or snapshot of a run that listed it spells out its hash.
    """
    snapshot: Snapshot | None = None
    """not before the branch's fork, not beyond its head; one at the fork itself hides its parent's"""
    marks: tuple[Mark, ...] = ()
    """said to be of the session's run and branch, whatever they say themselves; a known id is replaced. One that is called like
    the row it comes with is taken to be as new as that"""
    status: str | None = None
    """the run's new status, if it changes"""
    hold_until_us: int | None = None
    """a heartbeat: how long the session is held from now on; 0 with the last batch, which closes the session"""


class JournalStore(Protocol):
    """Where journals are kept. Every method may be called from any thread and any event loop, several at once.

    `…_now` methods block the caller; their twins do not block a loop. Each raises StoreUnavailableError when the storage
    cannot be read or written (disk full, file gone, connection lost), and nothing of the batch is then stored.
    """

    # -- writing ---------------------------------------------------------------------------------------------------

    async def open(
        self, info: RunInfo, *, branch: str = "main", owner: str, now_us: int, hold_until_us: int
    ) -> Session:
        """Take hold of a run, new or known, with the next incarnation and a higher fence.

        `owner` names the process' incarnation. Raises RunBusyError while another owner's hold has not run out; the same
        owner may take over from itself. A known run keeps its `created_us` and takes the rest from `info`; a new one starts at
        incarnation 1, on `main`. Raises StorageError if it has no such branch.
        """
        ...

    def open_now(self, info: RunInfo, *, branch: str = "main", owner: str, now_us: int, hold_until_us: int) -> Session:
        """`open`, blocking."""
        ...

    async def append(self, batch: Batch) -> None:
        """Store a batch durably. Concurrent batches may share one commit.

        Raises FencedError, storing nothing, if a later session was opened or this one closed; PositionError if the rows do
        not follow the branch's head without a gap. Cancelling it does not cut it short: what was
        begun is stored, or known not to be, when it raises CancelledError.
        """
        ...

    def append_now(self, batch: Batch) -> None:
        """`append`, blocking."""
        ...

    def append_at_once(self, batch: Batch) -> bool:
        """Store a batch here if a loop can spare the time; False, with nothing stored, if not: `append` it. Raises as that does."""
        ...

    def expect(self, session: Session, event_ids: Sequence[str]) -> None:
        """Hear which ids rows of a session will probably have. A store that keeps ids in another form may make that of many at
        once, which is cheaper; it need not do anything. Never blocks, never raises, keeps no hold of the list."""
        ...

    async def close_session(self, session: Session) -> None:
        """Give up the hold. A session that was overtaken gives up nothing."""
        ...

    def close_session_now(self, session: Session) -> None:
        """`close_session`, blocking."""
        ...

    # -- reading ---------------------------------------------------------------------------------------------------

    async def run(self, root_run_id: str) -> RunInfo | None:
        """What is known of a run."""
        ...

    async def runs(self, *, status: str | None = None, limit: int = 100) -> list[RunInfo]:
        """Runs, the last changed first."""
        ...

    def read(
        self, root_run_id: str, *, branch: str = "main", after: int = 0, upto: int | None = None
    ) -> AsyncIterator[Row]:
        """Rows of a branch in order, those it shares with its parents included. Holds no more than a page in memory.

        Raises StorageError if there is no such run or branch, as `last_snapshot` does.
        """
        ...

    async def last_snapshot(
        self, root_run_id: str, *, branch: str = "main", upto: int | None = None
    ) -> Snapshot | None:
        """The newest snapshot at or before a position of a branch, shared ones included."""
        ...

    async def blob(self, digest: str) -> bytes:
        """A large value. Raises StorageError if it is not there."""
        ...

    async def marks(self, root_run_id: str | None = None, *, limit: int = 1000) -> list[Mark]:
        """Marks, newest first."""
        ...

    async def mark(self, mark_id: str) -> Mark | None:
        """One mark."""
        ...

    async def branches(self, root_run_id: str) -> list[BranchInfo]:
        """The branches of a run, `main` first."""
        ...

    async def size(self, root_run_id: str) -> int:
        """How many bytes a run takes: its rows, its snapshots, and the large values it listed, also those that others
        share. 0 for one that is not there."""
        ...

    # -- changing shape --------------------------------------------------------------------------------------------

    async def fork(self, root_run_id: str, *, branch: str, parent: str, at_seq: int, now_us: int) -> BranchInfo:
        """Start a branch that shares everything up to `at_seq`. Raises StorageError if the name is taken, or the
        position is not on the parent or was pruned."""
        ...

    async def prune(self, root_run_id: str, *, keep_marks: Iterable[str]) -> int:
        """Drop the marks not listed, and rows, snapshots and blobs that no mark, no branch and no resume of a head can
        need any more. Returns how many bytes were freed. Never touches what a branch stands on. A mark that stays follows
        the nearest one before it that stays too."""
        ...

    async def delete(self, root_run_id: str, *, now_us: int) -> None:
        """Forget a run, known or not. Raises RunBusyError while somebody's hold has not run out."""
        ...

    async def aclose(self) -> None:
        """Finish what is queued and let go of the storage. Twice is fine; any other use afterwards is a ClosedError."""
        ...

    def close(self) -> None:
        """`aclose`, blocking."""
        ...
