"""SQLite's write-ahead log, kept longer than what is in it."""

from __future__ import annotations

import os
import sqlite3

from holdfast.stores._sqlite_reads import SQL

PAGE = 4096
FRAME = PAGE + 24
"""A page in the log, with its header."""
SOON = 4
"""Commits until the next look at the log. The first comes after so many, too: shorter runs have nothing to gain."""
MORE = 64
"""Pages by which it is made longer."""
MOST = 1000
"""Pages of a log that SQLite itself begins anew: it is not made longer than that."""
LATER = 1000


class Wal:
    """Makes the log longer before it is full.

    A commit that makes a file longer has to write down the file's new length, too: for the file system that is a transaction of
    its own, and takes about as long again. So pages are written to the log and rolled back: they mean nothing, SQLite writes over
    them, and until they are used up the file keeps its length. Once the log is begun anew it is long enough anyway.
    """

    def __init__(self, path: os.PathLike[str]) -> None:
        self._file = f"{os.fspath(path)}-wal"
        self.begin()

    def begin(self) -> None:
        """A connection was opened."""
        self.patience = SOON
        """How many commits it can wait."""
        self._length = 0

    def lengthen(self, connection: sqlite3.Connection) -> None:
        """Make room if there is none. Between transactions. What goes wrong does not matter here: the next commit will tell."""
        size = self._size()
        if not 0 < size < MOST * FRAME:
            self.patience = LATER
        elif size <= self._length:  # there is still some
            self.patience = SOON
        else:
            self.patience = MORE // 2  # most commits write one page, some write three
            try:
                self._write_and_undo(connection)
            except sqlite3.Error:  # another process writes, or the disk is full
                self.patience = LATER
            self._length = self._size()

    def _size(self) -> int:
        try:
            return os.stat(self._file).st_size
        except OSError:
            return 0

    @staticmethod
    def _write_and_undo(connection: sqlite3.Connection) -> None:
        ((cache,),) = connection.execute("PRAGMA cache_size")
        connection.execute("PRAGMA cache_size = 10")  # what does not fit in there is written to the log at once
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(SQL["fill_log"], (MORE * PAGE,))
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute(f"PRAGMA cache_size = {cache}")
