"""The connections of one SQLite store: one that writes, a few that read, none that crosses a fork."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, TypeVar

from holdfast.stores import _rules as rules
from holdfast.stores import _sqlite_file as file

T = TypeVar("T")
READERS = 4
LOOK_SECONDS = 0.1
"""How long a writer may go on without looking whether its file is still there: a look costs a twentieth of a commit."""


class Connections:
    """Opens when first needed; opens again after the storage failed, as long as it is the same file."""

    def __init__(self, path: Path, busy_seconds: float, forget: Callable[[], None]) -> None:
        """`forget` is called when the writer opens the file: what was known of its content may be true of another one."""
        self.path = path
        self._forget = forget
        self._place = str(path)
        self._busy_seconds = busy_seconds
        self._opened: tuple[int, int] | None = None
        self._closed = False
        self.reset()

    def reset(self) -> None:
        self._guard = threading.Condition()
        self.writing: sqlite3.Connection | None = None
        """The writing connection, if the file was opened; whoever has the writer's turn may use it until it must be looked whether
        that is still the file"""
        self.good_until = 0.0
        self._idle: list[sqlite3.Connection] = []
        self._watcher: sqlite3.Connection | None = None
        self._watchers = 0
        self._lent = 0
        self._suspended = False

    @property
    def used(self) -> bool:
        """True once the file was opened."""
        return self._opened is not None

    def writer(self) -> sqlite3.Connection:
        """The writing connection. The caller has the writer's turn."""
        now = time.monotonic()
        if self.writing is not None and now < self.good_until:
            return self.writing
        self.good_until = now + LOOK_SECONDS
        if self.writing is not None and self._opened == file.identity(self._place):
            return self.writing
        self.drop_writer()
        with self._guard:
            self._prepare()
        self._forget()
        self.writing = file.open_writer(self.path, self._busy_seconds)
        return self.writing

    def drop_writer(self) -> None:
        """After an error: the next write opens it anew."""
        if self.writing is not None:
            self.writing.close()
            self.writing = None

    @contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """Borrow a reading connection."""
        connection = self._borrow()
        healthy = False
        try:
            with file.storage_errors(self.path):
                yield connection
            healthy = True
        finally:
            self._give_back(connection, keep=healthy)

    def _borrow(self) -> sqlite3.Connection:
        with self._guard:
            self._guard.wait_for(lambda: not self._suspended)
            self._prepare()
            connection = self._idle.pop() if self._idle else file.open_reader(self.path, self._busy_seconds)
            self._lent += 1
            return connection

    def _give_back(self, connection: sqlite3.Connection, *, keep: bool) -> None:
        with self._guard:
            self._lent -= 1
            if keep and len(self._idle) < READERS:
                self._idle.append(connection)
            else:
                connection.close()
            self._guard.notify_all()

    def stamp(self) -> int:
        """A number that changes when anything was written, by whomever."""
        with self._guard, file.storage_errors(self.path):
            self._guard.wait_for(lambda: not self._suspended)
            self._prepare()
            if self._watcher is None:
                self._watcher = file.open_reader(self.path, self._busy_seconds)
                self._watchers += 1  # what the next one counts has nothing to do with what the last one did
            (version,) = self._watcher.execute("PRAGMA data_version").fetchone()
            return (self._watchers << 32) + int(version)

    def _prepare(self) -> None:
        """See that the file is there and sound. Only a store that never had one makes one."""
        if self._closed:
            raise rules.store_closed(f"the store at {self.path}")
        if self._opened is None:
            if not self.path.exists():
                file.create(self.path)
            file.prepare(self.path, self._busy_seconds)
            self._opened = file.identity(self._place)
        elif (found := file.identity(self._place)) != self._opened:
            # Somebody put another file there, say a backup.
            self._close_idle()
            file.prepare(self.path, self._busy_seconds)
            self._opened = found

    def suspend(self) -> None:
        """Close everything and let nobody in. The caller has the writer's turn."""
        with self._guard:
            self._suspended = True
            self._guard.wait_for(lambda: not self._lent)
            self._close_idle()
            self.drop_writer()

    def resume(self) -> None:
        with self._guard:
            self._suspended = False
            self._guard.notify_all()

    def close(self) -> None:
        """The caller has the writer's turn."""
        self.suspend()
        self._closed = True
        self.resume()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None


class ForkSafe:
    """Closes connections before a fork. SQLite's locks do not cross one, but its memory of having them does, so that a
    child that opened the file afresh could lose what it writes."""

    stores: ClassVar[weakref.WeakSet[ForkSafe]] = weakref.WeakSet()

    def before_fork(self) -> None:
        raise NotImplementedError

    def after_fork_in_parent(self) -> None:
        raise NotImplementedError

    def after_fork_in_child(self) -> None:
        raise NotImplementedError


class _Forking:
    """Those that were told of the fork under way, so that just those hear of its end."""

    told: ClassVar[list[ForkSafe]] = []  # one for the process, as there is one fork at a time

    @classmethod
    def before(cls) -> None:
        cls.told = list(ForkSafe.stores)
        for store in cls.told:
            store.before_fork()

    @classmethod
    def after(cls, tell: Callable[[ForkSafe], None]) -> None:
        told, cls.told = cls.told, []
        for store in told:
            tell(store)


os.register_at_fork(
    before=_Forking.before,
    after_in_parent=lambda: _Forking.after(lambda store: store.after_fork_in_parent()),
    after_in_child=lambda: _Forking.after(lambda store: store.after_fork_in_child()),
)
