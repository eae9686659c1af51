"""Both outboxes keep every promise of the port; the one in SQLite shares transactions with jobs and journals."""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ConfigurationError
from holdfast.ports import JobStatus, Outbox, Subscriptions
from holdfast.stores import MemoryJobs, MemoryOutbox, MemoryStore, SqliteJobs, SqliteOutbox, SqliteStore
from holdfast.stores._queries import load
from holdfast.stores._sqlite_file import create
from holdfast.testing._job_base import make_job, moved, running
from holdfast.testing._outbox_base import EVERYTHING, Office
from holdfast.testing.outbox_conformance import OutboxConformance


class TestMemoryOutbox(OutboxConformance):
    def make_office(self, hooks: Subscriptions) -> Office:
        jobs, journals = MemoryJobs(hooks=lambda: hooks), MemoryStore()
        return Office(jobs, journals, MemoryOutbox(jobs, journals))


class TestSqliteOutbox(OutboxConformance):
    """As a project has it: one writer for journals, jobs and outbox; the twin is another process's."""

    @pytest.fixture(autouse=True)
    def _storage(self, tmp_path: Path) -> None:
        self.path = tmp_path / "holdfast.db"

    def make_office(self, hooks: Subscriptions) -> Office:
        store, self.hooks = SqliteStore(self.path), hooks
        return Office(
            SqliteJobs.beside(store, hooks=lambda: hooks), store, SqliteOutbox.beside(store, hooks=lambda: hooks)
        )

    def make_twin(self, office: Office) -> Outbox:
        return SqliteOutbox(self.path, hooks=lambda: self.hooks)


# -- one transaction -----------------------------------------------------------------------------------------------

ENDLESS = """
import asyncio, sys
from holdfast.ports import JobStatus
from holdfast.stores import SqliteJobs
from holdfast.testing._job_base import moved, running
from holdfast.testing._job_base import make_job, moved, running
from holdfast.testing._outbox_base import EVERYTHING

async def main():
    jobs = SqliteJobs(sys.argv[1], hooks=lambda: [EVERYTHING])
    while True:
        await moved(jobs, await running(jobs), JobStatus.COMPLETED)
        print("one more", flush=True)

asyncio.run(main())
"""


def test_a_process_killed_at_any_moment_has_told_of_every_end_it_stored_and_of_no_other(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    for lines in (3, 10, 17):
        with subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(lines):
                assert process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        connection = sqlite3.connect(path)
        ended = {row[0] for row in connection.execute("SELECT id FROM job WHERE status = 'completed'")}
        told = [row[0] for row in connection.execute("SELECT job_id FROM delivery")]
        connection.close()
        assert sorted(told) == sorted(ended)
        assert len(ended) >= lines


def test_hooks_that_cannot_be_read_stop_a_write_before_anything_is_stored(tmp_path: Path) -> None:
    def broken() -> Subscriptions:
        raise ConfigurationError("hooks.one: no")

    async def main() -> None:
        async with SqliteJobs(tmp_path / "holdfast.db", hooks=broken) as jobs:
            with pytest.raises(ConfigurationError, match=r"hooks\.one"):
                await jobs.add([make_job()])
            assert await jobs.count() == {}

    asyncio.run(main())


async def test_a_store_says_whether_it_has_told_anybody(tmp_path: Path) -> None:
    async with SqliteJobs(tmp_path / "holdfast.db", hooks=lambda: [EVERYTHING]) as jobs:
        job = await running(jobs)
        assert not jobs.has_told
        await moved(jobs, job, JobStatus.COMPLETED)
        assert jobs.has_told


async def test_of_jobs_that_ended_no_journal_is_followed_any_more(tmp_path: Path) -> None:
    async with SqliteJobs(tmp_path / "holdfast.db", hooks=lambda: [EVERYTHING]) as jobs:
        going, ended = await running(jobs), await running(jobs)
        await moved(jobs, ended, JobStatus.COMPLETED)
        followed = await jobs._engine.read(lambda db: db.execute("SELECT job_id FROM step_tail").fetchall())
    assert followed == [(going.id,)]


# -- what it costs -------------------------------------------------------------------------------------------------

LISTING = {"deliveries", "begin_tail"}


@pytest.mark.parametrize("query", sorted(set(load("sqlite", "outbox.sql")) - LISTING))
def test_no_query_of_a_deliverer_walks_through_all_deliveries_or_events(tmp_path: Path, query: str) -> None:
    create(tmp_path / "holdfast.db")
    connection = sqlite3.connect(tmp_path / "holdfast.db")
    sql = load("sqlite", "outbox.sql")[query]
    values: Any = dict.fromkeys(re.findall(r":(\w+)", sql), "") or [""] * sql.count("?")
    plan = [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
    connection.close()
    assert [step for step in plan if re.match(r"SCAN (?!step_tail|CONSTANT|delivery USING)", step)] == [], plan


async def test_without_hooks_a_change_of_status_runs_the_statements_it_always_did(tmp_path: Path) -> None:
    async with SqliteJobs(tmp_path / "holdfast.db") as jobs:
        job = await running(jobs)
        said: list[str] = []
        jobs._engine.connections.writer().set_trace_callback(said.append)
        await moved(jobs, job, JobStatus.COMPLETED)
    assert said
    assert [one for one in said if re.search("delivery|step_tail|SELECT asks", one)] == []
