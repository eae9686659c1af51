"""The log of SQLite is made longer ahead of what is written to it, and nobody can tell but by its length."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from itertools import pairwise
from pathlib import Path

from holdfast.ports import Session
from holdfast.stores import SqliteStore
from holdfast.stores._sqlite_wal import FRAME, MORE, MOST, PAGE, SOON, Wal
from holdfast.testing._journal_base import NOW, SECOND, make_info, positions, written

STEPS = 100


def open_now(store: SqliteStore) -> Session:
    return store.open_now(make_info(), owner="one", now_us=NOW, hold_until_us=NOW + 1000 * SECOND)


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def test_most_commits_find_room_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    sizes = []
    with SqliteStore(path) as store:
        session = open_now(store)
        for number in range(1, STEPS + 1):
            store.append_now(written(session, number, number))
            sizes.append(log_of(path).stat().st_size)
    lengthened = sum(after > before for before, after in pairwise(sizes))
    assert lengthened < STEPS // 5  # each of them, if it were left to SQLite
    assert sizes[SOON - 1] < SOON * 4 * FRAME  # a short run has no use for it
    assert sizes[-1] < sizes[0] + (4 * STEPS + MORE) * FRAME


def test_what_makes_the_log_longer_is_never_seen_not_even_after_a_crash(tmp_path: Path) -> None:
    path, copy = tmp_path / "journal.db", tmp_path / "copy.db"
    with SqliteStore(path) as store:
        session = open_now(store)
        for number in range(1, STEPS + 1):
            store.append_now(written(session, number, number))
        shutil.copy(path, copy)  # as a crash leaves it
        shutil.copy(log_of(path), log_of(copy))
    with SqliteStore(copy) as left:
        assert asyncio.run(positions(left, session.root_run_id)) == list(range(1, STEPS + 1))
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT count(*) FROM blob").fetchone() == (0,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def a_log(path: Path) -> sqlite3.Connection:
    with SqliteStore(path) as store:
        open_now(store)
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.execute("CREATE TABLE something (more)")
    return connection


def test_a_log_that_another_process_writes_to_or_that_is_long_already_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    connection, wal = a_log(path), Wal(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    size = log_of(path).stat().st_size
    wal.lengthen(connection)
    assert log_of(path).stat().st_size == size
    other.execute("INSERT INTO something VALUES (zeroblob(?))", (MOST * PAGE,))
    other.execute("COMMIT")
    size = log_of(path).stat().st_size
    wal.lengthen(connection)
    assert log_of(path).stat().st_size == size
    assert wal.patience > MORE
    other.close()
    connection.close()


def test_what_the_connection_keeps_in_memory_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    connection, wal = a_log(path), Wal(path)
    before = connection.execute("PRAGMA cache_size").fetchone()
    connection.execute("PRAGMA max_page_count = 20")  # as if the disk were full
    wal.lengthen(connection)
    assert connection.execute("PRAGMA cache_size").fetchone() == before
    assert not connection.in_transaction
    connection.execute("INSERT INTO something VALUES (1)")
    connection.close()
