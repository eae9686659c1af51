"""All ledgers keep every promise of the port; those in SQLite and PostgreSQL share their place with journals."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_cli import holdfast

from holdfast.errors import CorruptStoreError, StoreUnavailableError, UsageError
from holdfast.ports import Ledger
from holdfast.resources import DirectoryManager
from holdfast.stores import MemoryLedger, PostgresLedger, PostgresStore, SqliteLedger, SqliteStore
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


_schemas = count(1)


def new_schema() -> str:
    return f"ledger_{next(_schemas)}"


class TestPostgresLedger(LedgerConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: str) -> None:
        self.dsn = postgres

    def make_ledger(self) -> Ledger:
        return PostgresLedger(self.dsn, schema=new_schema())

    def make_twin(self, ledger: Ledger) -> Ledger:
        assert isinstance(ledger, PostgresLedger)
        return PostgresLedger(self.dsn, schema=ledger.schema)


@pytest.fixture
async def admin(postgres: str) -> AsyncIterator[Any]:
    """A connection of the test's own."""
    import asyncpg  # type: ignore[import-untyped]

    connection = await asyncpg.connect(postgres)
    yield connection
    await connection.close()


async def test_a_ledger_and_journals_share_a_schema(postgres: str) -> None:
    schema = new_schema()
    async with PostgresStore(postgres, schema=schema) as store, PostgresLedger(postgres, schema=schema) as ledger:
        session = await open_run(store)
        await ledger.put(row := make_row())
        assert await ledger.rows() == [row]
        assert await store.run(session.root_run_id) is not None


async def test_a_schema_from_before_the_ledger_is_brought_up_to_date(postgres: str, admin: Any) -> None:
    schema = new_schema()
    await admin.execute(f"CREATE SCHEMA {schema}; SET search_path TO {schema}")
    await admin.execute("CREATE TABLE schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    await admin.execute(migrations("postgres")[0].sql)
    await admin.execute("INSERT INTO schema_version VALUES (1, 'journal')")
    async with PostgresLedger(postgres, schema=schema) as ledger:
        await ledger.put(row := make_row())
        assert await ledger.rows() == [row]


async def test_connections_that_were_cut_are_made_anew(postgres: str, admin: Any) -> None:
    async with PostgresLedger(postgres, schema=new_schema()) as ledger:
        await ledger.put(row := make_row())
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast'"
        )
        assert await ledger.rows() == [row]


async def test_s3_6_an_unreadable_row_in_postgresql_means_that_nothing_is_swept(postgres: str, admin: Any) -> None:
    async with PostgresLedger(postgres, schema=new_schema()) as ledger:
        await ledger.put(make_row(kind="directory"))
        await admin.execute(f"INSERT INTO {ledger.schema}.resource (id, data) VALUES ('odd', '{{}}')")
        with pytest.raises(CorruptStoreError, match=f"schema {ledger.schema}: row odd of the ledger cannot be read"):
            await ledger.rows()
        manager = DirectoryManager(ledger)
        report = await manager.sweep()
        assert (report.ended, report.left) == ([], [])
        assert "nothing was swept" in report.problem
        await manager.release_all()


async def test_the_command_line_reads_and_sweeps_a_ledger_in_postgresql(postgres: str) -> None:
    row = make_row(kind="directory", name="scratch")
    async with PostgresLedger(postgres) as ledger:
        await ledger.put(row)
        (listed,) = json.loads((await asyncio.to_thread(holdfast, "resources", "--json", "--store", postgres)).stdout)
        assert (listed["id"], listed["name"], listed["state"]) == (row.id, "scratch", "elsewhere")
        swept = await asyncio.to_thread(holdfast, "resources", "sweep", "--store", postgres)
        assert "left directory scratch: its owner is on another machine, here" in swept.stdout
        await ledger.remove(row.id)
    done = await asyncio.to_thread(holdfast, "resources", "--store", "postgresql://nobody@127.0.0.1:1/x")
    assert done.returncode == 1
    assert "PostgreSQL: " in done.stderr


async def test_s3_6_a_server_out_of_reach_means_that_nothing_is_swept() -> None:
    async with PostgresLedger("postgresql://nobody@127.0.0.1:1/x") as ledger:
        with pytest.raises(StoreUnavailableError, match="PostgreSQL"):
            await ledger.rows()
        manager = DirectoryManager(ledger)
        assert "nothing was swept: PostgreSQL" in (await manager.sweep()).problem
        await manager.release_all()


def test_a_ledgers_schema_has_a_plain_name_and_its_address_is_not_shown() -> None:
    with pytest.raises(UsageError, match="plain lower-case name"):
        PostgresLedger("postgresql://x", schema="Robert'); --")
    assert "do-not-show" not in repr(PostgresLedger("postgresql://me:do-not-show@x"))


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
