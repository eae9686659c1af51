"""`SqliteStore`: journals in one file that several processes may share. Every commit is on disk when it returns."""

from __future__ import annotations

import copy
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextvars import Context
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import FencedError, HoldfastError, StorageError
from holdfast.ports import Batch, BranchInfo, Mark, Row, RunInfo, Session, Snapshot
from holdfast.stores import _rules as rules
from holdfast.stores import _sqlite_reads as reads
from holdfast.stores import _sqlite_writes as writes
from holdfast.stores._closing import Closing
from holdfast.stores._group import BusyError, GroupWriter, Pending, Waiter, wake
from holdfast.stores._sqlite_connections import Connections, ForkSafe
from holdfast.stores._sqlite_file import is_busy, translate
from holdfast.threads import ThreadPool

T = TypeVar("T")

_UNFIT = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.NotSupportedError,
    OverflowError,
    TypeError,
    ValueError,
)
"""One value is at fault, not the storage."""


class SqliteEngine(ForkSafe):
    """Carries work to the file: groups of writes in one transaction each, reads beside them."""

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self.path = path
        self.connections = Connections(path, busy_seconds)
        self.writer = GroupWriter(self._commit, "holdfast-sqlite-writer")
        self.standings: writes.Standings = {}
        self._busy_seconds = busy_seconds
        self._threads = ThreadPool("holdfast-sqlite-reader", idle_seconds=2.0)
        self.closed = False
        self.stores.add(self)

    # -- writing ---------------------------------------------------------------------------------------------------

    def _commit(self, group: Sequence[Pending[Any]], patient: bool) -> None:
        """One transaction for the group. When one value turns out unfit, each gets a transaction of its own."""
        try:
            self._transact(group, patient)
        except _UNFIT:
            for pending in group:
                pending.error = None
                self._commit_alone(pending)
        except sqlite3.Error as error:
            self._fail(group, translate(self.path, error))
        except (HoldfastError, OSError) as error:
            self._fail(group, error)

    def _commit_alone(self, pending: Pending[Any]) -> None:
        try:
            self._transact([pending], patient=True)
        except _UNFIT as error:
            self._fail([pending], error)
        except sqlite3.Error as error:
            self._fail([pending], translate(self.path, error))
        except (HoldfastError, OSError) as error:
            self._fail([pending], error)

    @staticmethod
    def _fail(group: Sequence[Pending[Any]], error: BaseException) -> None:
        for pending in group:
            pending.error = copy.copy(error)  # one each: a raised exception collects its raiser's traceback
            pending.error.__cause__ = error.__cause__

    def _transact(self, group: Sequence[Pending[Any]], patient: bool) -> None:
        connection = self.connections.writer()
        self._begin(connection, patient)
        try:
            for pending in group:
                try:
                    pending.result = pending.work(connection)
                except StorageError as refusal:  # raised before anything was changed
                    pending.error = refusal
            connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back(connection)
            if isinstance(error, sqlite3.Error) and not isinstance(error, _UNFIT):
                self.connections.drop_writer()  # whatever state it is in, the next one starts clean
            raise

    def _begin(self, connection: sqlite3.Connection, patient: bool) -> None:
        deadline, pause = 0.0, 0.001
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    self.connections.drop_writer()
                    raise
                if not patient:
                    raise BusyError from error
                now = time.monotonic()
                deadline = deadline or now + self._busy_seconds
                if now > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        self.standings.clear()
        if connection.in_transaction:  # SQLite rolls back by itself after some errors
            connection.execute("ROLLBACK")

    # -- reading ---------------------------------------------------------------------------------------------------

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do a read off the loop."""
        self.check_open()
        pending = Pending(lambda _: self._read(work), Waiter())
        assert pending.waiter is not None
        self._threads.submit(Context(), _run, pending, None)
        return await pending.waiter.wait()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self.connections.reader() as connection:
            return work(connection)

    # -- ending ----------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        if self.closed:
            raise rules.store_closed(f"the store at {self.path}")

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.writer.finish()
        with self.writer.turn:
            self.connections.close()
        self._threads.stop()
        self.stores.discard(self)

    async def aclose(self) -> None:
        if self.closed:
            return
        pending = Pending(lambda _: self.close(), Waiter())
        assert pending.waiter is not None
        thread = threading.Thread(target=_run, args=(pending, None), name="holdfast-sqlite-closer", daemon=True)
        thread.start()
        await pending.waiter.wait()
        thread.join()

    def before_fork(self) -> None:
        self.writer.turn.acquire()
        self.connections.suspend()

    def after_fork_in_parent(self) -> None:
        self.connections.resume()
        self.writer.turn.release()

    def after_fork_in_child(self) -> None:
        self.connections.reset()
        self.writer.reset()


def _run(pending: Pending[Any], argument: object) -> None:
    try:
        pending.result = pending.work(argument)
    except BaseException as error:  # the task that waits gets it, whatever it is
        pending.error = error
    wake([pending])


class SqliteStore(Closing):
    """Journals in an SQLite file, made on first use with permissions 0600, in WAL mode, fsync on.

    Several processes on one machine may share the file; a network file system will not do. `busy_seconds` bounds how long
    a write waits for another process. A file over 256 MiB is not read through when it is opened. After a fork, parent and
    child open it anew.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_seconds: float = 10.0) -> None:
        self.path = Path(path).expanduser().absolute()
        self._engine = SqliteEngine(self.path, busy_seconds)
        self._sessions: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    # -- writing ---------------------------------------------------------------------------------------------------

    async def open(
        self, info: RunInfo, *, branch: str = "main", owner: str, now_us: int, hold_until_us: int
    ) -> Session:
        work = partial(
            writes.open_run, info=info, branch=branch, owner=owner, now_us=now_us, hold_until_us=hold_until_us
        )
        return self._opened(await self._write(work))

    def open_now(self, info: RunInfo, *, branch: str = "main", owner: str, now_us: int, hold_until_us: int) -> Session:
        work = partial(
            writes.open_run, info=info, branch=branch, owner=owner, now_us=now_us, hold_until_us=hold_until_us
        )
        return self._opened(self._write_now(work))

    def _opened(self, session: Session) -> Session:
        self._sessions[session.root_run_id] = session.fence
        return session

    async def append(self, batch: Batch) -> None:
        alone = len(self._sessions) <= 1
        try:
            await self._write(self._append(batch), alone=alone)
        except FencedError:
            self._left(batch.session)
            raise
        self._leave_after(batch)

    def append_at_once(self, batch: Batch) -> bool:
        self._engine.check_open()
        if len(self._sessions) > 1:
            return False
        try:
            is_stored = self._engine.writer.write_at_once(self._append(batch))
        except FencedError:
            self._left(batch.session)
            raise
        if is_stored:
            self._leave_after(batch)
        return is_stored

    def append_now(self, batch: Batch) -> None:
        try:
            self._write_now(self._append(batch))
        except FencedError:
            self._left(batch.session)
            raise
        self._leave_after(batch)

    def _append(self, batch: Batch) -> Callable[[sqlite3.Connection], None]:
        standings = self._engine.standings
        return lambda connection: writes.append(connection, batch, standings)

    async def close_session(self, session: Session) -> None:
        self._left(session)
        await self._write(partial(writes.close_session, session=session))

    def close_session_now(self, session: Session) -> None:
        self._left(session)
        self._write_now(partial(writes.close_session, session=session))

    def _leave_after(self, batch: Batch) -> None:
        if batch.hold_until_us == 0:
            self._left(batch.session)

    def _left(self, session: Session) -> None:
        self._engine.standings.pop(session.fence, None)
        if self._sessions.get(session.root_run_id) == session.fence:
            self._sessions.pop(session.root_run_id, None)

    async def _write(self, work: Callable[[sqlite3.Connection], T], *, alone: bool = False) -> T:
        self._engine.check_open()
        return await self._engine.writer.write(work, alone=alone)

    def _write_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._engine.check_open()
        return self._engine.writer.write_now(work)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def run(self, root_run_id: str) -> RunInfo | None:
        return await self._engine.read(partial(reads.run, root_run_id=root_run_id))

    async def runs(self, *, status: str | None = None, limit: int = 100) -> list[RunInfo]:
        return await self._engine.read(partial(reads.runs, status=status, limit=limit))

    async def read(
        self, root_run_id: str, *, branch: str = "main", after: int = 0, upto: int | None = None
    ) -> AsyncIterator[Row]:
        known = await self._engine.read(partial(reads.branches, root_run_id=root_run_id))
        for segment in rules.reading(known.lineage(root_run_id, branch, upto), after):
            key = known.keys[segment.branch]
            while page := await self._engine.read(partial(reads.page, branch_key=key, segment=segment)):
                for row in page:
                    yield row
                segment = segment._replace(after=page[-1].seq)

    async def last_snapshot(
        self, root_run_id: str, *, branch: str = "main", upto: int | None = None
    ) -> Snapshot | None:
        return await self._engine.read(partial(reads.last_snapshot, root_run_id=root_run_id, branch=branch, upto=upto))

    async def blob(self, digest: str) -> bytes:
        return await self._engine.read(partial(reads.blob, digest=digest))

    async def marks(self, root_run_id: str | None = None, *, limit: int = 1000) -> list[Mark]:
        return await self._engine.read(partial(reads.marks, root_run_id=root_run_id, limit=limit))

    async def mark(self, mark_id: str) -> Mark | None:
        return await self._engine.read(partial(reads.mark, mark_id=mark_id))

    async def branches(self, root_run_id: str) -> list[BranchInfo]:
        known = await self._engine.read(partial(reads.branches, root_run_id=root_run_id))
        return list(known.infos.values())

    async def size(self, root_run_id: str) -> int:
        return await self._engine.read(partial(reads.size, root_run_id=root_run_id))

    # -- changing shape --------------------------------------------------------------------------------------------

    async def fork(self, root_run_id: str, *, branch: str, parent: str, at_seq: int, now_us: int) -> BranchInfo:
        work = partial(writes.fork, root_run_id=root_run_id, branch=branch, parent=parent, at_seq=at_seq, now_us=now_us)
        return await self._write(work)

    async def prune(self, root_run_id: str, *, keep_marks: Iterable[str]) -> int:
        return await self._write(partial(writes.prune, root_run_id=root_run_id, keep_marks=frozenset(keep_marks)))

    async def delete(self, root_run_id: str, *, now_us: int) -> None:
        await self._write(partial(writes.delete, root_run_id=root_run_id, now_us=now_us))

    async def aclose(self) -> None:
        await self._engine.aclose()

    def close(self) -> None:
        self._engine.close()

    def _holds_something(self) -> bool:
        engine = getattr(self, "_engine", None)
        return engine is not None and not engine.closed and engine.connections.used
