"""`JobService`: everything that people ask of jobs. It works on the store alone, so it needs no worker and no server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.clock import Clock, SystemClock
from holdfast.errors import IllegalTransitionError, UnknownJobError, UsageError
from holdfast.ids import IdFactory, new_id
from holdfast.ports import Ask, Job, JobChange, JobMove, JobQuery, JobRequest, JobStatus, JobStore
from holdfast.serde import encode
from holdfast.service._noticing import Noticing
from holdfast.service._operations import Operation, decide

TRIES = 50
"""How often an operation is decided anew because the job changed in between."""


class Submission(Struct, frozen=True):
    """What is needed to make a job."""

    flow: str
    definition: bytes = b"{}"
    inputs: Mapping[str, Any] = {}
    name: str = ""
    labels: Mapping[str, str] = {}
    priority: int = 0
    uses: tuple[str, ...] = ()
    """what caps go by, beside `flow:NAME`, which it always uses: `executor:NAME`, `agent:NAME`"""
    needs: tuple[str, ...] = ()
    needs_approval: bool = False
    webhook: str = ""
    """an address that is told what happens to it"""


class JobService:
    """Submit jobs and ask things of them.

    `by` names who asks, for the jobs' history. `changed` is called after every write, to wake a worker of this process.
    """

    def __init__(
        self,
        jobs: JobStore,
        *,
        clock: Clock | None = None,
        ids: IdFactory = new_id,
        by: str = "",
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.jobs = jobs
        self._clock: Clock = clock or SystemClock()
        self._ids, self._by, self._changed = ids, by, changed

    # -- new jobs --------------------------------------------------------------------------------------------------

    async def submit(self, *submissions: Submission) -> list[Job]:
        """Add jobs, all or none. Raises UsageError if one needs a job that is not there or did not complete."""
        jobs = [self._make(submission) for submission in submissions]
        await self.jobs.add(jobs, by=self._by)
        self._changed()
        return jobs

    def _make(self, what: Submission) -> Job:
        return Job(
            id=self._ids(),
            flow=what.flow,
            status=JobStatus.AWAITING_APPROVAL if what.needs_approval else JobStatus.QUEUED,
            created_us=self._now_us(),
            definition=what.definition,
            inputs=encode(what.inputs),
            name=what.name,
            labels=dict(what.labels),
            priority=what.priority,
            uses=(f"flow:{what.flow}", *what.uses),
            needs=what.needs,
            reason="submitted",
            webhook=what.webhook,
        )

    # -- asking ----------------------------------------------------------------------------------------------------

    async def approve(self, job_id: str) -> Job:
        """Let a job that awaits approval into the queue."""
        return await self._ask("approve", job_id, "approved")

    async def pause(self, job_id: str, reason: str = "") -> Job:
        """Start no more steps of a job: those at work finish."""
        return await self._ask("pause", job_id, reason or "paused")

    async def resume(self, job_id: str) -> Job:
        """Go on with a paused job."""
        return await self._ask("resume", job_id, "resumed")

    async def go_on(self, job_id: str) -> Job:
        """Go on with a job that has ended, on a branch that was begun since: `checkpoint fork`. What it did before stays."""
        return await self._ask("go_on", job_id, "goes on with a branch")

    async def cancel(self, job_id: str, reason: str = "") -> Job:
        """End a job. One that runs is ended by its worker, which first releases what it holds."""
        return await self._ask("cancel", job_id, reason or "cancelled")

    async def retry(self, job_id: str) -> Job:
        """Take up a failed job at the steps that failed."""
        return await self._ask("retry", job_id, "retried")

    async def rerun(self, job_id: str, step: str) -> Job:
        """Run a step of a job again, and what depends on it."""
        return await self._ask("rerun", job_id, f"step {step} is run again", data={"step": step})

    async def answer(self, job_id: str, ask: Ask, values: Mapping[str, Any]) -> Job:
        """Give a waiting step what it waits for, as `give_answer` found it to fit. The same answer twice is fine.

        Raises UsageError if it was answered differently before.
        """
        data = {"ask": ask.id, "values": values, "asked": msgspec.to_builtins(ask)}
        return await self._ask(
            "answer", job_id, f"answered at {ask.step}", data, request_id=f"answer {ask.id}", ask=ask
        )

    async def _ask(
        self,
        operation: Operation,
        job_id: str,
        reason: str,
        data: Mapping[str, Any] | None = None,
        request_id: str = "",
        ask: Ask | None = None,
    ) -> Job:
        """Carry out an operation on the job as it is; when it has changed by then, decide anew."""
        request_id = request_id or self._ids()
        for _ in range(TRIES):
            job = await self.get(job_id)
            how = decide(operation, job)
            move = None if how.target is None else self._move(job, how.target, reason, ask)
            if not how.is_request:
                assert move is not None
                done = (await self.jobs.advance([move]))[0] is not None
            else:
                assert operation != "approve"
                kind = "resume" if operation == "go_on" else operation
                request = JobRequest(
                    request_id, job.id, kind, self._now_us(), encode(data or {"reason": reason}), self._by
                )
                done = await self.jobs.request(request, move)
            if done:
                self._changed()
                return await self.get(job_id)
            await self._explain(job, how.target, request_id)
        raise IllegalTransitionError(f"job {job_id} keeps changing; try again")

    def _move(self, job: Job, target: JobStatus, reason: str, ask: Ask | None) -> JobMove:
        asks = None if ask is None else tuple(other for other in job.asks if other.id != ask.id)
        return JobMove(job.id, job.status, target, job.version, self._now_us(), reason, self._by, asks=asks)

    async def _explain(self, job: Job, target: JobStatus | None, request_id: str) -> None:
        """Raise if trying again cannot help."""
        asked = await self.jobs.requests(job_id=job.id)
        if target is JobStatus.PAUSED and any(request.kind == "cancel" for request in asked):
            raise IllegalTransitionError(f"job {job.id} is to be cancelled and cannot be paused any more")
        if any(request.id == request_id for request in asked):
            raise UsageError(f"job {job.id} was answered differently before; the first answer counts")
        if target is JobStatus.QUEUED and job.runs == 0:
            for need in job.needs:
                found = await self.jobs.job(need)
                if found is not None and found.status in (JobStatus.FAILED, JobStatus.CANCELLED):
                    raise UsageError(f"job {job.id} needs job {need}, which is {found.status}: retry that first")

    async def archive(self, job_id: str) -> None:
        """Put an ended job out of sight. Raises IllegalTransitionError if it has not ended."""
        await self._ended(await self.get(job_id), "archived")
        await self.jobs.archive(job_id, archived=True, now_us=self._now_us())

    async def unarchive(self, job_id: str) -> None:
        """Bring an archived job back into sight."""
        await self._ended(await self.get(job_id), "brought back")
        await self.jobs.archive(job_id, archived=False, now_us=self._now_us())

    async def delete(self, job_id: str) -> None:
        """Forget an ended job. What its run left is its runner's to forget. Raises IllegalTransitionError if it has not ended."""
        await self._ended(await self.get(job_id), "deleted")
        await self.jobs.delete(job_id)

    @staticmethod
    async def _ended(job: Job, done: str) -> None:
        if not job.status.is_terminal:
            raise IllegalTransitionError(
                f"job {job.id} is {job.status} and cannot be {done} before it ends; cancel it first"
            )

    # -- reading ---------------------------------------------------------------------------------------------------

    async def get(self, job_id: str) -> Job:
        """Raises UnknownJobError if there is none."""
        job = await self.jobs.job(job_id)
        if job is None:
            raise UnknownJobError(f"there is no job {job_id}; `holdfast jobs` lists them")
        return job

    async def resolve(self, typed: str) -> str:
        """The id that somebody means who typed the whole of it, its beginning, or its end.

        Raises UnknownJobError if none or several fit.
        """
        if await self.jobs.job(typed) is not None:
            return typed
        found = await self.jobs.find(typed, limit=4) if typed else []
        if not found:
            raise UnknownJobError(f"there is no job {typed!r}; `holdfast jobs` lists them")
        if len(found) > 1:
            more = ", …" if len(found) == 4 else ""
            raise UnknownJobError(f"{typed!r} fits several jobs: {', '.join(found[:3])}{more}; type more of it")
        return found[0]

    async def browse(self, query: JobQuery) -> list[Job]:
        """A page of jobs, newest first."""
        return await self.jobs.jobs(query)

    async def history(self, job_id: str) -> Sequence[JobChange]:
        """Every change of a job's status, oldest first."""
        told: list[JobChange] = []
        while page := await self.jobs.changes(job_id=job_id, after=told[-1].seq if told else 0):
            told += page
        return told

    async def until(self, job_ids: Sequence[str], enough: Callable[[Sequence[Job]], bool]) -> list[Job]:
        """Wait until what is stored of some jobs is enough, and return them. Raises UnknownJobError if one goes away."""
        noticing = Noticing(self.jobs, self._clock, poll_seconds=0.02)  # somebody waits for the answer
        while True:
            jobs = [await self.get(job_id) for job_id in job_ids]
            if enough(jobs):
                return jobs
            await noticing.changed(self._clock.monotonic() + 3600)

    def _now_us(self) -> int:
        return self._clock.time_ns() // 1000


def is_settled(job: Job) -> bool:
    """Whether a job will do nothing more unless somebody sees to it: it has ended, is paused, or waits for more than time."""
    waits = job.status is JobStatus.WAITING and (bool(job.asks) or job.wake_us is None)
    unapproved = job.status is JobStatus.AWAITING_APPROVAL
    return job.status.is_terminal or job.status is JobStatus.PAUSED or waits or unapproved
