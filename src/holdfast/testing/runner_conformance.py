"""What every `JobRunner` must do. Subclass the suite in your tests and say how to make yours.

    class TestMine(JobRunnerConformance):
        def make_runner(self) -> JobRunner:
            return MyRunner(...)

        def definition(self, program: Program) -> bytes:
            return MY_DEFINITIONS[program]

Wants pytest with `asyncio_mode = "auto"`.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from holdfast.ids import new_id
from holdfast.ports import Job, JobOutcome, JobRequest, JobRunner, JobStatus, RequestKind
from holdfast.service._control import Control
from holdfast.stores import MemoryJobs
from holdfast.testing._job_base import ANY, make_job, make_worker

Program = Literal["complete", "fail", "flaky", "ask", "gate"]
"""What the definitions of a runner under test must do:

- complete: end with the outputs `{"value": 7}`.
- fail: a step `bad` fails with "boom".
- flaky: a step `first` adds a line to the file `first` in the folder; a step `second` after it fails with "not yet" while there
  is no file `ready` there, and then ends the job with the outputs `{"value": 7}`.
- ask: a step `question` asks for a number `value`; the job ends with the outputs `{"value": that}`.
- gate: a step `one` ends once there is a file `open` in the folder; a step `two` after it adds a line to the file `two` and ends
  the job with the outputs `{"value": 7}`.
"""


class Claimed:
    """A job that a worker has, as a runner meets it."""

    def __init__(self, jobs: MemoryJobs, job: Job) -> None:
        self.jobs, self.job = jobs, job
        self.control = Control(jobs, job, None)

    async def ask(self, kind: RequestKind, **data: Any) -> JobRequest:
        request = JobRequest(new_id(), self.job.id, kind, 1, json.dumps(data).encode())
        assert await self.jobs.request(request)
        self.control.deliver([request])
        return request

    async def asked(self) -> list[JobRequest]:
        return await self.jobs.requests(job_id=self.job.id)

    async def is_heard(self) -> bool:
        """Whether the runner has taken everything that was asked."""
        return self.control.has_delivered_all

    def again(self) -> Claimed:
        """The same job in the hands of the next worker."""
        return Claimed(self.jobs, replace(self.job, runs=self.job.runs + 1))


class JobRunnerConformance(ABC):
    """Every promise of `holdfast.ports.JobRunner`."""

    @abstractmethod
    def make_runner(self) -> AbstractAsyncContextManager[JobRunner]:
        """A runner; each one made in a test finds what those before it have written down."""

    @abstractmethod
    def definition(self, program: Program) -> bytes:
        """The definition of a flow that does as `Program` says, in `self.folder`."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    async def claimed(self, program: Program) -> Claimed:
        jobs, worker = MemoryJobs(), make_worker()
        await jobs.register(worker)
        await jobs.add([job := make_job(flow=program, definition=self.definition(program))])
        found = await jobs.claim_job(job.id, worker.id, ANY, now_us=2)
        assert found is not None
        return Claimed(jobs, found)

    async def run(self, claimed: Claimed) -> JobOutcome:
        async with self.make_runner() as runner, asyncio.timeout(20):
            return await runner.run(claimed.job, claimed.control)

    def lines(self, name: str) -> int:
        file = self.folder / name
        return len(file.read_text().splitlines()) if file.exists() else 0

    async def statuses(self, claimed: Claimed) -> dict[str, str]:
        async with self.make_runner() as runner:
            return {step.path: step.status for step in await runner.steps(claimed.job)}

    # -- ends ------------------------------------------------------------------------------------------------------

    async def test_a_job_completes_with_its_outputs(self) -> None:
        outcome = await self.run(await self.claimed("complete"))
        assert outcome.status is JobStatus.COMPLETED
        assert json.loads(outcome.outputs or b"") == {"value": 7}

    async def test_a_job_fails_with_a_reason_that_names_step_and_error(self) -> None:
        claimed = await self.claimed("fail")
        outcome = await self.run(claimed)
        assert outcome.status is JobStatus.FAILED
        assert "bad" in outcome.reason
        assert "boom" in outcome.reason
        assert (await self.statuses(claimed))["bad"] == "failed"

    @pytest.mark.parametrize("program", ["complete", "fail"])
    async def test_a_run_that_has_ended_is_not_run_again(self, program: Program) -> None:
        claimed = await self.claimed(program)
        first = await self.run(claimed)
        assert await self.run(claimed.again()) == first

    async def test_a_retry_goes_on_at_the_step_that_failed(self) -> None:
        claimed = await self.claimed("flaky")
        assert (await self.run(claimed)).status is JobStatus.FAILED
        (self.folder / "ready").touch()
        again = claimed.again()
        await again.ask("retry")
        outcome = await self.run(again)
        assert outcome.status is JobStatus.COMPLETED
        assert self.lines("first") == 1
        assert await again.asked() == []

    async def test_a_step_is_run_again_with_what_depends_on_it(self) -> None:
        claimed = await self.claimed("flaky")
        await self.run(claimed)
        (self.folder / "ready").touch()
        again = claimed.again()
        await again.ask("rerun", step="first")
        assert (await self.run(again)).status is JobStatus.COMPLETED
        assert self.lines("first") == 2
        assert await again.asked() == []

    async def test_a_step_of_a_completed_job_is_run_again_with_what_depends_on_it(self) -> None:
        claimed = await self.claimed("flaky")
        (self.folder / "ready").touch()
        assert (await self.run(claimed)).status is JobStatus.COMPLETED
        again = claimed.again()
        await again.ask("rerun", step="first")
        outcome = await self.run(again)
        assert outcome.status is JobStatus.COMPLETED
        assert self.lines("first") == 2
        assert await again.asked() == []
        assert await self.run(claimed.again()) == outcome

    # -- cancelling and leaving ------------------------------------------------------------------------------------

    async def test_a_running_job_is_cancelled(self) -> None:
        claimed = await self.claimed("gate")
        async with self.make_runner() as runner, asyncio.timeout(20):
            running = asyncio.create_task(runner.run(claimed.job, claimed.control))
            await self.until_at_work(runner, claimed, "one")
            await claimed.ask("cancel", reason="enough")
            outcome = await running
        assert outcome.status is JobStatus.CANCELLED
        assert "enough" in outcome.reason
        statuses = await self.statuses(claimed)
        assert "running" not in statuses.values()
        assert (await self.run(claimed.again())).status is JobStatus.CANCELLED

    async def test_a_job_is_cancelled_before_anything_was_done(self) -> None:
        claimed = await self.claimed("flaky")
        await claimed.ask("cancel", reason="never mind")
        assert (await self.run(claimed)).status is JobStatus.CANCELLED
        assert self.lines("first") == 0

    async def test_a_waiting_job_is_cancelled(self) -> None:
        claimed = await self.claimed("ask")
        assert (await self.run(claimed)).status is JobStatus.WAITING
        again = claimed.again()
        await again.ask("cancel", reason="enough")
        assert (await self.run(again)).status is JobStatus.CANCELLED

    async def test_a_departure_leaves_a_job_that_another_worker_finishes(self) -> None:
        claimed = await self.claimed("gate")
        async with self.make_runner() as runner, asyncio.timeout(20):
            running = asyncio.create_task(runner.run(claimed.job, claimed.control))
            await self.until_at_work(runner, claimed, "one")
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert "running" not in (await self.statuses(claimed)).values()
        (self.folder / "open").touch()
        outcome = await self.run(claimed.again())
        assert outcome.status is JobStatus.COMPLETED
        assert self.lines("two") == 1

    # -- pausing and waiting ---------------------------------------------------------------------------------------

    async def test_a_pause_lets_the_running_step_finish_and_starts_none(self) -> None:
        claimed = await self.claimed("gate")
        async with self.make_runner() as runner, asyncio.timeout(20):
            running = asyncio.create_task(runner.run(claimed.job, claimed.control))
            await self.until_at_work(runner, claimed, "one")
            await claimed.ask("pause", reason="a look")
            await until(claimed.is_heard)
            (self.folder / "open").touch()
            outcome = await running
        assert outcome.status is JobStatus.PAUSED
        assert self.lines("two") == 0
        again = claimed.again()
        await again.ask("resume")
        assert (await self.run(again)).status is JobStatus.COMPLETED
        assert self.lines("two") == 1

    async def test_a_paused_job_stays_paused_until_it_is_resumed(self) -> None:
        claimed = await self.claimed("flaky")
        await claimed.ask("pause")
        assert (await self.run(claimed)).status is JobStatus.PAUSED
        assert (await self.run(claimed.again())).status is JobStatus.PAUSED
        assert self.lines("first") == 0

    async def test_a_job_waits_and_goes_on_with_the_answer(self) -> None:
        claimed = await self.claimed("ask")
        waits = await self.run(claimed)
        assert waits.status is JobStatus.WAITING
        (ask,) = waits.asks
        assert ask.step == "question"
        assert list(ask.fields) == ["value"]
        assert (await self.statuses(claimed))["question"] == "waiting"
        same = await self.run(claimed.again())
        assert (same.status, same.asks) == (JobStatus.WAITING, waits.asks)
        again = claimed.again()
        await again.ask("answer", ask=ask.id, values={"value": 3})
        outcome = await self.run(again)
        assert json.loads(outcome.outputs or b"") == {"value": 3}
        assert await again.asked() == []

    async def test_an_answer_to_nothing_does_no_harm(self) -> None:
        claimed = await self.claimed("ask")
        (ask,) = (await self.run(claimed)).asks
        again = claimed.again()
        await again.ask("answer", ask="nobody asked", values={"value": 9})
        waits = await self.run(again)
        assert (waits.status, waits.asks) == (JobStatus.WAITING, (ask,))
        assert await again.asked() == []

    # -- the rest --------------------------------------------------------------------------------------------------

    async def test_a_forgotten_job_is_unknown_and_may_be_forgotten_twice(self) -> None:
        claimed = await self.claimed("complete")
        await self.run(claimed)
        async with self.make_runner() as runner:
            await runner.forget(claimed.job.id)
            await runner.forget(claimed.job.id)
            assert {step.status for step in await runner.steps(claimed.job)} <= {"pending"}

    async def until_at_work(self, runner: JobRunner, claimed: Claimed, path: str) -> None:
        async def is_at_work() -> bool:
            return any(step.path == path and step.status == "running" for step in await runner.steps(claimed.job))

        await until(is_at_work)


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again: what is looked at is in other hands, and gives no signal."""
    while True:
        if await check():
            return
        await asyncio.sleep(0.01)
