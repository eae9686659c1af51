"""The store in a file keeps every promise of the port, and those of its own."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptStoreError, FencedError, PositionError, StorageError, StoreUnavailableError
from holdfast.ids import new_id
from holdfast.ports import Batch, JournalStore, Mark, Origin, Snapshot
from holdfast.stores import SqliteStore
from holdfast.stores import _sqlite_reads as reads
from holdfast.stores._migrations import TABLE, migrations, pending
from holdfast.stores._sqlite_reads import SQL
from holdfast.stores._sqlite_rows import pack, unpack
from holdfast.stores._sqlite_writes import UNLISTED
from holdfast.testing._journal_base import (
    NOW,
    SECOND,
    make_info,
    make_row,
    make_rows,
    marked,
    open_run,
    positions,
    written,
)
from holdfast.testing.journal_conformance import JournalStoreConformance

PAGE = 4096
OLD_JOURNAL = f"""
INSERT INTO run VALUES (1, 'r1', 'flow', 'Greeting', 'running', 1, 3, 'somebody', 0, {NOW}, {NOW}, 'f1', '{{}}');
INSERT INTO branch VALUES (1, 1, 'main', NULL, 0, 0, {NOW});
INSERT INTO event (key, type, event_id, at_us, run_id, payload) VALUES
    ((1 << 32) + 1, 'a', 'e1', {NOW + 1}, 'r1', '{{}}'), ((1 << 32) + 2, 'b', 'e2', {NOW + 2}, 'r1', '{{}}');
INSERT INTO mark VALUES ('m1', 1, 2, {NOW + 2}, 'manual', NULL, 7);
UPDATE fence SET last = 3;
"""
"""A run of which a session was left open, as schema 5 keeps it."""


class TestSqliteStore(JournalStoreConformance):
    @pytest.fixture(autouse=True)
    def _somewhere(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make_store(self) -> JournalStore:
        return SqliteStore(self.folder / f"{new_id()}.db")

    def make_twin(self, store: JournalStore) -> JournalStore:
        assert isinstance(store, SqliteStore)
        return SqliteStore(store.path)


def fill(path: Path, rows: int = 300) -> str:
    """A closed journal of one run with rows of a kilobyte."""
    store = SqliteStore(path)
    session = store.open_now(make_info(), owner="one", now_us=NOW, hold_until_us=NOW + SECOND)
    store.append_now(Batch(session, make_rows(1, rows, payload=b"p" * 1000)))
    store.close()
    return session.root_run_id


def modes_below(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.rglob("*")}


async def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await store.aclose()
    assert modes_below(tmp_path) == {}


async def test_files_and_new_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "journal.db"
    store = SqliteStore(path)
    session = await open_run(store)
    await store.append(written(session, 1, 1))
    assert modes_below(tmp_path) == {
        "new": 0o700,
        "deep": 0o700,
        "journal.db": 0o600,
        "journal.db-wal": 0o600,
        "journal.db-shm": 0o600,
    }
    await store.aclose()
    assert set(modes_below(tmp_path)) == {"new", "deep", "journal.db"}


async def test_a_commit_is_durable_and_the_file_is_in_wal_mode(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    root = fill(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    store = SqliteStore(path)
    assert len(await positions(store, root)) == 300
    await store.aclose()


async def test_s1_14_sixteen_hundred_kilobytes_of_news_take_three_megabytes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    session = await open_run(store)
    for seq in range(1, 1601):
        row = make_row(seq, delta=b"x" * 1024, parent_event_id=new_id(), triggered_by_event_id=new_id())
        store.append_now(Batch(session, (row,)))
    await store.aclose()
    assert (tmp_path / "journal.db").stat().st_size <= 3_400_000


def frames(path: Path) -> int:
    """How many pages are in the WAL."""
    return (path.with_name(f"{path.name}-wal").stat().st_size - 32) // (24 + PAGE)


async def test_a_step_with_a_checkpoint_is_one_page(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    session = await open_run(store)
    pages = []
    for seq in range(1, 11, 2):
        before = frames(path)
        store.append_now(marked(written(session, seq, seq + 1)))
        pages.append(frames(path) - before)
    assert pages == [1] * 5
    await store.aclose()


@pytest.mark.parametrize("query", ["mark", "marks", "marks_of_run", "unmark_row", "list_marks"])
def test_looking_for_marks_never_reads_all_events(tmp_path: Path, query: str) -> None:
    fill(tmp_path / "journal.db", rows=1)
    connection = sqlite3.connect(tmp_path / "journal.db")
    values = ("x", 1) if query == "marks_of_run" else (1,)
    plan = [step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {SQL[query]}", values)]
    connection.close()
    assert not [step for step in plan if step.startswith("SCAN event") or "AUTOMATIC" in step]


@pytest.mark.parametrize("way", ["append", "append_now", "append_at_once"])
@pytest.mark.parametrize("second", [4, 5])
async def test_a_session_that_is_overtaken_between_two_appends_hears_that_whatever_else_is_wrong(
    tmp_path: Path, way: str, second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores._group.INLINE_SECONDS", 60.0)
    store, twin = SqliteStore(tmp_path / "journal.db"), SqliteStore(tmp_path / "journal.db")
    session = await open_run(store)
    store.append_now(written(session, 1, 2))
    await open_run(twin, make_info(session.root_run_id))
    with pytest.raises(FencedError, match="later session"):
        await asyncio.gather(getattr(store, way)(Batch(session, (make_row(3), make_row(second)))))
    assert await positions(store, session) == [1, 2]
    await store.aclose()
    await twin.aclose()


async def test_the_marks_of_a_long_session_are_listed_now_and_then(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    session = await open_run(store)
    connection = sqlite3.connect(tmp_path / "journal.db")
    unlisted = []
    for seq in range(1, 3 * UNLISTED, 2):
        store.append_now(marked(Batch(session, make_rows(seq, seq + 1, run_id=session.root_run_id))))
        unlisted.append(connection.execute("SELECT count(*) FROM mark_in_row").fetchone()[0])
    connection.close()
    assert max(unlisted) == UNLISTED
    assert unlisted.count(0) == 2
    await store.aclose()


async def test_a_mark_is_found_while_it_is_being_listed(tmp_path: Path) -> None:
    """It was looked for in the list first and in rows then, and was in neither when it moved in between."""
    store = SqliteStore(tmp_path / "journal.db")
    session = await open_run(store)
    batch = marked(written(session, 1, 1))
    store.append_now(batch)
    connection = sqlite3.connect(tmp_path / "journal.db")
    statements: list[str] = []

    def look(statement: str) -> None:
        statements.append(statement)
        if len(statements) == 2:
            store.close_session_now(session)

    connection.set_trace_callback(look)
    assert reads.mark(connection, batch.marks[0].id) is not None
    connection.close()
    await store.aclose()


class Interrupted:
    """A connection during whose next statement of a kind Ctrl-C is pressed: Python raises when SQLite is done with it."""

    def __init__(self, connection: sqlite3.Connection, kind: str) -> None:
        self._connection = connection
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        cursor = self._connection.execute(statement, *values)
        if statement.lstrip().startswith(self._kind):
            self._kind = "none any more"
            raise KeyboardInterrupt
        return cursor


@pytest.mark.parametrize("kind", ["BEGIN", "COMMIT", "INSERT INTO event", "UPDATE run"])
async def test_after_a_ctrl_c_in_any_statement_nobody_is_shut_out_and_each_row_is_there_once(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one while a transaction began it stayed open: other processes could not write, and this one's next write failed."""
    store, twin = SqliteStore(tmp_path / "journal.db"), SqliteStore(tmp_path / "journal.db", busy_seconds=0.1)
    session, other = await open_run(store), await open_run(twin)
    head = 0
    for hold in (None, NOW + SECOND, None, NOW + 2 * SECOND):  # as one statement, too
        batch = marked(written(session, head + 1, head + 2, hold_until_us=hold))
        connections = store._engine.connections
        try:
            with monkeypatch.context() as patched:
                patched.setattr(connections, "writing", Interrupted(connections.writer(), kind))
                store.append_now(batch)
        except KeyboardInterrupt:
            twin.append_now(written(other, *[(await twin.branches(other.root_run_id))[0].head + 1] * 2))
        if await positions(store, session) == [*range(1, head + 1)]:
            store.append_now(batch)
        head += 2
        assert await positions(store, session) == [*range(1, head + 1)]
        assert len(await store.marks(session.root_run_id)) == head
    await store.aclose()
    await twin.aclose()


async def test_a_row_is_not_taken_for_stored_inside_a_transaction_that_was_left_open(tmp_path: Path) -> None:
    """Rows that one statement writes are stored when it returns only if no transaction is open, say after a Ctrl-C."""
    store, twin = SqliteStore(tmp_path / "journal.db"), SqliteStore(tmp_path / "journal.db")
    session = await open_run(store)
    store.append_now(written(session, 1, 1))
    store._engine.connections.writer().execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError):
        store.append_now(written(session, 2, 2))
    store.append_now(written(session, 2, 2))
    assert await positions(twin, session) == [1, 2]
    await store.aclose()
    await twin.aclose()


async def test_rows_that_a_session_wrote_through_another_store_are_noticed(tmp_path: Path) -> None:
    store, twin = SqliteStore(tmp_path / "journal.db"), SqliteStore(tmp_path / "journal.db")
    session = await open_run(store)
    store.append_now(written(session, 1, 2))
    twin.append_now(written(session, 3, 4))
    with pytest.raises(PositionError, match="row 3 cannot follow 4"):
        store.append_now(written(session, 3, 4))
    store.append_now(written(session, 5, 6))
    assert await positions(store, session) == [1, 2, 3, 4, 5, 6]
    await store.aclose()
    await twin.aclose()


async def test_reading_does_not_stop_the_writer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    session = await open_run(store)
    await store.append(written(session, 1, 600))
    reading = store.read(session.root_run_id)
    await anext(reading)
    for seq in range(601, 701):
        await store.append(written(session, seq, seq))
    assert len([row async for row in reading]) == 699
    await store.aclose()


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [0, 1, 2, 4, 7, 20, 50, 70])
async def test_a_damaged_page_is_an_error_that_says_how_to_save_the_rest(tmp_path: Path, page: int) -> None:
    path = tmp_path / "journal.db"
    fill(path)
    with path.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(b"\xff" * 512)
    store = SqliteStore(path)
    with pytest.raises(CorruptStoreError, match=r"\.recover"):
        await open_run(store)
    with pytest.raises(CorruptStoreError):
        await store.runs()
    await store.aclose()


@pytest.mark.parametrize("size", [0, 1, 50, 100, 511, PAGE - 1, PAGE, 3 * PAGE, 40 * PAGE + 17])
async def test_a_truncated_file_is_never_taken_for_an_empty_journal(tmp_path: Path, size: int) -> None:
    path = tmp_path / "journal.db"
    fill(path)
    with path.open("r+b") as file:
        file.truncate(size)
    store = SqliteStore(path)
    with pytest.raises(CorruptStoreError):
        await store.runs()
    with pytest.raises(CorruptStoreError):
        store.open_now(make_info(), owner="one", now_us=NOW, hold_until_us=NOW + SECOND)
    await store.aclose()
    assert path.stat().st_size == size


async def test_the_error_counts_the_runs_that_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    fill(path, rows=20)
    fill(path, rows=300)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 20 * PAGE)
        file.write(b"\xff" * 512)
    store = SqliteStore(path)
    with pytest.raises(CorruptStoreError, match="1 of 2 runs can be read to the end"):
        await store.runs()
    await store.aclose()


async def test_damage_found_while_reading_is_the_same_error(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    root = fill(path)
    store = SqliteStore(path)
    assert await store.run(root)
    await store.aclose()
    store = SqliteStore(path)
    assert await store.run(root)
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(50 * PAGE)
        file.write(b"\xff" * (size - 50 * PAGE))
    with pytest.raises(CorruptStoreError):
        await positions(store, root)
    await store.aclose()


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 100)
    store = SqliteStore(path)
    with pytest.raises(CorruptStoreError):
        await open_run(store)
    await store.aclose()
    assert path.read_text() == "dear diary, " * 100


async def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE diary (day)")
    connection.close()
    store = SqliteStore(path)
    with pytest.raises(StorageError, match="no journal of ours"):
        await open_run(store)
    await store.aclose()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("diary",)]
    connection.close()


async def test_a_session_does_not_go_on_behind_the_head_of_a_backup_that_was_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows were taken that followed those of the file that was there before: a gap, and a run that cannot be read."""
    monkeypatch.setattr("holdfast.stores._sqlite_connections.LOOK_SECONDS", 0.0)
    path, backup = tmp_path / "journal.db", tmp_path / "backup.db"
    store = SqliteStore(path)
    session = await open_run(store)
    store.append_now(written(session, 1, 2))
    connection = sqlite3.connect(path)
    connection.execute("VACUUM INTO ?", (str(backup),))
    connection.close()
    store.append_now(written(session, 3, 4))
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"journal.db{suffix}").unlink()
    backup.replace(path)
    with pytest.raises(PositionError, match="row 5 cannot follow 2"):
        store.append_now(written(session, 5, 6))
    assert await positions(store, session) == [1, 2]
    await store.aclose()


# -- storage that goes away ------------------------------------------------------------------------------------------


async def test_a_deleted_file_is_noticed_and_never_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.stores._sqlite_connections.LOOK_SECONDS", 0.0)
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    session = await open_run(store)
    await store.append(written(session, 1, 1))
    aside = {tmp_path / name: tmp_path / f"{name}.aside" for name in modes_below(tmp_path)}
    for file, place in aside.items():
        file.rename(place)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="gone"):
            await store.append(written(session, 2, 2))
        with pytest.raises(StoreUnavailableError, match="gone"):
            await store.runs()
    assert not path.exists()
    for file, place in aside.items():
        place.rename(file)
    await store.append(written(session, 2, 2))
    assert await positions(store, session) == [1, 2]
    await store.aclose()


async def test_a_folder_that_cannot_be_made_is_an_error_until_it_can(tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("")
    store = SqliteStore(tmp_path / "in the way" / "journal.db")
    with pytest.raises(StoreUnavailableError):
        await open_run(store)
    (tmp_path / "in the way").unlink()
    await open_run(store)
    await store.aclose()


async def test_another_writer_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    root = fill(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = SqliteStore(path, busy_seconds=0.02)
    with pytest.raises(StoreUnavailableError, match="another process"):
        await open_run(store, make_info(root))
    assert len(await positions(store, root)) == 300
    other.execute("COMMIT")
    other.close()
    session = await open_run(store, make_info(root))
    await store.append(written(session, 301, 301))
    await store.aclose()


async def test_a_loop_goes_on_while_its_append_waits_for_another_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    session = await open_run(store)
    await store.append(written(session, 1, 1))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(store.append(written(session, 2, 2)))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    await waiting
    assert await positions(store, session) == [1, 2]
    await store.aclose()


async def test_an_unstorable_value_leaves_nothing_of_its_batch(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    session = await open_run(store)
    for broken in (
        written(session, 1, 2, blobs=(("a" * 64, b"x"),), status="\ud800"),
        Batch(session, (make_row(1), make_row(2, at_us=2**80))),
        Batch(session, (make_row(1), make_row(2, origin=Origin(source_name=object())))),  # type: ignore[arg-type]
        written(session, 1, 2, snapshot=Snapshot(2, object())),  # type: ignore[arg-type]
    ):
        with pytest.raises((ValueError, OverflowError, sqlite3.Error)):
            await store.append(broken)
        with pytest.raises((ValueError, OverflowError, sqlite3.Error)):
            store.append_now(broken)
    assert await positions(store, session) == []
    await store.append(written(session, 1, 2))
    await store.aclose()


# -- versions --------------------------------------------------------------------------------------------------------


def test_migrations_are_numbered_without_gaps() -> None:
    for engine in ("sqlite", "postgres"):
        assert [migration.version for migration in migrations(engine)] == [
            *range(1, len(migrations(engine)) + 1),
        ]
        assert pending(engine, 0, "x") == migrations(engine)


async def test_marks_of_a_file_from_before_they_were_written_into_rows_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    old = sqlite3.connect(path)
    old.execute(TABLE)
    for version, name, sql in migrations("sqlite")[:5]:
        old.executescript(sql)
        old.execute("INSERT INTO schema_version VALUES (?, ?)", (version, name))
    old.executescript(OLD_JOURNAL)
    old.close()
    store = SqliteStore(path)
    before = Mark("m1", 2, NOW + 2, "manual", "main", "r1", None, 7)
    assert await store.marks() == await store.marks("r1") == [before]
    assert await store.mark("m1") == before
    assert await positions(store, "r1") == [1, 2]
    session = await open_run(store, make_info("r1"), now_us=NOW + SECOND)
    store.append_now(marked(written(session, 3, 3)))
    assert [mark.seq for mark in await store.marks("r1")] == [3, 2]
    await store.aclose()


async def test_marks_in_rows_of_a_run_that_an_older_version_took_over_come_back_when_it_is_opened(
    tmp_path: Path,
) -> None:
    """A process of the version before, which has the file open, ends sessions without listing marks that it knows nothing of."""
    store = SqliteStore(tmp_path / "journal.db")
    session = await open_run(store)
    batch = marked(written(session, 1, 3))
    store.append_now(batch)
    old = sqlite3.connect(tmp_path / "journal.db")
    old.execute("UPDATE run SET fence = 0, owner = '', held_until_us = 0")
    old.commit()
    old.close()
    session = await open_run(store, make_info(session.root_run_id))
    for _ in range(2):
        assert [mark.seq for mark in await store.marks()] == [3, 2, 1]
        await store.close_session(session)
    await store.aclose()


async def test_the_schema_version_is_noted_and_a_newer_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    fill(path)
    connection = sqlite3.connect(path)
    newest = migrations("sqlite")[-1]
    assert connection.execute("SELECT max(version) FROM schema_version").fetchone() == (newest.version,)
    connection.execute("INSERT INTO schema_version VALUES (999, 'from the future')")
    connection.commit()
    connection.close()
    store = SqliteStore(path)
    with pytest.raises(StorageError, match="newer Holdfast"):
        await store.runs()
    await store.aclose()


UUIDS = st.uuids().map(str)
NEARLY_UUIDS = st.one_of(
    UUIDS,
    UUIDS.map(str.upper),
    st.builds(lambda u, at, c: u[:at] + c + u[at + 1 :], UUIDS, st.integers(0, 35), st.sampled_from(" -g\nA٣")),
    st.text(alphabet="0aF- \tg", min_size=35, max_size=37),
)


@given(NEARLY_UUIDS)
def test_only_the_usual_spelling_of_a_uuid_is_packed_and_every_id_comes_back(text: str) -> None:
    packed = pack(text)
    usual = re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", text)
    assert isinstance(packed, bytearray) == (usual is not None)
    assert (unpack(bytes(packed)) if isinstance(packed, bytearray) else packed) == text
