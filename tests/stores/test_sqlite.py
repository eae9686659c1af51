"""The store in a file keeps every promise of the port, and those of its own."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from holdfast.errors import CorruptStoreError, StorageError, StoreUnavailableError
from holdfast.ids import new_id
from holdfast.ports import Batch, JournalStore, Snapshot
from holdfast.stores import SqliteStore
from holdfast.stores._migrations import migrations, pending
from holdfast.testing._journal_base import NOW, SECOND, make_info, make_row, make_rows, open_run, positions, written
from holdfast.testing.journal_conformance import JournalStoreConformance

PAGE = 4096


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
        Batch(session, (make_row(1), make_row(2, source_name=object()))),
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
