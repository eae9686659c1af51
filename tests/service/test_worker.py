"""A worker serves the queue: real jobs in a real file, through every way a job can go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.service.conftest import Working, in_status, settled, submit
from tests.service.small_runner import COMPLETE, QUESTION, VALUE, SmallRunner, definition, gate

from holdfast.errors import IllegalTransitionError, RunBusyError, StoreUnavailableError, UsageError
from holdfast.ports import Caps, Job, JobControl, JobMove, JobOutcome, JobRequest, JobStatus, JobStore, WorkerInfo
from holdfast.resources import SystemProcessTable
from holdfast.service import JobService, LogFolder, Submission, Worker, WorkerOptions, give_answer
from holdfast.stores import MemoryJobs, SqliteJobs
from holdfast.testing._job_base import make_worker
from holdfast.testing.runner_conformance import until

S = JobStatus


async def test_a_submitted_job_is_run_and_its_history_says_who_and_why(service: JobService, working: Working) -> None:
    job = await submit(service, COMPLETE, name="first", labels={"team": "x"})
    async with working() as worker:
        (done,) = await settled(service, job)
    assert (done.status, json.loads(done.outputs or b"")) == (S.COMPLETED, {"value": 7})
    told = [(change.source, change.target, change.by) for change in await service.history(job.id)]
    assert told == [
        (None, S.QUEUED, "tester"),
        (S.QUEUED, S.RUNNING, worker.id),
        (S.RUNNING, S.COMPLETED, worker.id),
    ]
    assert await service.jobs.workers() == []


async def test_a_job_submitted_while_the_worker_sleeps_is_noticed(
    service: JobService, working: Working, tmp_path: Path
) -> None:
    async with working(), SqliteJobs(tmp_path / "holdfast.db") as others:
        await settled(service, await submit(service, COMPLETE))
        elsewhere = JobService(others)
        job = await submit(elsewhere, COMPLETE)
        assert (await settled(service, job))[0].status is S.COMPLETED


async def test_a_failing_job_fails_with_its_reason_and_others_go_on(service: JobService, working: Working) -> None:
    bad = await submit(service, definition({"name": "bad", "do": "fail", "message": "boom"}))
    worse = await submit(service, definition({"name": "worse", "do": "raise", "message": "no such thing"}))
    good = await submit(service, COMPLETE)
    async with working():
        failed, broken, fine = await settled(service, bad, worse, good)
    assert (failed.status, failed.reason) == (S.FAILED, "step bad: boom")
    assert (broken.status, broken.reason) == (S.FAILED, "cannot go on: no such thing")
    assert fine.status is S.COMPLETED


async def test_a_failed_job_is_retried_at_the_step_that_failed(
    service: JobService, working: Working, tmp_path: Path
) -> None:
    steps = definition(
        {"name": "first", "do": "line", "path": str(tmp_path / "first")},
        {"name": "second", "do": "need_file", "path": str(tmp_path / "ready"), "outputs": {"ok": True}},
    )
    job = await submit(service, steps)
    async with working():
        assert (await settled(service, job))[0].status is S.FAILED
        (tmp_path / "ready").touch()
        await service.retry(job.id)
        assert (await in_status(service, job, S.COMPLETED)).runs == 2
    assert (tmp_path / "first").read_text() == "here\n"


async def test_a_step_is_run_again_with_what_follows_it(service: JobService, working: Working, tmp_path: Path) -> None:
    steps = definition(
        {"name": "first", "do": "line", "path": str(tmp_path / "first")},
        {"name": "second", "do": "need_file", "path": str(tmp_path / "ready"), "outputs": {}},
    )
    job = await submit(service, steps)
    async with working():
        await in_status(service, job, S.FAILED)
        (tmp_path / "ready").touch()
        await service.rerun(job.id, "first")
        await in_status(service, job, S.COMPLETED)
    assert (tmp_path / "first").read_text() == "here\nhere\n"


async def test_a_running_job_is_cancelled_and_no_step_stays_running(
    service: JobService, working: Working, runner: SmallRunner, tmp_path: Path
) -> None:
    job = await submit(service, gate(tmp_path))
    async with working():
        await in_status(service, job, S.RUNNING)
        await service.cancel(job.id, "enough")
        done = await in_status(service, job, S.CANCELLED)
    assert done.reason == "enough"
    assert "running" not in {step.status for step in await runner.steps(done)}


async def test_a_queued_job_is_cancelled_without_a_worker(service: JobService) -> None:
    job = await submit(service, COMPLETE)
    assert (await service.cancel(job.id)).status is S.CANCELLED


async def test_a_job_is_paused_and_resumed(service: JobService, working: Working, tmp_path: Path) -> None:
    job = await submit(service, gate(tmp_path))
    async with working():
        await in_status(service, job, S.RUNNING)
        await service.pause(job.id)
        await until_settled(service, job)
        (tmp_path / "open").touch()
        await in_status(service, job, S.PAUSED)
        assert not (tmp_path / "two").exists()
        await service.resume(job.id)
        await in_status(service, job, S.COMPLETED)


async def until_settled(service: JobService, job: Job) -> None:
    async with asyncio.timeout(20):
        await until(lambda: nothing_asked(service, job))


async def nothing_asked(service: JobService, job: Job) -> bool:
    return not await service.jobs.requests(job_id=job.id)


async def test_a_queued_job_that_is_paused_waits_for_its_resume(service: JobService, working: Working) -> None:
    job = await submit(service, COMPLETE)
    assert (await service.pause(job.id)).status is S.PAUSED
    async with working():
        await settled(service, await submit(service, COMPLETE))
        assert (await service.get(job.id)).status is S.PAUSED
        await service.resume(job.id)
        await in_status(service, job, S.COMPLETED)


async def test_a_pause_that_no_worker_has_heard_is_taken_back_by_a_resume(
    service: JobService, working: Working
) -> None:
    job, gone = await submit(service, COMPLETE), make_worker()
    await service.jobs.register(gone)
    await service.jobs.claim(gone.id, Caps(), now_us=1)
    await service.pause(job.id)
    await service.jobs.lose(gone.id, reason="killed", now_us=2)
    assert (await service.resume(job.id)).status is S.QUEUED  # it was refused
    async with working():
        assert (await settled(service, job))[0].status is S.COMPLETED


async def test_a_job_that_waits_holds_no_place_and_goes_on_with_the_answer(
    service: JobService, working: Working
) -> None:
    job = await submit(service, QUESTION)
    async with working(places=1):
        waits = await in_status(service, job, S.WAITING)
        assert (waits.worker, waits.asks[0].step) == ("", "question")
        await settled(service, await submit(service, COMPLETE))
        for values, problem in (
            ({"value": "many"}, "value is a number, not .many."),
            ({"other": 1}, "has no field 'other'; it has: value"),
            ({}, "add --output value=NUMBER"),
        ):
            with pytest.raises(UsageError, match=problem):
                await give_answer(service, job.id, values)
        await give_answer(service, job.id, {"value": "3"})
        done = await in_status(service, job, S.COMPLETED)
    assert json.loads(done.outputs or b"") == {"value": 3}
    with pytest.raises(UsageError, match="waits for no answer"):
        await give_answer(service, job.id, {"value": 3})


async def test_an_answer_is_taken_once_and_the_same_one_twice_is_fine(service: JobService, working: Working) -> None:
    job = await submit(service, QUESTION)
    async with working():
        waits = await in_status(service, job, S.WAITING)
    (ask,) = waits.asks
    await give_answer(service, job.id, {"value": 3})
    requests = await service.jobs.requests(job_id=job.id)
    assert [json.loads(request.data) for request in requests] == [{"ask": ask.id, "values": {"value": 3}}]
    with pytest.raises(UsageError, match="was answered and has not gone on yet"):
        await give_answer(service, job.id, {"value": 4})


async def test_a_job_that_awaits_approval_runs_once_it_has_it(service: JobService, working: Working) -> None:
    job = await submit(service, COMPLETE, needs_approval=True)
    async with working():
        await settled(service, await submit(service, COMPLETE))
        assert (await service.get(job.id)).status is S.AWAITING_APPROVAL
        await service.approve(job.id)
        await in_status(service, job, S.COMPLETED)
    with pytest.raises(IllegalTransitionError, match="approved already"):
        await service.approve(job.id)


async def test_a_job_runs_after_those_it_needs(service: JobService, working: Working, tmp_path: Path) -> None:
    first = await submit(service, gate(tmp_path))
    second = await submit(service, COMPLETE, needs=(first.id,))
    async with working():
        await in_status(service, first, S.RUNNING)
        assert (await service.get(second.id)).status is S.QUEUED
        (tmp_path / "open").touch()
        done = await settled(service, first, second)
    assert (done[1].started_us or 0) >= (done[0].ended_us or 0)


async def test_a_job_whose_need_failed_cannot_be_retried_before_that(service: JobService, working: Working) -> None:
    first = await submit(service, definition({"name": "bad", "do": "fail", "message": "boom"}))
    second = await submit(service, COMPLETE, needs=(first.id,))
    async with working():
        await settled(service, first, second)
        with pytest.raises(UsageError, match=f"needs job {first.id}, which is failed: retry that first"):
            await service.retry(second.id)


async def test_caps_hold_across_workers(service: JobService, working: Working, tmp_path: Path) -> None:
    running = [await submit(service, gate(tmp_path), uses=("agent:a",)) for _ in range(3)]
    caps = Caps(total=3, by_use={"agent:a": 2})
    async with working(caps=caps), working(caps=caps):
        async with asyncio.timeout(20):
            ids = [job.id for job in running]
            await service.until(ids, lambda found: sum(job.status is S.RUNNING for job in found) == 2)
        other = await submit(service, COMPLETE)
        await settled(service, other)
        assert (await service.jobs.count()) == {S.RUNNING: 2, S.QUEUED: 1}
        (tmp_path / "open").touch()
        assert {job.status for job in await settled(service, *running)} == {S.COMPLETED}


async def test_a_guest_runs_its_own_job_and_no_other(service: JobService, working: Working) -> None:
    other, mine = await submit(service, COMPLETE), await submit(service, COMPLETE)
    async with working(only=(mine.id,)):
        await settled(service, mine)
        assert not any(worker.serving for worker in await service.jobs.workers())
    assert (await service.get(other.id)).status is S.QUEUED


async def test_a_waiting_job_is_taken_up_when_its_time_has_come(
    service: JobService, working: Working, tmp_path: Path
) -> None:
    job = await submit(
        service, definition({"name": "poll", "do": "poll", "path": str(tmp_path / "built"), "next_us": 1})
    )
    async with working():
        async with asyncio.timeout(20):
            await service.until([job.id], lambda found: found[0].runs >= 3)
        (tmp_path / "built").touch()
        await in_status(service, job, S.COMPLETED)


async def test_live_output_can_be_followed_from_its_file(
    service: JobService, working: Working, logs: LogFolder
) -> None:
    job = await submit(service, definition({"name": "one", "do": "output", "outputs": {}}, VALUE))
    async with working():
        await settled(service, job)
    follower = logs.follow(job.id)
    assert [(line.step, line.text) for line in follower.new()] == [("one", "one begins"), ("value", "value begins")]
    assert [*follower.new()] == []
    assert logs.path(job.id).stat().st_mode & 0o777 == 0o600


# -- leaving and being lost ----------------------------------------------------------------------------------------


async def test_a_worker_that_leaves_puts_its_jobs_back_and_the_next_goes_on(
    service: JobService, working: Working, tmp_path: Path
) -> None:
    job = await submit(service, gate(tmp_path))
    async with working():
        await in_status(service, job, S.RUNNING)
    left = await service.get(job.id)
    assert (left.status, left.reason, left.worker) == (S.QUEUED, "its worker left", "")
    (tmp_path / "open").touch()
    async with working():
        assert (await settled(service, job))[0].runs == 2


async def test_a_cancelled_worker_leaves_too(
    service: JobService, jobs: JobStore, runner: SmallRunner, tmp_path: Path
) -> None:
    job = await submit(service, gate(tmp_path))
    serving = asyncio.create_task(Worker(jobs, runner, SystemProcessTable()).serve())
    await in_status(service, job, S.RUNNING)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert (await service.get(job.id)).status is S.QUEUED
    assert await jobs.workers() == []


async def test_what_a_dead_worker_had_is_taken_up_at_once(
    service: JobService, jobs: JobStore, working: Working
) -> None:
    job, dead = await submit(service, COMPLETE), make_worker()  # its process is of another boot: its hold decides
    await jobs.register(make_worker(owner=dead.owner, held_until_us=1))
    assert await jobs.claim_job(job.id, dead.id, Caps(), now_us=1) is not None
    async with working():
        (done,) = await settled(service, job)
    assert done.runs == 2
    assert "no sign of life" in (await service.history(job.id))[2].reason


async def test_a_worker_that_others_took_for_lost_puts_its_jobs_down_and_begins_a_new_life(
    service: JobService, jobs: JobStore, working: Working, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.service._worker.BEAT_SECONDS", 0.05)
    job = await submit(service, gate(tmp_path))
    async with working() as worker:
        first = worker.id
        await in_status(service, job, S.RUNNING)
        await jobs.lose(first, reason="hung", now_us=9)
        async with asyncio.timeout(20):
            await service.until([job.id], lambda found: found[0].worker not in ("", first))
        assert worker.id != first
        (tmp_path / "open").touch()
        (done,) = await settled(service, job)
    assert done.status is S.COMPLETED


async def test_an_idle_worker_leaves_and_one_that_is_needed_stays(
    service: JobService, jobs: JobStore, runner: SmallRunner
) -> None:
    await submit(service, COMPLETE)
    worker = Worker(jobs, runner, SystemProcessTable(), options=WorkerOptions(idle_seconds=0.05))
    async with asyncio.timeout(20):
        assert await worker.serve()
    assert await jobs.count() == {}
    assert await jobs.workers() == []


async def test_an_idle_worker_stays_while_its_process_has_something_else_to_do(
    jobs: JobStore, runner: SmallRunner
) -> None:
    asked: list[bool] = []

    async def lingers() -> bool:
        asked.append(len(asked) < 3)
        worker.wake()
        return asked[-1]

    options = WorkerOptions(idle_seconds=0.0)
    worker = Worker(jobs, runner, SystemProcessTable(), options=options, lingers=lingers)
    async with asyncio.timeout(20):
        assert await worker.serve()
    assert asked == [True, True, True, False]


class SubmitsLate(MemoryJobs):
    """A job comes at the worst moment: the worker has looked, and is about to say that it leaves."""

    came = False

    async def renew(self, worker: WorkerInfo) -> bool:
        if not worker.serving and not self.came:
            self.came = True
            await JobService(self).submit(Submission("test", COMPLETE))
        return await super().renew(worker)


async def test_a_job_that_comes_while_an_idle_worker_leaves_is_run(runner: SmallRunner) -> None:
    jobs = SubmitsLate()
    worker = Worker(jobs, runner, SystemProcessTable(), options=WorkerOptions(idle_seconds=0.01))
    async with asyncio.timeout(20):
        await worker.serve()
    assert jobs.came
    assert await jobs.count() == {}


async def test_of_workers_that_want_to_be_alone_one_serves(jobs: JobStore, runner: SmallRunner) -> None:
    options = WorkerOptions(idle_seconds=0.2, alone=True)
    workers = [Worker(jobs, runner, SystemProcessTable(), options=options) for _ in range(4)]
    async with asyncio.timeout(20):
        served = await asyncio.gather(*(worker.serve() for worker in workers))
    assert sorted(served) == [False, False, False, True]
    assert await jobs.workers() == []


async def test_a_run_that_another_process_still_holds_is_only_put_off(
    service: JobService, jobs: JobStore, runner: SmallRunner
) -> None:
    class Busy(SmallRunner):
        tries = 0

        async def run(self, job: Job, control: JobControl) -> JobOutcome:
            self.tries += 1
            if self.tries == 1:
                raise RunBusyError("held by another")
            return await super().run(job, control)

    job, busy = await submit(service, COMPLETE), Busy(runner.folder)
    worker = Worker(jobs, busy, SystemProcessTable(), options=WorkerOptions(idle_seconds=0.01))
    async with asyncio.timeout(20):
        await worker.serve()
    assert (await service.get(job.id)).status is S.COMPLETED
    assert (S.WAITING, "held by another") in [(one.target, one.reason) for one in await service.history(job.id)]


class Away(MemoryJobs):
    """Cannot be reached whenever `calls` says so."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: set[str] = set()
        self.refused: list[str] = []

    async def wake(self, *, now_us: int) -> int | None:
        self._break("wake")
        return await super().wake(now_us=now_us)

    async def requests(self, *, worker_id: str = "", job_id: str = "") -> list[JobRequest]:
        self._break("requests")
        return await super().requests(worker_id=worker_id, job_id=job_id)

    async def claim_job(self, job_id: str, worker_id: str, caps: Caps, *, now_us: int) -> Job | None:
        self._break(f"claim {job_id}")
        return await super().claim_job(job_id, worker_id, caps, now_us=now_us)

    async def advance(self, moves: Sequence[JobMove]) -> list[Job | None]:
        self._break("advance")
        return await super().advance(moves)

    def _break(self, call: str) -> None:
        if call in self.broken:
            self.broken.discard(call)
            self.refused.append(call)
            raise StoreUnavailableError("the disk is full: make room")


async def test_a_worker_waits_for_a_store_that_is_away_and_loses_no_outcome(
    runner: SmallRunner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("holdfast.service._away.AWAY_SECONDS", 0.01)
    jobs = Away()
    service = JobService(jobs)
    job = await submit(service, COMPLETE)
    jobs.broken = {"wake", "advance"}
    worker = Worker(jobs, runner, SystemProcessTable(), options=WorkerOptions(idle_seconds=0.01))
    async with asyncio.timeout(20):
        await worker.serve()
    assert jobs.refused == ["wake", "advance"]
    assert (await service.get(job.id)).status is S.COMPLETED
    assert caplog.text.count("the disk is full") == 2


@pytest.mark.parametrize("is_guest", [False, True])
async def test_jobs_that_were_claimed_when_the_store_went_away_are_run_when_it_is_back(
    runner: SmallRunner, monkeypatch: pytest.MonkeyPatch, is_guest: bool
) -> None:
    monkeypatch.setattr("holdfast.service._away.AWAY_SECONDS", 0.01)
    jobs = Away()
    service = JobService(jobs)
    first, second = await submit(service, COMPLETE), await submit(service, COMPLETE)
    jobs.broken = {f"claim {second.id}", "requests"} if is_guest else {"requests"}
    only = [first.id, second.id] if is_guest else None
    worker = Worker(jobs, runner, SystemProcessTable(), options=WorkerOptions(only=only, places=1))
    serving = asyncio.create_task(worker.serve())
    assert [job.status for job in await settled(service, first, second)] == [S.COMPLETED, S.COMPLETED]
    assert jobs.broken == set()
    worker.stop()
    await serving


async def test_a_worker_that_nobody_waits_for_leaves_a_store_that_stays_away(
    runner: SmallRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    # regression: a detached worker whose project was deleted went on for ever
    monkeypatch.setattr("holdfast.service._away.AWAY_SECONDS", 0.01)
    monkeypatch.setattr("holdfast.service._worker.HOLD_SECONDS", 0.05)

    class Gone(MemoryJobs):
        async def wake(self, *, now_us: int) -> int | None:
            raise StoreUnavailableError("the file is gone")

    worker = Worker(Gone(), runner, SystemProcessTable(), options=WorkerOptions(idle_seconds=1.0))
    with pytest.raises(StoreUnavailableError, match="the file is gone"):
        async with asyncio.timeout(20):
            await worker.serve()


async def test_stopping_a_worker_twice_or_before_it_serves_is_fine(jobs: JobStore, runner: SmallRunner) -> None:
    worker = Worker(jobs, runner, SystemProcessTable())
    worker.stop()
    worker.stop()
    async with asyncio.timeout(20):
        assert await worker.serve()


async def test_a_job_that_is_to_be_cancelled_is_not_paused_before_a_worker_has_heard_of_it(
    service: JobService, working: Working
) -> None:
    job = await submit(service, QUESTION)
    gone = make_worker()
    await service.jobs.register(gone)
    await service.jobs.claim(gone.id, Caps(), now_us=1)
    await service.jobs.lose(gone.id, reason="killed", now_us=2)
    await service.cancel(job.id)
    with pytest.raises(IllegalTransitionError, match="is to be cancelled and cannot be paused"):
        await service.pause(job.id)
    async with working():
        assert (await settled(service, job))[0].status is S.CANCELLED


class Broken(MemoryJobs):
    """Fails in the moment its caller is cancelled, as a store does that waits for what is being written."""

    def __init__(self, call: str) -> None:
        super().__init__()
        self._call, self.is_called = call, asyncio.Event()

    async def wake(self, *, now_us: int) -> int | None:
        await self._fail("wake")
        return await super().wake(now_us=now_us)

    async def settle(self, request_id: str) -> None:
        await self._fail("settle")

    async def advance(self, moves: Sequence[JobMove]) -> list[Job | None]:
        await self._fail("advance")
        return await super().advance(moves)

    async def _fail(self, call: str) -> None:
        if call == self._call:
            self.is_called.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise StoreUnavailableError("the disk is full: make room") from None


@pytest.mark.parametrize("call", ["wake", "settle", "advance"])
async def test_a_worker_leaves_when_it_is_told_to_although_the_store_is_away(
    runner: SmallRunner, call: str, tmp_path: Path
) -> None:
    """What it met at the store was all it heard, and it tried again for ever."""
    jobs = Broken(call)
    service = JobService(jobs)
    job = await submit(service, gate(tmp_path) if call == "settle" else COMPLETE)
    serving = asyncio.create_task(Worker(jobs, runner, SystemProcessTable()).serve())
    if call == "settle":
        await in_status(service, job, S.RUNNING)
        await service.resume(job.id)
    async with asyncio.timeout(20):
        await jobs.is_called.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving


class Unsure(MemoryJobs):
    """Stores that a job waits, and then cannot say so."""

    told = False

    async def advance(self, moves: Sequence[JobMove]) -> list[Job | None]:
        after = await super().advance(moves)
        if moves[0].target is S.WAITING and not self.told:
            self.told = True
            raise StoreUnavailableError("the connection is gone")
        return after


async def test_a_job_that_its_worker_has_again_before_it_was_done_with_it_still_hears_what_is_asked(
    runner: SmallRunner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr("holdfast.service._away.AWAY_SECONDS", 0.3)
    service = JobService(Unsure())
    asks = {"name": "question", "do": "ask", "fields": {"value": {"type": "number"}}}
    job = await submit(service, definition(asks, {"name": "long", "do": "await_file", "path": str(tmp_path / "never")}))
    worker = Worker(service.jobs, runner, SystemProcessTable())
    serving = asyncio.create_task(worker.serve())
    await in_status(service, job, S.WAITING)
    await give_answer(service, job.id, {"value": 7})
    assert (await in_status(service, job, S.RUNNING)).runs == 2

    async def is_done_with() -> bool:
        return "was taken from worker" in caplog.text

    await until(is_done_with)
    await service.cancel(job.id)
    try:
        assert (await in_status(service, job, S.CANCELLED)).runs == 2
    finally:
        worker.stop()
        await serving
