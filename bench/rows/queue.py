"""The queue of jobs: how fast it is drained, what a claim costs beside old jobs, how soon others notice."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench._harness import Row
from holdfast import Runtime
from holdfast.flowfiles import load_flow
from holdfast.jobs import JobEngine, define
from holdfast.ports import Caps, Job, JobControl, JobMove, JobOutcome, JobStatus, Owner, StepInfo, WorkerInfo
from holdfast.resources import SystemProcessTable
from holdfast.service import JobService, Submission, Worker, WorkerOptions
from holdfast.stores import SqliteJobs, SqliteStore

JOBS = 1000
OLD = 100_000
CLAIMS = 200
NOTICES = 40
FUNCTION = "steps:\n  nothing:\n    executor: python\n    call: bench.rows.queue:do_nothing\n"
SCRIPT = "steps:\n  nothing:\n    run: exit 0\n"
FILL = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO job (id, backwards, flow, name, status, version, reason, priority, lane, open_needs, worker, runs,
    created_us, updated_us, archived)
SELECT 'old' || i, i || 'dlo', 'old', '', 'completed', 2, 'done', 0, 'flow:old', 0, '', 1, i, i, 0 FROM n
"""


def do_nothing() -> dict[str, Any]:
    return {}


async def execute_nothing(call: Any) -> dict[str, Any]:
    """An executor that has nothing to do, in place of that for scripts."""
    return {}


class Nothing:
    """A runner for which every job is done at once: what is left is the queue."""

    async def run(self, job: Job, control: JobControl) -> JobOutcome:
        return JobOutcome(JobStatus.COMPLETED, outputs=b"{}")

    async def steps(self, job: Job) -> list[StepInfo]:
        return []

    async def forget(self, job_id: str) -> None:
        return


async def _drained(jobs: SqliteJobs, runner: Any, submission: Submission) -> float:
    """Jobs a second, from the first claim to the end of the last."""
    await JobService(jobs).submit(*[submission] * JOBS)
    worker = Worker(jobs, runner, SystemProcessTable(), options=WorkerOptions(places=64, idle_seconds=0.0))
    started = time.perf_counter()
    await worker.serve()
    took = time.perf_counter() - started
    assert await jobs.count() == {}
    return JOBS / took


async def _drain_flows(folder: Path) -> float:
    return await _drain(folder, SCRIPT, {"script": execute_nothing})


async def _drain_functions(folder: Path) -> float:
    return await _drain(folder, FUNCTION, {})


async def _drain(folder: Path, text: str, executors: dict[str, Any]) -> float:
    file = folder / "nothing.flow.yaml"
    file.write_text(text)
    flow = load_flow(file)
    async with SqliteStore(folder / "holdfast.db") as store:
        runtime = Runtime(store=store)
        async with JobEngine(runtime, home=folder, executors=executors) as engine:
            rate = await _drained(SqliteJobs.beside(store), engine, Submission(flow.name, define(flow, folder)))
        await runtime.aclose()
    return rate


async def _drain_nothing(folder: Path) -> float:
    async with SqliteJobs(folder / "holdfast.db") as jobs:
        return await _drained(jobs, Nothing(), Submission("nothing"))


async def _claim(folder: Path, old: int) -> float:
    """Milliseconds for one claim, beside so many old jobs."""
    path = folder / "holdfast.db"
    worker = WorkerInfo(Owner("bench", _this_process()), 2**62, 1)
    async with SqliteJobs(path) as jobs:
        service = JobService(jobs)
        await jobs.register(worker)
        _fill(path, old)
        took = []
        for _ in range(CLAIMS):
            await service.submit(Submission("new"))
            started = time.perf_counter()
            (job,) = await jobs.claim(worker.id, Caps(total=4), now_us=1)
            took.append(time.perf_counter() - started)
            await jobs.advance([JobMove(job.id, job.status, JobStatus.COMPLETED, job.version, 2)])
    return 1000 * statistics.median(took)


def _this_process() -> Any:
    found = SystemProcessTable().identify(os.getpid())
    assert found is not None
    return found


def _fill(path: Path, old: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(FILL, (old,))
    connection.execute("INSERT INTO job_data SELECT key, '{}', '{}', NULL, '[]' FROM job")
    connection.commit()
    connection.close()


async def _notice(folder: Path) -> float:
    """Milliseconds until a worker has a job that another connection has queued; the slowest of many."""
    path, took, all_begun = folder / "holdfast.db", [], asyncio.Event()

    class Timed(Nothing):
        async def run(self, job: Job, control: JobControl) -> JobOutcome:
            took.append(time.time_ns() // 1000 - job.created_us)
            if len(took) == NOTICES:
                all_begun.set()
            return await super().run(job, control)

    async with SqliteJobs(path) as jobs, SqliteJobs(path) as others:
        worker = Worker(jobs, Timed(), SystemProcessTable())
        serving = asyncio.create_task(worker.serve())
        for number in range(NOTICES):
            await asyncio.sleep(0.06 + number / 1000)
            await JobService(others).submit(Submission("new"))
        await all_begun.wait()
        worker.stop()
        await serving
    return max(took) / 1000


def _in_folder(measure: Callable[..., Any], *arguments: Any) -> float:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        result: float = asyncio.run(measure(Path(folder), *arguments))
        return result


def measure() -> list[Row]:
    flows, functions, bare = _in_folder(_drain_flows), _in_folder(_drain_functions), _in_folder(_drain_nothing)
    pairs = [(_in_folder(_claim, OLD), _in_folder(_claim, 0)) for _ in range(3)]
    beside, alone = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = beside / alone
    noticed = _in_folder(_notice)
    return [
        Row("1,000 queued one-step flows drained, no-op executor", "jobs/s", flows, target=">= 500", ok=flows >= 500),
        Row("the same, a python function each, in a thread", "jobs/s", functions),
        Row("the same, a runner that does nothing: the queue alone", "jobs/s", bare),
        Row("a claim beside 100,000 old jobs", "ms", beside, target=f"<= 1.5 x without (is {ratio:.2f} x)", ok=ratio <= 1.5),
        Row("another process's job noticed and begun, the slowest of 40", "ms", noticed, target="<= 100", ok=noticed <= 100),
    ]  # fmt: skip


ROWS = {"queue": measure}
