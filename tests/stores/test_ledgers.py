"""Both ledgers keep every promise of the port; the one in SQLite shares its file with journals."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from holdfast.errors import CorruptStoreError, StoreUnavailableError
from holdfast.ports import Ledger
from holdfast.stores import MemoryLedger, SqliteLedger, SqliteStore
from holdfast.stores._migrations import migrations, statements
from holdfast.testing._journal_base import open_run
from holdfast.testing.ledger_conformance import LedgerConformance, make_row


class TestMemoryLedger(LedgerConformance):
    def make_ledger(self) -> Ledger:
        return MemoryLedger()


class TestSqliteLedger(LedgerConformance):
    @pytest.fixture(autouse=True)
    def _storage(self, tmp_path: Path) -> None:
        self.path = tmp_path / "holdfast.db"

    def make_ledger(self) -> Ledger:
        return SqliteLedger(self.path)

    def make_twin(self, ledger: Ledger) -> Ledger:
        return SqliteLedger(self.path)


async def test_a_ledger_and_journals_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    async with SqliteStore(path) as store, SqliteLedger(path) as ledger:
        session = await open_run(store)
        await ledger.put(row := make_row())
        assert await ledger.rows() == [row]
        assert await store.run(session.root_run_id) is not None


async def test_a_file_from_before_the_ledger_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    for statement in statements(migrations("sqlite")[0].sql):
        connection.execute(statement)
    connection.execute("INSERT INTO schema_version VALUES (1, 'journal')")
    connection.commit()
    connection.close()
    async with SqliteLedger(path) as ledger:
        await ledger.put(row := make_row())
        assert await ledger.rows() == [row]


async def test_s3_6_one_unreadable_row_makes_the_whole_ledger_unreadable_in_words(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    async with SqliteLedger(path) as ledger:
        await ledger.put(make_row())
        connection = sqlite3.connect(path)
        connection.execute("INSERT INTO resource (id, data) VALUES ('odd', '{}')")
        connection.commit()
        connection.close()
        with pytest.raises(CorruptStoreError, match="row odd of the ledger cannot be read"):
            await ledger.rows()


async def test_a_ledger_whose_file_is_gone_says_so(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    async with SqliteLedger(path) as ledger:
        await ledger.put(make_row())
        path.unlink()
        with pytest.raises(StoreUnavailableError, match="is gone"):
            await ledger.rows()
