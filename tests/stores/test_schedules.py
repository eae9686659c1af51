"""Both schedule stores keep every promise of the port; the one in SQLite shares its file with jobs and other processes."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast.ports import JobStore, ScheduleStore
from holdfast.stores import MemoryJobs, MemorySchedules, SqliteJobs, SqliteSchedules, SqliteStore
from holdfast.stores._migrations import TABLE, migrations, statements
from holdfast.stores._queries import load
from holdfast.stores._sqlite_file import create
from holdfast.testing.schedule_conformance import ScheduleStoreConformance, added


class TestMemorySchedules(ScheduleStoreConformance):
    def make_stores(self) -> tuple[ScheduleStore, JobStore]:
        jobs = MemoryJobs()
        return MemorySchedules(jobs), jobs


class TestSqliteSchedules(ScheduleStoreConformance):
    @pytest.fixture(autouse=True)
    def _storage(self, tmp_path: Path) -> None:
        self.path = tmp_path / "holdfast.db"

    def make_stores(self) -> tuple[ScheduleStore, JobStore]:
        return SqliteSchedules(self.path), SqliteJobs(self.path)

    def make_twin(self, schedules: ScheduleStore) -> ScheduleStore:
        return SqliteSchedules(self.path)


async def test_schedules_beside_a_store_are_in_its_file_and_leave_it_open(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "holdfast.db") as store:
        beside = SqliteSchedules.beside(store)
        schedule = await added(beside)
        await beside.aclose()
        assert await store.runs() == []
    async with SqliteSchedules(tmp_path / "holdfast.db") as again:
        assert await again.schedules() == [schedule]


async def test_a_file_from_before_schedules_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.execute(TABLE)
    for migration in (one for one in migrations("sqlite") if one.name in ("journal", "ledger", "jobs")):
        for statement in statements(migration.sql):
            connection.execute(statement)
        connection.execute("INSERT INTO schema_version VALUES (?, ?)", (migration.version, migration.name))
    connection.commit()
    connection.close()
    async with SqliteSchedules(path) as store:
        schedule = await added(store)
        assert await store.schedules() == [schedule]


@pytest.mark.parametrize("query", ["active_jobs", "add_tick", "prune_ticks", "ticks", "key_and_version", "schedule"])
def test_no_query_of_a_tick_walks_through_all_jobs_or_ticks(tmp_path: Path, query: str) -> None:
    create(tmp_path / "holdfast.db")
    connection = sqlite3.connect(tmp_path / "holdfast.db")
    sql = load("sqlite", "schedules.sql")[query]
    values: Any = dict.fromkeys(re.findall(r":(\w+)", sql), "") or [""] * sql.count("?")
    plan = [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    connection.close()
    assert [step for step in plan if re.match("SCAN (job|tick)", step)] == [], plan
