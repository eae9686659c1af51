"""A store, a service on it, and workers that are gone when the test ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.service.small_runner import SmallRunner

from holdfast.ports import Job, JobStore
from holdfast.resources import SystemProcessTable
from holdfast.service import JobService, LogFolder, Submission, Worker, WorkerOptions, is_settled
from holdfast.stores import SqliteJobs

Working = Callable[..., AbstractAsyncContextManager[Worker]]


@pytest.fixture
async def jobs(tmp_path: Path) -> AsyncIterator[JobStore]:
    async with SqliteJobs(tmp_path / "holdfast.db") as store:
        yield store


@pytest.fixture
def service(jobs: JobStore) -> JobService:
    return JobService(jobs, by="tester")


@pytest.fixture
def runner(tmp_path: Path) -> SmallRunner:
    return SmallRunner(tmp_path / "runs")


@pytest.fixture
def logs(tmp_path: Path) -> LogFolder:
    return LogFolder(tmp_path / "logs")


@pytest.fixture
def working(jobs: JobStore, runner: SmallRunner, logs: LogFolder) -> Working:
    """`async with working(places=1) as worker:` serves the queue inside the block."""

    @asynccontextmanager
    async def serve(store: JobStore | None = None, clock: Any = None, **options: Any) -> AsyncIterator[Worker]:
        worker = Worker(
            store or jobs, runner, SystemProcessTable(), options=WorkerOptions(**options), logs=logs, clock=clock
        )
        serving = asyncio.create_task(worker.serve())
        try:
            yield worker
        finally:
            worker.stop()
            await serving

    return serve


async def submit(service: JobService, definition: bytes, **more: Any) -> Job:
    (job,) = await service.submit(Submission("test", definition, **more))
    return job


async def settled(service: JobService, *jobs: Job) -> list[Job]:
    """The jobs once they have ended, wait or are paused."""
    async with asyncio.timeout(20):
        return await service.until([job.id for job in jobs], lambda found: all(map(is_settled, found)))


async def in_status(service: JobService, job: Job, status: str) -> Job:
    async with asyncio.timeout(20):
        return (await service.until([job.id], lambda found: found[0].status == status))[0]
