"""Crash points: a journal store that strikes at one of its writes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from holdfast.errors import StoreUnavailableError
from holdfast.ports import Batch, BranchInfo, JournalStore, RunInfo, Session


class CrashPoint(Struct, frozen=True):
    """One moment in the life of a store: before or after its nth write, counted from 1."""

    number: int
    moment: Literal["before", "after"] = "before"


def kill_process(write: str) -> None:
    """End this process as a power cut would: no handler, no `finally`, nothing flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()  # the signal may reach another thread first: go no further


def refuse_write(write: str) -> None:
    """Raise StoreUnavailableError, as a store does whose disk is full. After a write: it is stored, and its writer is not told."""
    raise StoreUnavailableError(f"{write} was refused by a crash point; take the point away")


class CrashingStore:
    """Passes everything on to another journal store, and strikes at a point: `kill_process`, `refuse_write`, or what you write.

    Writes are `open`, `append`, `close_session`, their twins, `fork`, `prune` and `delete`, of every run of the store. `writes` has
    the names of those that were begun, so that a run without a point says how many points there are.
    """

    def __init__(
        self, store: JournalStore, point: CrashPoint | None = None, strike: Callable[[str], None] = kill_process
    ) -> None:
        self.store = store
        self.writes: list[str] = []
        self._point = point
        self._strike = strike
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)  # reading and closing

    def _reach(self, write: str) -> int:
        with self._lock:
            self.writes.append(write)
            number = len(self.writes)
        self._pass(write, number, "before")
        return number

    def _pass(self, write: str, number: int, moment: Literal["before", "after"]) -> None:
        if CrashPoint(number, moment) == self._point:
            self._strike(write)

    async def open(self, info: RunInfo, **options: Any) -> Session:
        number = self._reach("open")
        session = await self.store.open(info, **options)
        self._pass("open", number, "after")
        return session

    def open_now(self, info: RunInfo, **options: Any) -> Session:
        number = self._reach("open_now")
        session = self.store.open_now(info, **options)
        self._pass("open_now", number, "after")
        return session

    async def append(self, batch: Batch) -> None:
        number = self._reach("append")
        await self.store.append(batch)
        self._pass("append", number, "after")

    def append_now(self, batch: Batch) -> None:
        number = self._reach("append_now")
        self.store.append_now(batch)
        self._pass("append_now", number, "after")

    def expect(self, session: Session, event_ids: Sequence[str]) -> None:
        self.store.expect(session, event_ids)

    def append_at_once(self, batch: Batch) -> bool:
        number = self._reach("append_at_once")
        is_stored = self.store.append_at_once(batch)
        self._pass("append_at_once", number, "after")
        return is_stored

    async def close_session(self, session: Session) -> None:
        number = self._reach("close_session")
        await self.store.close_session(session)
        self._pass("close_session", number, "after")

    def close_session_now(self, session: Session) -> None:
        number = self._reach("close_session_now")
        self.store.close_session_now(session)
        self._pass("close_session_now", number, "after")

    async def fork(self, root_run_id: str, **options: Any) -> BranchInfo:
        number = self._reach("fork")
        branch = await self.store.fork(root_run_id, **options)
        self._pass("fork", number, "after")
        return branch

    async def prune(self, root_run_id: str, *, keep_marks: Iterable[str]) -> int:
        number = self._reach("prune")
        freed = await self.store.prune(root_run_id, keep_marks=keep_marks)
        self._pass("prune", number, "after")
        return freed

    async def delete(self, root_run_id: str, *, now_us: int) -> None:
        number = self._reach("delete")
        await self.store.delete(root_run_id, now_us=now_us)
        self._pass("delete", number, "after")
