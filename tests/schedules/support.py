"""A project with flows, stores in memory, a ticker, and a clock that can be set."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.ports import Job, JobQuery, JobStatus, Schedule, Tick
from holdfast.schedules import ScheduleService, ScheduleSpec, Ticker
from holdfast.stores import MemoryJobs, MemorySchedules
from holdfast.testing import ManualClock
from holdfast.testing._job_base import ANY, make_worker, moved

HELLO = """
name: hello
inputs:
  who: {type: str, default: world}
steps:
  greet:
    run: echo "{}"
    inputs: {who: $job.who}
"""
NEEDY = """
name: needy
inputs:
  item: {type: number, required: true}
steps:
  look:
    run: echo "{}"
    inputs: {item: $job.item}
"""
SECRET = """
name: secret
inputs:
  key: {type: str, sensitive: true}
steps:
  use:
    run: echo "{}"
    inputs: {key: $job.key}
"""
BEGIN = datetime(2026, 6, 1, 11, 59, 0, tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class WallClock(ManualClock):
    """Its wall time can be set, forwards and backwards, while its own time goes on."""

    def set(self, wall: datetime) -> None:
        self._start_ns += int(wall.timestamp() * 1e9) - self.time_ns()

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time_ns() / 1e9, UTC)


def make_project(folder: Path) -> Path:
    (folder / "flows").mkdir()
    for name, text in {"hello": HELLO, "needy": NEEDY, "secret": SECRET}.items():
        (folder / "flows" / f"{name}.flow.yaml").write_text(text)
    return folder


class Desk:
    """Schedules of one project, seen to when a test says so."""

    def __init__(self, folder: Path, keeper: Any = None, **told: Any) -> None:
        """`tell`: what hears of the schedules."""
        self._told = told
        self.clock = WallClock(int(BEGIN.timestamp() * 1e9))
        self.jobs = MemoryJobs()
        self.store = MemorySchedules(self.jobs)
        self.project = make_project(folder)
        self.service = ScheduleService(self.store, self.project, clock=self.clock, by="tester", **told)
        self.keeper = keeper
        self.fired = asyncio.Semaphore(0)
        """released by each fire"""
        self.ticker = self.new_ticker()

    def new_ticker(self) -> Ticker:
        return Ticker(
            self.store,
            self.project,
            keeper=lambda: self.keeper,
            clock=self.clock,
            changed=self.fired.release,
            **self._told,
        )

    async def add(self, **settings: Any) -> Schedule:
        if not settings.get("every_seconds"):
            settings = {"cron": "0 * * * *"} | settings
        return await self.service.add(ScheduleSpec(**{"name": "nightly", "flow": "hello"} | settings))

    async def look(self, at: str = "") -> float:
        """Let the ticker look once, at a time of day or a day and time; its checks are over when this returns."""
        if at:
            self.clock.set(utc(at if "-" in at else f"2026-06-01 {at}"))
        async with asyncio.TaskGroup() as group:
            return await self.ticker.look(group)

    async def ticks(self, name: str = "nightly") -> list[Tick]:
        """Oldest first."""
        schedule = await self.service.get(name)
        return [*reversed(await self.store.ticks(schedule.id))]

    async def outcomes(self, name: str = "nightly") -> list[str]:
        return [tick.outcome for tick in await self.ticks(name)]

    async def all_jobs(self) -> list[Job]:
        """Oldest first."""
        return [*reversed(await self.jobs.jobs(JobQuery(limit=1000)))]

    async def put(self, job: Job, status: JobStatus) -> Job:
        """Have a job in a status, by the way that leads there."""
        if status is JobStatus.QUEUED:
            return job
        worker = make_worker()
        await self.jobs.register(worker)
        claimed = await self.jobs.claim_job(job.id, worker.id, ANY, now_us=job.created_us + 1)
        assert claimed is not None
        return claimed if status is JobStatus.RUNNING else await moved(self.jobs, claimed, status)

    async def end(self, jobs: Iterable[Job] = (), status: JobStatus = JobStatus.COMPLETED) -> None:
        for job in jobs or await self.all_jobs():
            if not job.status.is_terminal:
                await self.put(job, status)
