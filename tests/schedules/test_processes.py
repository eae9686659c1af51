"""Several real processes on one file, and processes that are killed: each due time fires exactly once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.schedules.support import WallClock, make_project

from holdfast.ports import JobQuery, Schedule, Tick
from holdfast.resources import Keeper
from holdfast.schedules import Ticker
from holdfast.schedules._ticker import HOLD_US
from holdfast.stores import SqliteJobs, SqliteSchedules

ROOT = Path(__file__).resolve().parents[2]
CHECK = """echo made >> "made-$HOLDFAST_SCHEDULE"; echo '{"fire": true, "cursor": 1}'"""


class Shared:
    """A file with schedules that are due since a second."""

    def __init__(self, folder: Path) -> None:
        self.project, self.database = make_project(folder), folder / "holdfast.db"
        self.schedules, self.jobs = SqliteSchedules(self.database), SqliteJobs(self.database)
        self.due_us = time.time_ns() // 1000 - 1_000_000

    async def add(self, name: str, *, poll: bool = False) -> Schedule:
        made = Schedule(name, name, "hello", 1, cron="0 0 1 1 *", next_us=self.due_us)
        if poll:
            made = replace(made, cron="", every_seconds=3600, command=CHECK)
        await self.schedules.add(made)
        return made

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.schedules.ticking", str(self.database), str(self.project), *arguments]
        started = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        return started

    async def fired(self, schedule: Schedule) -> list[Tick]:
        ticks = await self.schedules.ticks(schedule.id)
        assert {tick.outcome for tick in ticks} <= {"fired"}
        return ticks

    async def job_ids(self) -> list[str]:
        return sorted(job.id for job in await self.jobs.jobs(JobQuery(limit=1000)))


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    made = Shared(tmp_path)
    yield made
    await made.schedules.aclose()
    await made.jobs.aclose()


async def test_two_processes_fire_each_due_time_once_and_make_each_check_once(shared: Shared) -> None:
    schedules = [await shared.add(f"s{number}", poll=number % 6 == 0) for number in range(30)]
    others = [shared.start(), shared.start()]
    for other in others:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    assert [await asyncio.to_thread(other.wait) for other in others] == [0, 0]
    for other in others:
        other.communicate()
    ticks = [tick for schedule in schedules for tick in await shared.fired(schedule)]
    assert [tick.schedule_id for tick in ticks] == [schedule.id for schedule in schedules]
    assert await shared.job_ids() == sorted(str(tick.job_id) for tick in ticks)
    made = sorted(shared.project.glob("made-*"))
    assert (len(made), {path.read_text() for path in made}) == (5, {"made\n"})


@pytest.mark.parametrize("when", ["before", "between", "after"])
async def test_a_process_that_is_killed_around_a_fire_neither_loses_nor_doubles_the_job(
    shared: Shared, when: str
) -> None:
    schedule = await shared.add("nightly")
    killed = shared.start(when)
    killed.communicate("go\n")
    assert killed.returncode == -signal.SIGKILL
    assert len(await shared.fired(schedule)) == len(await shared.job_ids()) == (when == "after")
    healthy = shared.start()
    healthy.communicate("go\n")
    assert healthy.returncode == 0
    (tick,) = await shared.fired(schedule)
    assert (tick.due_us, [tick.job_id]) == (shared.due_us, await shared.job_ids())


async def test_a_process_that_is_killed_with_what_a_check_found_leaves_it_to_be_found_again(shared: Shared) -> None:
    schedule = await shared.add("polled", poll=True)
    killed = shared.start("between")
    killed.communicate("go\n")
    assert killed.returncode == -signal.SIGKILL
    stored = await shared.schedules.schedule("polled")
    assert stored is not None
    assert (stored.cursor, await shared.fired(schedule), await shared.job_ids()) == (b"null", [], [])
    clock = WallClock(time.time_ns() + HOLD_US * 1000)
    with Keeper() as keeper:
        ticker = Ticker(shared.schedules, shared.project, keeper=lambda: keeper, clock=clock)
        async with asyncio.TaskGroup() as group:
            await ticker.look(group)
    stored = await shared.schedules.schedule("polled")
    assert stored is not None
    assert (stored.cursor, len(await shared.fired(schedule)), len(await shared.job_ids())) == (b"1", 1, 1)
