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
from holdfast.stores._sqlite_wal import Wal
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
        self.standings: writes.Standings = {}
        self.connections = Connections(path, busy_seconds, self._opened)
        self._wal = Wal(path)
        self.writer = GroupWriter(self, "holdfast-sqlite-writer")
        self._busy_seconds = busy_seconds
        self._threads = ThreadPool("holdfast-sqlite-reader", idle_seconds=2.0)
        self.closed = False
        self.stores.add(self)

    def _opened(self) -> None:
        """The writer opens the file: what was known of its content may be true of another one."""
        self.standings.clear()
        self._wal.begin()

    # -- writing ---------------------------------------------------------------------------------------------------

    def commit_one(self, work: Callable[[sqlite3.Connection], T], patient: bool) -> T:
        """One transaction for one piece of work. All in one place, because every step of a run comes through here."""
        tries = 2
        while True:
            try:
                connection = self.connections.writing
                if connection is None or time.monotonic() >= self.connections.good_until:
                    connection = self.connections.writer()
                try:
                    if (
                        type(work) is writes.Append
                        and not connection.in_transaction
                        and (entry := work.entry()) is not None
                    ):
                        self._wal.patience = patience = self._wal.patience - 1
                        if patience < 0:
                            self._wal.lengthen(connection)
                        connection.execute(*entry)  # one statement is a transaction by itself, if none was left open
                        return None  # type: ignore[return-value]
                    self._begin(connection)
                except BaseException as error:
                    self.standings.clear()
                    if not isinstance(error, sqlite3.OperationalError):
                        raise
                    self._begin_later(connection, error, patient)
                try:
                    result = work(connection)
                    connection.execute("COMMIT")
                except BaseException as error:
                    self._roll_back(connection, error)
                    raise
                return result
            except _UNFIT:  # or what was known of a session is not true any more; it is forgotten now
                tries -= 1
                if not tries:
                    raise
                patient = True
            except sqlite3.Error as error:
                raise translate(self.path, error) from error

    def commit_all(self, group: Sequence[Pending[Any]]) -> None:
        """One transaction for the group. When one value turns out unfit, each gets a transaction of its own."""
        try:
            self._transact(group)
        except _UNFIT:
            for pending in group:
                self._commit_by_itself(pending)
        except sqlite3.Error as error:
            self._fail(group, translate(self.path, error))
        except (HoldfastError, OSError) as error:
            self._fail(group, error)

    def _commit_by_itself(self, pending: Pending[Any]) -> None:
        pending.error = None
        try:
            pending.result = self.commit_one(pending.work, True)
        except (*_UNFIT, HoldfastError, OSError) as error:
            pending.error = error

    @staticmethod
    def _fail(group: Sequence[Pending[Any]], error: BaseException) -> None:
        for pending in group:
            pending.error = copy.copy(error)  # one each: a raised exception collects its raiser's traceback
            pending.error.__cause__ = error.__cause__

    def _transact(self, group: Sequence[Pending[Any]]) -> None:
        connection = self.connections.writer()
        try:
            self._begin(connection)
        except sqlite3.OperationalError as error:
            self._begin_later(connection, error, patient=True)
        try:
            entries = writes.Entries(connection)
            for pending in group:
                try:
                    work = pending.work
                    if type(work) is not writes.Append or not entries.take(work):
                        entries.write()  # in the order they came
                        pending.result = work(connection)
                except StorageError as refusal:  # raised before anything was changed
                    pending.error = refusal
            entries.write()
            connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back(connection, error)
            raise

    @staticmethod
    def _begin(connection: sqlite3.Connection) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except BaseException:
            if connection.in_transaction:  # Ctrl-C is heard of when it has begun: it would shut out all others
                connection.execute("ROLLBACK")
            raise

    def _begin_later(self, connection: sqlite3.Connection, error: sqlite3.OperationalError, patient: bool) -> None:
        """Begin a transaction that could not begin at once."""
        deadline, pause = time.monotonic() + self._busy_seconds, 0.001
        while True:
            if not is_busy(error):
                self.connections.drop_writer()
                raise error
            if not patient:
                raise BusyError from error
            if time.monotonic() > deadline:
                raise error
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
            try:
                self._begin(connection)
                return
            except sqlite3.OperationalError as again:
                error = again

    def _roll_back(self, connection: sqlite3.Connection, error: BaseException) -> None:
        if not isinstance(error, StorageError):  # a refusal, which has changed nothing
            self.standings.clear()
        if connection.in_transaction:  # SQLite rolls back by itself after some errors
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error) and not isinstance(error, _UNFIT):
            self.connections.drop_writer()  # whatever state it is in, the next one starts clean

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
        engine = self._engine
        engine.check_open()
        try:
            await engine.writer.write(writes.Append(batch, engine.standings), alone=len(self._sessions) <= 1)
        except FencedError:
            self._left(batch.session)
            raise
        if batch.hold_until_us == 0:
            self._left(batch.session)

    def append_at_once(self, batch: Batch) -> bool:
        engine = self._engine
        if engine.closed:
            engine.check_open()
        try:
            if len(self._sessions) > 1:
                return False
            is_stored, _ = engine.writer.write_at_once(writes.Append(batch, engine.standings))
        except FencedError:
            self._left(batch.session)
            raise
        if is_stored and batch.hold_until_us == 0:
            self._left(batch.session)
        return is_stored

    def append_now(self, batch: Batch) -> None:
        engine = self._engine
        if engine.closed:
            engine.check_open()
        try:
            engine.writer.write_now(writes.Append(batch, engine.standings))
        except FencedError:
            self._left(batch.session)
            raise
        if batch.hold_until_us == 0:
            self._left(batch.session)

    def expect(self, session: Session, event_ids: Sequence[str]) -> None:
        if (standing := self._engine.standings.get(session.fence)) is not None:
            standing.bound.expect(event_ids)

    async def close_session(self, session: Session) -> None:
        self._left(session)
        await self._write(partial(writes.close_session, session=session))

    def close_session_now(self, session: Session) -> None:
        self._left(session)
        self._write_now(partial(writes.close_session, session=session))

    def _left(self, session: Session) -> None:
        self._engine.standings.pop(session.fence, None)
        if self._sessions.get(session.root_run_id) == session.fence:
            self._sessions.pop(session.root_run_id, None)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._engine.check_open()
        return await self._engine.writer.write(work, alone=False)

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
