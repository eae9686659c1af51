"""The store in PostgreSQL keeps every promise of the port, and those of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StorageError, StoreUnavailableError, UsageError
from holdfast.ports import Batch, JournalStore, Session
from holdfast.stores import PostgresStore
from holdfast.stores._migrations import migrations
from holdfast.testing._journal_base import make_info, make_row, open_run, positions, written
from holdfast.testing.journal_conformance import JournalStoreConformance

_schemas = count(1)


def new_schema() -> str:
    return f"test_{next(_schemas)}"


class TestPostgresStore(JournalStoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: str) -> None:
        self.dsn = postgres

    def make_store(self) -> JournalStore:
        return PostgresStore(self.dsn, schema=new_schema())

    def make_twin(self, store: JournalStore) -> JournalStore:
        assert isinstance(store, PostgresStore)
        return PostgresStore(store.dsn, schema=store.schema)


@pytest.fixture
async def store(postgres: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres, schema=new_schema())
    yield store
    await store.aclose()


@pytest.fixture
async def admin(postgres: str) -> AsyncIterator[Any]:
    """A connection of the test's own."""
    import asyncpg  # type: ignore[import-untyped]

    connection = await asyncpg.connect(postgres)
    yield connection
    await connection.close()


async def cut(admin: Any) -> int:
    """End every connection of ours at the server; returns how many."""
    query = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'holdfast'"
    return len(await admin.fetch(query))


async def blocked(admin: Any) -> None:
    """Return once a connection of ours waits for a lock."""
    query = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'holdfast' AND wait_event_type = 'Lock'"
    while not await admin.fetchval(query):
        continue  # each look is a round trip


async def test_a_store_made_in_vain_never_connects() -> None:
    store = PostgresStore("postgresql://nobody@localhost:1/none")
    store.close()
    assert "nobody" not in repr(store)


@pytest.mark.parametrize("dsn", ["postgresql://nobody@localhost:1/none", "postgresql://x@/x?host=/nowhere"])
async def test_a_server_that_cannot_be_reached_is_unavailable(dsn: str) -> None:
    store = PostgresStore(dsn)
    with pytest.raises(StoreUnavailableError):
        await open_run(store)
    with pytest.raises(StoreUnavailableError):
        await store.runs()
    await store.aclose()


async def test_appends_go_on_after_the_connections_were_cut(store: PostgresStore, admin: Any) -> None:
    session = await open_run(store)
    await store.append(written(session, 1, 2))
    assert await cut(admin) >= 2
    await store.append(written(session, 3, 4))
    assert await cut(admin) >= 1
    store.append_now(written(session, 5, 5))
    assert await positions(store, session) == [1, 2, 3, 4, 5]


async def test_a_batch_cut_off_in_the_middle_is_stored_once(store: PostgresStore, admin: Any) -> None:
    session = await open_run(store)
    await store.append(written(session, 1, 1))
    transaction = admin.transaction()
    await transaction.start()
    await admin.execute(f"SELECT 1 FROM {store.schema}.run FOR UPDATE")
    appending = asyncio.create_task(store.append(written(session, 2, 3)))
    await blocked(admin)
    await cut(admin)
    await transaction.rollback()
    await appending
    assert await positions(store, session) == [1, 2, 3]


async def test_the_schema_is_made_once_by_many(postgres: str) -> None:
    schema = new_schema()
    stores = [PostgresStore(postgres, schema=schema) for _ in range(6)]
    sessions = await asyncio.gather(*map(open_run, stores))
    assert len({session.fence for session in sessions}) == 6
    await asyncio.gather(*(store.aclose() for store in stores))


@pytest.mark.parametrize("schema", ["", "Upper", "x; DROP SCHEMA public", 'x"', "1x"])
def test_a_schema_must_have_a_plain_name(schema: str) -> None:
    with pytest.raises(UsageError):
        PostgresStore("postgresql://localhost", schema=schema)


async def test_a_newer_schema_is_refused(store: PostgresStore, admin: Any) -> None:
    await open_run(store)
    table = f"{store.schema}.schema_version"
    assert await admin.fetchval(f"SELECT max(version) FROM {table}") == migrations("postgres")[-1].version
    await admin.execute(f"INSERT INTO {table} VALUES (999, 'from the future')")
    late = PostgresStore(store.dsn, schema=store.schema)
    with pytest.raises(StorageError, match="newer Holdfast"):
        await late.runs()
    await late.aclose()


def test_without_asyncpg_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    store = PostgresStore("postgresql://localhost")
    with pytest.raises(UsageError, match=r"holdfast\[postgres\]"):
        store.append_now(Batch(Session("run", "main", 1, 1, 0)))
    store.close()


async def test_a_value_another_run_lists_again_is_not_pruned_away(postgres: str) -> None:
    digest = "e" * 64
    schema = new_schema()
    store, twin = (PostgresStore(postgres, schema=schema) for _ in range(2))
    for _ in range(25):
        one, two = await open_run(store), await open_run(twin)
        await store.append(Batch(one, (make_row(1),), ((digest, b"value"),)))
        mentioning = make_row(1, payload=b'["%s"]' % digest.encode())
        await asyncio.gather(
            store.prune(one.root_run_id, keep_marks=[]), twin.append(Batch(two, (mentioning,), ((digest, b"value"),)))
        )
        assert await store.blob(digest) == b"value"
        await twin.close_session(two)
        await twin.delete(two.root_run_id, now_us=0)
    await asyncio.gather(store.aclose(), twin.aclose())


async def test_parent_and_child_of_a_fork_do_not_share_a_connection(store: PostgresStore) -> None:
    program = Path(__file__).with_name("crash.py")
    done = subprocess.run(  # noqa: ASYNC221
        [sys.executable, str(program), "fork_from_postgres", store.dsn, store.schema],
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("parent", "child"):
        assert await positions(store, name) == list(range(1, 31))
    assert (await open_run(store, make_info("child"), owner="two")).incarnation == 2
