"""The file of an SQLite journal: made, opened, checked, and its errors put into words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.errors import CorruptStoreError, StorageError, StoreUnavailableError
from holdfast.stores._migrations import migrate, pending, schema_version

CHECK_BYTES = 256 * 1024 * 1024
"""A larger file is not read through when opened: even from memory that takes a quarter of a second, every time."""
SMALLEST = 512
STATEMENTS = 128

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_WAITING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: make room",
    sqlite3.SQLITE_READONLY: "it is read-only: see to the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: see to the path and its permissions",
    sqlite3.SQLITE_IOERR: "reading or writing failed: see to the disk, its quota and limits on file size",
    sqlite3.SQLITE_BUSY: "another process kept it locked: end that process, or wait longer",
}


def create(path: Path) -> None:
    """Make a new journal at `path`, for its owner's eyes only, complete or not at all. One that is there is left alone.

    Made aside and linked into place, so that a journal is never seen empty: an empty file is a damaged one.
    """
    with storage_errors(path):
        _make_folders(path.parent)
        aside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.new")
        try:
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = sqlite3.connect(aside, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("BEGIN IMMEDIATE")
                migrate(connection, str(path))
                connection.execute("COMMIT")
            finally:
                connection.close()
            with suppress(FileExistsError):  # another process was faster
                os.link(aside, path)
            _sync_folder(path.parent)
        finally:
            for leftover in (aside, Path(f"{aside}-wal"), Path(f"{aside}-shm")):
                leftover.unlink(missing_ok=True)


def open_writer(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection that writes. Every commit is on disk when it returns; a lock in the way is an error at once."""
    return _opened(
        path,
        busy_seconds,
        "PRAGMA synchronous = FULL",
        "PRAGMA fullfsync = ON",  # macOS: flush the drive's own cache too
        "PRAGMA busy_timeout = 0",  # last: reading the schema for the others may have to wait
    )


def open_reader(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection that only reads, beside the writer and without stopping it."""
    return _opened(path, busy_seconds, "PRAGMA query_only = ON")


def prepare(path: Path, busy_seconds: float) -> None:
    """Check a journal before its first use, and bring an older schema up to date.

    Raises CorruptStoreError if it is damaged, StorageError if it is not ours or too new.
    """
    _check_size(path)
    connection = _opened(path, busy_seconds)
    try:
        with storage_errors(path):
            if path.stat().st_size <= CHECK_BYTES:
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                if verdict != "ok":
                    raise corrupt(path, verdict)
            if not schema_version(connection):
                raise StorageError(f"{path} is an SQLite database, but no journal of ours; choose another path")
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")  # somebody changed it; .recover and VACUUM INTO do
            if pending("sqlite", schema_version(connection), str(path)):
                connection.execute("BEGIN IMMEDIATE")
                migrate(connection, str(path))
                connection.execute("COMMIT")
    finally:
        connection.close()


def identity(path: str) -> tuple[int, int]:
    """Which file it is. Raises StoreUnavailableError when there is none: SQLite would go on writing to a deleted one."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} is gone: {error.strerror}; put it back, or start anew elsewhere"
        ) from error
    return found.st_dev, found.st_ino


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's and the system's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(path, error) from error
    except OSError as error:
        raise StoreUnavailableError(
            f"{path}: {error.strerror or error}; see to the path and its permissions"
        ) from error


def translate(path: Path, error: sqlite3.Error) -> StorageError:
    """SQLite's error as ours."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGED:
        return corrupt(path, str(error))
    return StoreUnavailableError(f"{path}: {error}; {_ADVICE.get(code, 'nothing of it was stored')}")


def is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _WAITING


def corrupt(path: Path, why: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"{path} is damaged ({why}). Nothing was changed. {_what_can_be_saved(path)} To save it: end every process that "
        f"uses it, copy {path.name} and {path.name}-wal elsewhere, then "
        f"`sqlite3 copy.db .recover | sqlite3 {path.stem}-saved.db`, and open {path.stem}-saved.db. "
        "Or put back a backup, and start runs that are not in it anew."
    )


def _what_can_be_saved(path: Path) -> str:
    """Read what can be read, run by run."""
    whole, torn = 0, []
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        return "It cannot be read at all."
    try:
        keys = [key for (key,) in connection.execute("SELECT key FROM run LIMIT 1000")]
        for key in keys:
            try:
                # Comparing them reads them; their length alone would not.
                query = """
                    SELECT max(payload), max(delta) FROM branch
                    JOIN event ON event.key > branch.key << 32 AND event.key < (branch.key + 1) << 32 WHERE run = ?
                """
                whole += bool(connection.execute(query, (key,)).fetchone())
            except sqlite3.DatabaseError:
                torn.append(key)
    except sqlite3.Error:
        return "Its list of runs cannot be read; single rows may still be."
    finally:
        connection.close()
    return f"{whole} of {whole + len(torn)} runs can be read to the end."


def _check_size(path: Path) -> None:
    # By its size, not by reading it: closing the file would drop the locks of every connection in this process.
    with storage_errors(path):
        size = path.stat().st_size
    if size < SMALLEST:  # SQLite itself takes a file of one byte for a new one
        raise CorruptStoreError(
            f"{path} is empty, which a journal never is: it was truncated, or never was one. Put back a backup; if there was "
            f"nothing in it, delete it and {path.name}-wal."
        )


def _opened(path: Path, busy_seconds: float, *pragmas: str) -> sqlite3.Connection:
    with storage_errors(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=STATEMENTS,
        )
        try:
            for pragma in pragmas:
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        return connection


def _make_folders(folder: Path) -> None:
    """Missing folders, for their owner's eyes only. (`mkdir(parents=True)` gives only the last one its mode.)"""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
