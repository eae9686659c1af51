"""A store that is away for a moment costs no work: what is only noted is noted later, what fails goes on from what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.jobs import work
from tests.jobs.support import flow, given, out, python, step

from holdfast.errors import StoreUnavailableError
from holdfast.flowfiles import External, FlowFile
from holdfast.jobs import JobEngine, define
from holdfast.ports import Ask, Job, JobStatus, StepInfo
from holdfast.resources import SystemProcessTable
from holdfast.runtime import Runtime
from holdfast.service import JobService, Submission, Worker, is_settled
from holdfast.stores import MemoryJobs, SqliteStore
from holdfast.testing import CrashingStore, CrashPoint, refuse_write

S = JobStatus
ENDED = (S.COMPLETED, S.FAILED)


class Place:
    """A queue, a worker that serves it, and the engine behind it."""

    def __init__(self, service: JobService, engine: JobEngine, journal: CrashingStore) -> None:
        self.service, self.engine, self.journal = service, engine, journal

    async def submit(self, made: FlowFile, **inputs: Any) -> Job:
        (job,) = await self.service.submit(Submission(made.name, define(made), inputs))
        return job

    async def settled(self, job: Job) -> Job:
        async with asyncio.timeout(20):
            return (await self.service.until([job.id], lambda found: is_settled(found[0])))[0]

    async def steps(self, job: Job) -> list[StepInfo]:
        return await self.engine.steps(await self.service.get(job.id))


@asynccontextmanager
async def served(folder: Path, jobs: MemoryJobs | None = None, point: CrashPoint | None = None) -> AsyncIterator[Place]:
    """`point`: the write of the journal that is refused."""
    async with SqliteStore(folder / "holdfast.db") as store:
        journal = CrashingStore(store, point, refuse_write)
        runtime = Runtime(store=journal, grace=5.0)
        kept = jobs or MemoryJobs()
        async with JobEngine(runtime, home=folder) as engine:
            worker = Worker(kept, engine, SystemProcessTable())
            serving = asyncio.create_task(worker.serve())
            try:
                yield Place(JobService(kept, changed=worker.wake), engine, journal)
            finally:
                worker.stop()
                await serving
        await runtime.aclose()


class Away(MemoryJobs):
    """Notes what is asked of jobs, and what they ask, only at the second try."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    async def settle(self, request_id: str) -> None:
        self._refuse_once("settle")
        await super().settle(request_id)

    async def show(self, job_id: str, version: int, *, asks: Sequence[Ask], now_us: int) -> bool:
        self._refuse_once("show")
        return await super().show(job_id, version, asks=asks, now_us=now_us)

    def _refuse_once(self, call: str) -> None:
        if call not in self.refused:
            self.refused.append(call)
            raise StoreUnavailableError("the disk is full: make room")


async def test_a_job_goes_on_when_what_it_asks_or_was_asked_cannot_be_noted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It failed, and with it the step that was at work."""
    monkeypatch.setattr("holdfast.service._away.AWAY_SECONDS", 0.01)
    work.gates["busy"] = gate = work.Gate()
    made = flow(
        step("ask", External(), outputs=(out("n", "number"),)),
        step("busy", python("through"), given("gate", "$job.gate")),
    )
    async with served(tmp_path, away := Away()) as place:
        job = await place.submit(made, gate="busy")
        await gate.reached()
        async with asyncio.timeout(20):
            (asking,) = await place.service.until([job.id], lambda found: bool(found[0].asks))
        await place.service.answer(job.id, asking.asks[0], {"n": 5})
        gate.open()
        done = await place.settled(job)
    assert (done.status, done.reason) == (S.COMPLETED, "")
    assert away.refused == ["show", "settle"]


async def test_an_answer_to_a_job_that_could_not_be_taken_up_then_is_there_when_it_is_retried(tmp_path: Path) -> None:
    made = flow(step("ask", External(), outputs=(out("n", "number"),)))
    async with served(tmp_path / "before") as place:
        waits = await place.settled(await place.submit(made))
        known = len(place.journal.writes)
    async with served(tmp_path, point=CrashPoint(known + 1)) as place:
        job = await place.submit(made)
        waits = await place.settled(job)
        await place.service.answer(job.id, waits.asks[0], {"n": 5})
        assert (await place.settled(job)).status is S.FAILED
        await place.service.retry(job.id)
        done = await place.settled(job)
    assert (done.status, done.outputs) == (S.COMPLETED, b'{"n":5}')


THREE = flow(
    step("a", python("count"), given("who", "$job.a")),
    step("b", python("count"), given("who", "$job.b"), given("after", "a.n")),
    step("c", python("count"), given("who", "$job.c"), given("after", "b.n")),
    name="three",
)


async def count_writes(folder: Path) -> int:
    async with served(folder) as place:
        await place.settled(await place.submit(THREE, a="a", b="b", c="c"))
        return len(place.journal.writes)


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_job_whose_journal_could_not_be_written_goes_on_with_a_retry_from_what_is_recorded(
    tmp_path: Path, moment: Any
) -> None:
    failed = 0
    first_write = 2 if moment == "after" else 1  # a hold that nobody knows of runs out by itself
    for number in range(first_write, await count_writes(tmp_path) + 1):
        work.calls.clear()
        async with served(tmp_path / str(number), point=CrashPoint(number, moment)) as place:
            job = await place.submit(THREE, a="a", b="b", c="c")
            first = await place.settled(job)
            if first.status is S.FAILED:
                failed += 1
                assert "was refused by a crash point" in first.reason
                assert "recovery" not in first.reason  # nothing takes it up by itself
                infos = await place.steps(job)
                assert "running" not in {info.status for info in infos}, infos  # S3.4
                recorded = {info.path for info in infos if info.status == "completed"}
                ran = dict(work.calls)
                await place.service.retry(job.id)
                assert (await place.settled(job)).status is S.COMPLETED
                assert {who for who in recorded if work.calls[who] != ran[who]} == set()
            assert max(work.calls.values()) <= 2
    assert failed >= 3
