"""What `holdfast.stores` exports, what importing it loads, and what all stores have beside the port."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast.stores
from holdfast.stores import MemoryStore, PostgresStore, SqliteStore
from holdfast.testing._journal_base import NOW, make_info, open_run


def test_every_exported_name_is_there() -> None:
    ledgers = ["MemoryLedger", "PostgresLedger", "SqliteLedger"]
    jobs = ["MemoryJobs", "MemorySchedules", "SqliteJobs", "SqliteSchedules"]
    journals, states = ["MemoryStore", "PostgresStore", "SqliteStore"], ["MemoryPersistence", "SqlitePersistence"]
    outboxes = ["MemoryOutbox", "SqliteOutbox"]
    known = sorted(journals + states + ledgers + jobs + outboxes)
    assert sorted(holdfast.stores.__all__) == dir(holdfast.stores) == known
    for name in holdfast.stores.__all__:
        assert getattr(holdfast.stores, name).__name__ == name
    with pytest.raises(AttributeError):
        holdfast.stores.OracleStore  # noqa: B018


def test_a_program_pays_only_for_the_store_it_has() -> None:
    report = (
        "import sys, holdfast.stores as s; a = {'sqlite3', 'asyncpg'} & set(sys.modules); s.MemoryStore;"
        "b = {'sqlite3', 'asyncpg'} & set(sys.modules); s.SqliteStore; s.PostgresStore;"
        "print(sorted(a), sorted(b), 'asyncpg' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", report], check=True, capture_output=True, text=True)
    assert done.stdout == "[] [] False\n"


async def test_stores_are_context_managers(tmp_path: Path) -> None:
    with MemoryStore() as memory:
        memory.open_now(make_info(), owner="one", now_us=NOW, hold_until_us=NOW)
    async with SqliteStore(tmp_path / "journal.db") as sqlite:
        await open_run(sqlite)
    assert not (tmp_path / "journal.db-wal").exists()
    async with PostgresStore("postgresql://localhost"):
        pass


def test_a_store_left_open_is_a_resource_warning(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    store.open_now(make_info(), owner="one", now_us=NOW, hold_until_us=NOW)
    kept = [store]
    del store
    with pytest.warns(ResourceWarning, match="never closed"):
        kept.clear()
