"""Both job stores keep every promise of the port; the one in SQLite shares its file with journals and other processes."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.ports import JobQuery, JobStatus, JobStore
from holdfast.stores import MemoryJobs, SqliteJobs, SqliteStore
from holdfast.stores._migrations import TABLE, migrations, statements
from holdfast.stores._queries import load
from holdfast.stores._sqlite_file import create
from holdfast.testing._job_base import added, make_job
from holdfast.testing.job_conformance import JobStoreConformance


class TestMemoryJobs(JobStoreConformance):
    def make_store(self) -> JobStore:
        return MemoryJobs()


class TestSqliteJobs(JobStoreConformance):
    @pytest.fixture(autouse=True)
    def _storage(self, tmp_path: Path) -> None:
        self.folder, self.number = tmp_path, 0

    def make_store(self) -> JobStore:
        self.number += 1
        return SqliteJobs(self.folder / f"{self.number}.db")

    def make_twin(self, store: JobStore) -> JobStore:
        assert isinstance(store, SqliteJobs)
        return SqliteJobs(store.path)


class TestSqliteJobsBesideAStore(TestSqliteJobs):
    """Journals and jobs in one file, through one writer."""

    def make_store(self) -> JobStore:
        self.number += 1
        return Beside(self.folder / f"{self.number}.db")


class Beside(SqliteJobs):
    """Closes the store that it is beside, which a `SqliteJobs` leaves to whoever made it."""

    def __init__(self, path: Path) -> None:
        store = SqliteStore(path)
        self.__dict__ |= vars(SqliteJobs.beside(store))
        self._store = store

    async def aclose(self) -> None:
        await self._store.aclose()


def test_closing_jobs_leaves_the_store_beside_them_open(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "holdfast.db") as store:
        SqliteJobs.beside(store).close()
        assert asyncio.run(store.runs()) == []


# -- what it costs -------------------------------------------------------------------------------------------------

SERVING = {
    "claim": ("ready_lanes", "ready_in_lane", "running_lanes", "is_registered"),
    "a change of status": ("move", "recount_needs", "lost_need", "recount_dependents", "dependents", "delete_requests"),
    "noticing": ("due", "next_due", "requests_of_worker", "requests_of_job", "changes", "changes_of_job", "last_change"),
    "a lost worker": ("held",),
    "looking up": ("job", "begins", "ends", "count"),
    "requests": ("find_request", "settle"),
}  # fmt: skip


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("jobs") / "holdfast.db"
    create(path)
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


@pytest.mark.parametrize("query", [name for names in SERVING.values() for name in names])
def test_no_query_of_a_working_queue_walks_through_all_jobs(database: sqlite3.Connection, query: str) -> None:
    sql = load("sqlite", "jobs.sql")[query]
    values: Any = dict.fromkeys(re.findall(r":(\w+)", sql), "") or [""] * sql.count("?")
    plan = [detail for *_, detail in database.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    walks = [
        step for step in plan if re.match(r"SCAN (?!lanes|CONSTANT|worker|job USING COVERING INDEX job_ready)", step)
    ]
    assert walks == [], plan


def test_every_query_is_known_to_seek_or_allowed_to_walk() -> None:
    writes_by_key = {name for name in load("sqlite", "jobs.sql") if name.startswith(("add_", "set_", "delete_"))}
    small = {
        "workers",
        "other_serving",
        "register",
        "renew",
        "strike",
        "key_and_status",
        "version_of",
        "asks",
        "ready",
        "labels",
        "needs",
    }
    listing = {"jobs", "archive"}
    known = {name for names in SERVING.values() for name in names}
    assert set(load("sqlite", "jobs.sql")) == known | writes_by_key | small | listing


def test_one_statement_writes_the_status_of_a_job() -> None:
    writers = [
        name
        for name, sql in load("sqlite", "jobs.sql").items()
        if re.search(r"SET[^;]*\bstatus =", sql.split("WHERE")[0])
    ]
    assert writers == ["move"]


async def test_a_file_from_before_jobs_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = sqlite3.connect(path)
    connection.execute(TABLE)
    for migration in migrations("sqlite")[:2]:
        for statement in statements(migration.sql):
            connection.execute(statement)
        connection.execute("INSERT INTO schema_version VALUES (?, ?)", (migration.version, migration.name))
    connection.commit()
    connection.close()
    async with SqliteJobs(path) as store:
        job = await added(store)
        assert [one.id for one in await store.jobs(JobQuery())] == [job.id]


# -- several processes ---------------------------------------------------------------------------------------------

CLAIMER = """
import asyncio, sys
from holdfast.ports import Caps, JobMove, JobStatus
from holdfast.stores import SqliteJobs
from holdfast.testing._job_base import make_worker

async def main():
    async with SqliteJobs(sys.argv[1]) as store:
        worker = make_worker()
        await store.register(worker)
        print("ready", flush=True)
        sys.stdin.readline()
        while claimed := await store.claim(worker.id, Caps(), now_us=5, limit=2):
            for job in claimed:
                print(job.id, flush=True)
            await store.advance([JobMove(j.id, j.status, JobStatus.COMPLETED, j.version, 6) for j in claimed])

asyncio.run(main())
"""


def start_claimer(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CLAIMER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


async def test_processes_that_share_a_file_share_the_jobs_out(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    async with SqliteJobs(path) as store:
        jobs = [make_job() for _ in range(60)]
        await store.add(jobs)
        others = [start_claimer(path) for _ in range(2)]
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
        claimed = [job_id for other in others for job_id in other.communicate("go\n")[0].split()]
        assert sorted(claimed) == sorted(job.id for job in jobs)
        assert await store.count() == {}
        assert len(await store.changes(limit=1000)) == 3 * len(jobs)


async def test_a_killed_process_leaves_every_job_as_its_history_says(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    async with SqliteJobs(path) as store:
        await store.add([make_job() for _ in range(400)])
        other = start_claimer(path)
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        other.stdin.write("go\n")
        other.stdin.flush()
        other.stdout.readline()
        other.kill()
        other.communicate()
        jobs = await store.jobs(JobQuery(limit=1000))
        assert {job.status for job in jobs} >= {JobStatus.QUEUED}
        for job in jobs:
            changes = await store.changes(job_id=job.id)
            assert (changes[-1].target, len(changes) - 1) == (job.status, job.version)
            assert [change.source for change in changes[1:]] == [change.target for change in changes[:-1]]
            assert (job.worker != "") == (job.status is JobStatus.RUNNING)
