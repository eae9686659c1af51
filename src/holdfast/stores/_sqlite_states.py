"""`SqlitePersistence`: states of `@persist` flows in one SQLite file that several processes may share."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.clock import Clock, SystemClock
from holdfast.deltas import decode_plain, encode_plain
from holdfast.errors import CorruptStoreError, StorageError, UsageError
from holdfast.stores import _queries
from holdfast.stores import _rules as rules
from holdfast.stores import _sqlite_file as file
from holdfast.stores._closing import Closing
from holdfast.stores._migrations import statements
from holdfast.stores._sqlite_connections import ForkSafe

T = TypeVar("T")

APPLICATION = 0x48465354
"""Tells our file from other SQLite databases: "HFST"."""
SCHEMA = 1


class SavedState(Struct, frozen=True):
    """One save of a state."""

    method: str
    saved_us: int
    state: dict[str, Any]


class SqlitePersistence(Closing, ForkSafe):
    """States in an SQLite file, made on first use with permissions 0600, in WAL mode; a save is on disk when it returns.

    Of each id the last `keep` saves stay. `busy_seconds` bounds how long a save waits for another process. After a fork,
    parent and child open the file anew. Raises StoreUnavailableError when it cannot be read or written, CorruptStoreError
    when it is damaged, StorageError when it is something else.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keep: int = 10,
        busy_seconds: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        if keep < 1:
            raise UsageError(f"keep={keep} would keep no state at all; the least is 1")
        self.path = Path(path).expanduser().absolute()
        self._keep = keep
        self._busy_seconds = busy_seconds
        self._clock: Clock = clock or SystemClock()
        self._sql = _queries.load("states")
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None
        self._closed = False
        self.stores.add(self)

    def __repr__(self) -> str:
        return f"SqlitePersistence({str(self.path)!r})"

    # -- the port --------------------------------------------------------------------------------------------------

    def save_state(self, state_id: str, method: str, state: dict[str, Any]) -> None:
        saved = (state_id, method, self._clock.time_ns() // 1000, encode_plain(state))

        def save(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(self._sql["save"], saved)
                connection.execute(self._sql["drop_older"], {"state_id": state_id, "keep": self._keep})
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite rolls back by itself after some errors
                    connection.execute("ROLLBACK")
                raise

        self._carry_out(save)

    def load_state(self, state_id: str) -> dict[str, Any] | None:
        found = self._carry_out(lambda connection: connection.execute(self._sql["load"], (state_id,)).fetchone())
        return None if found is None else decode_plain(found[0])

    def history(self, state_id: str) -> list[SavedState]:
        """The saves of an id that are still there, newest first."""
        rows = self._carry_out(lambda connection: connection.execute(self._sql["history"], (state_id,)).fetchall())
        return [SavedState(method, saved_us, decode_plain(data)) for method, saved_us, data in rows]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._let_go()

    async def aclose(self) -> None:
        """`close` for coroutines."""
        await asyncio.to_thread(self.close)

    # -- the file --------------------------------------------------------------------------------------------------

    def _carry_out(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._closed:
                raise rules.store_closed(repr(self))
            try:
                with file.storage_errors(self.path):
                    return work(self._connected())
            except StorageError as error:
                self._let_go()  # whatever state it is in, the next one starts clean
                raise _without_runs(self.path, error) from error.__cause__

    def _connected(self) -> sqlite3.Connection:
        """The connection, opened if need be. Only an object that never had a file makes one."""
        if self._opened is None and not self.path.exists():
            _create(self.path, self._sql["schema"])
        found = file.identity(str(self.path))
        if self._connection is None or found != self._opened:  # somebody may have put another file there
            self._let_go()
            self._connection = _open(self.path, self._busy_seconds)
            self._opened = found
        return self._connection

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _holds_something(self) -> bool:
        return getattr(self, "_connection", None) is not None

    def before_fork(self) -> None:
        self._lock.acquire()
        self._let_go()

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock = threading.Lock()


def _create(path: Path, schema: str) -> None:
    """Make the file, complete or not at all: made aside and linked into place. One that is there is left alone."""
    file._make_folders(path.parent)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.new")
    try:
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(aside, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            for statement in statements(schema):
                connection.execute(statement)
        finally:
            connection.close()
        with suppress(FileExistsError):  # another process was faster
            os.link(aside, path)
        file._sync_folder(path.parent)
    finally:
        for leftover in (aside, Path(f"{aside}-wal"), Path(f"{aside}-shm")):
            leftover.unlink(missing_ok=True)


def _open(path: Path, busy_seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        _check(path, connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: flush the drive's own cache too
    except BaseException:
        connection.close()
        raise
    return connection


def _check(path: Path, connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise StorageError(f"{path} holds no flow states; choose another path")
    if (schema := connection.execute("PRAGMA user_version").fetchone()[0]) > SCHEMA:
        raise StorageError(
            f"{path} was written by a newer Holdfast (schema {schema}; this one knows {SCHEMA}): upgrade it"
        )


def _without_runs(path: Path, error: StorageError) -> StorageError:
    """The error in words that fit this file: no journal, no runs."""
    if not isinstance(error, CorruptStoreError):
        return error
    return CorruptStoreError(
        f"{path} is damaged ({error.__cause__}). Nothing was changed. To save what can be: end every process that uses it, then "
        f"`sqlite3 {path.name} .recover | sqlite3 {path.stem}-saved.db`. Or delete it with its -wal file: then every id is new."
    )
