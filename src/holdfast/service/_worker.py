"""`Worker`: claims jobs and has them run. Killed at any moment, the next one goes on with what it had."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection

from msgspec import Struct

from holdfast.clock import Clock, SystemClock, check_seconds
from holdfast.errors import RunBusyError, StorageError, UsageError
from holdfast.ids import IdFactory, new_id
from holdfast.ports import (
    Caps,
    Job,
    JobMove,
    JobOutcome,
    JobRequest,
    JobRunner,
    JobStatus,
    JobStore,
    Owner,
    ProcessTable,
    WorkerInfo,
)
from holdfast.service._away import AWAY_SECONDS, leave_alone
from holdfast.service._control import Control
from holdfast.service._logs import LogFolder
from holdfast.service._lost import lose_dead, this_process
from holdfast.service._noticing import Noticing

HOLD_SECONDS = 30.0
BEAT_SECONDS = 5.0

logger = logging.getLogger(__name__)


class WorkerOptions(Struct, frozen=True):
    """How a worker serves."""

    caps: Caps = Caps()
    places: int = 8
    """how many jobs it runs at once"""
    output_bytes: int = 5 * 1024 * 1024
    """how large the outputs of one step may be; for whoever makes its runner"""
    only: Collection[str] | None = None
    """the jobs it may have, instead of the whole queue: it is then no server of the queue, only a guest"""
    idle_seconds: float | None = None
    """how long it stays when there is nothing to do; None for ever"""
    alone: bool = False
    """leave at once if another serves the queue already"""

    def __post_init__(self) -> None:
        check_seconds(idle_seconds=self.idle_seconds)


class Worker:
    """Serves the queue of a store with a runner: `await serve()`; `stop()` makes it leave, and so does cancelling `serve()`.

    Leaving is a departure: running jobs are put down and go back to the queue, to be taken up where they were. `lingers` is asked
    before it leaves because it is idle: whether this process has something else to do.
    """

    def __init__(
        self,
        jobs: JobStore,
        runner: JobRunner,
        table: ProcessTable,
        *,
        options: WorkerOptions | None = None,
        logs: LogFolder | None = None,
        lingers: Callable[[], Awaitable[bool]] | None = None,
        clock: Clock | None = None,
        ids: IdFactory = new_id,
    ) -> None:
        self._jobs, self._runner, self._table, self._logs = jobs, runner, table, logs
        self._options = options or WorkerOptions()
        self._lingers = lingers
        self._clock: Clock = clock or SystemClock()
        self._ids = ids
        self._noticing = Noticing(jobs, self._clock)
        self._claimed: dict[str, Job] = {}
        """Jobs that it has, and that wait for their task: the store may go away in between."""
        self._controls: dict[str, Control] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = self._serving = False
        self._problem: StorageError | None = None
        self._next_beat = 0.0
        self._idle_since: float | None = None
        self._started_us = 0
        self._owner = self._begin_life()

    def _begin_life(self) -> Owner:
        self._registered = False
        return Owner(self._ids(), this_process(self._table))

    @property
    def id(self) -> str:
        """Of this life of this worker."""
        return self._owner.id

    @property
    def options(self) -> WorkerOptions:
        """How it serves."""
        return self._options

    def change(self, options: WorkerOptions) -> None:
        """Claim by other places and caps from now on; jobs that run go on. On the worker's loop."""
        self._options = options
        self._noticing.wake()

    def stop(self) -> None:
        """Leave as soon as possible. On the worker's loop; twice, or before it serves, is fine."""
        self._stopping = True
        self._noticing.wake()

    def wake(self) -> None:
        """Something was stored by this process: look at once."""
        self._noticing.wake()

    # -- serving ---------------------------------------------------------------------------------------------------

    async def serve(self) -> bool:
        """Serve until stopped, or idle for long enough. False if it was to be alone and another serves already.

        Raises StorageError if the store cannot be reached at the start; later on it is waited for, unless the worker is one that
        leaves when idle.
        """
        if self._serving:
            raise UsageError("this worker serves already; make another one")
        self._serving = True
        try:
            if not await self._enter():
                return False
            async with asyncio.TaskGroup() as group:
                try:
                    await self._serve(group)
                finally:
                    for task in self._tasks.values():
                        task.cancel()
            if self._problem is not None:
                raise self._problem
            return True
        finally:
            await self._leave()
            self._serving = False

    async def _enter(self) -> bool:
        now_us = self._now_us()
        self._started_us = now_us
        await lose_dead(self._jobs, self._table, now_us, but=self.id)
        if self._options.alone:
            self._registered = await self._jobs.register_only(self._info())
        else:
            await self._jobs.register(self._info())
            self._registered = True
        self._next_beat = self._clock.monotonic() + BEAT_SECONDS
        return self._registered

    def _info(self, *, serving: bool = True) -> WorkerInfo:
        held_until_us = self._now_us() + int(HOLD_SECONDS * 1_000_000)
        return WorkerInfo(self._owner, held_until_us, self._started_us, serving and self._options.only is None)

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        seen = self._clock.monotonic()
        while not self._stopping:
            try:
                await self._noticing.changed(await self._round(group))
                seen = self._clock.monotonic()
            except StorageError as error:
                logger.warning("the store cannot be used now, trying again: %s", error)
                if self._options.idle_seconds is not None and self._clock.monotonic() - seen > HOLD_SECONDS:
                    self._problem = error  # nobody waits for this worker: its jobs, or the whole project, may be gone
                    return
                await leave_alone(self._clock)

    async def _round(self, group: asyncio.TaskGroup) -> float:
        """Do what there is to do. Returns when to look again, if nothing happens before."""
        if self._clock.monotonic() >= self._next_beat:
            await self._beat()
        due_us = await self._jobs.wake(now_us=self._now_us())
        await self._claim()
        requests = await self._jobs.requests(worker_id=self.id) if self._claimed or self._controls else []
        claimed, self._claimed = self._claimed, {}
        for job in claimed.values():
            log = None if self._logs is None else self._logs.writer(job.id)
            self._controls[job.id] = Control(self._jobs, job, log, self._clock)
        self._deliver(requests)
        for job in claimed.values():
            self._tasks[job.id] = group.create_task(self._work(job, self._controls[job.id]), name=f"job {job.id}")
        await self._consider_leaving(due_us)
        return self._deadline(due_us)

    def _deadline(self, due_us: int | None) -> float:
        now, deadlines = self._clock.monotonic(), [self._next_beat]
        if due_us is not None:
            deadlines.append(now + max(due_us - self._now_us(), 0) / 1_000_000)
        if self._idle_since is not None and self._options.idle_seconds is not None:
            deadlines.append(self._idle_since + self._options.idle_seconds)
        return min(deadlines)

    async def _claim(self) -> None:
        caps, free = self._options.caps, self._options.places - len(self._tasks) - len(self._claimed)
        if self._options.only is None:
            if free > 0:  # places may have become fewer than the jobs that run
                claimed = await self._jobs.claim(self.id, caps, now_us=self._now_us(), limit=free)
                self._claimed |= {job.id: job for job in claimed}
            return
        for job_id in self._options.only:
            if job_id not in self._tasks and job_id not in self._claimed:
                job = await self._jobs.claim_job(job_id, self.id, caps, now_us=self._now_us())
                self._claimed |= {} if job is None else {job.id: job}

    def _deliver(self, requests: list[JobRequest]) -> None:
        by_job: defaultdict[str, list[JobRequest]] = defaultdict(list)
        for request in requests:
            by_job[request.job_id].append(request)
        for job_id, asked in by_job.items():
            if job_id in self._controls:
                self._controls[job_id].deliver(asked)

    async def _consider_leaving(self, due_us: int | None) -> None:
        """Leave when there was nothing to do for long enough. Whoever submits in this moment is not left alone."""
        patience = self._options.idle_seconds
        if patience is None or self._tasks or due_us is not None or await self._is_needed():
            self._idle_since = None
            return
        now = self._clock.monotonic()
        self._idle_since = now if self._idle_since is None else self._idle_since
        if now - self._idle_since < patience:
            return
        await self._jobs.renew(self._info(serving=False))  # who submits from now on starts another worker
        if await self._is_queue_filled():
            await self._jobs.renew(self._info())  # submitted while this one was still said to serve
            self._idle_since = None
        else:
            self._stopping = True

    async def _is_needed(self) -> bool:
        return await self._is_queue_filled() or (self._lingers is not None and await self._lingers())

    async def _is_queue_filled(self) -> bool:
        return JobStatus.QUEUED in await self._jobs.count()

    # -- staying alive ---------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        if not await self._jobs.renew(self._info()):
            await self._begin_again()
        await lose_dead(self._jobs, self._table, self._now_us(), but=self.id)
        self._next_beat = self._clock.monotonic() + BEAT_SECONDS

    async def _begin_again(self) -> None:
        """Others took this worker for lost, and may have its jobs by now: put down all of them."""
        logger.warning("worker %s was taken for lost; it puts down its %d jobs", self.id, len(self._tasks))
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._claimed.clear()
        self._owner = self._begin_life()
        await self._jobs.register(self._info())
        self._registered = True

    async def _leave(self) -> None:
        """Put everything back, also when this task is being cancelled."""
        if not self._registered:
            return
        leaving = asyncio.ensure_future(self._jobs.lose(self.id, reason="its worker left", now_us=self._now_us()))
        self._registered = False
        while not leaving.done():
            try:
                await asyncio.shield(leaving)
            except asyncio.CancelledError:
                continue
            except StorageError as error:
                logger.warning("could not put jobs back, the next worker will: %s", error)
                return

    # -- one job ---------------------------------------------------------------------------------------------------

    async def _work(self, job: Job, control: Control) -> None:
        try:
            outcome = await self._run(job, control)
            control.close()
            await self._put_down(job, outcome)
        finally:
            control.close()
            if self._controls.get(job.id) is control:  # else it has the job again already
                del self._controls[job.id], self._tasks[job.id]
            self._noticing.wake()

    async def _run(self, job: Job, control: Control) -> JobOutcome:
        try:
            return await self._runner.run(job, control)
        except RunBusyError as error:
            wake_us = self._now_us() + int(AWAY_SECONDS * 1_000_000)
            taken = tuple(control.taken)
            return JobOutcome(JobStatus.WAITING, str(error), asks=job.asks, wake_us=wake_us, unheard=taken)
        except Exception as error:  # whatever it is, it fails this job and no other
            logger.info("job %s cannot go on", job.id, exc_info=True)
            reason = f"cannot go on: {str(error) or type(error).__name__}"
            return JobOutcome(JobStatus.FAILED, reason, unheard=tuple(control.taken))

    async def _put_down(self, job: Job, outcome: JobOutcome) -> None:
        """Write down how a job stands. A store that is away is waited for: until then the job is this worker's."""
        asks = outcome.asks if outcome.status in (JobStatus.WAITING, JobStatus.PAUSED) else None
        while True:
            move = JobMove(
                job.id, JobStatus.RUNNING, outcome.status, job.version, self._now_us(), outcome.reason, self.id,
                outcome.outputs, asks, outcome.wake_us, outcome.unheard,
            )  # fmt: skip
            try:
                (after,) = await self._jobs.advance([move])
            except StorageError as error:
                logger.warning("the end of job %s cannot be stored now, trying again: %s", job.id, error)
                await leave_alone(self._clock)
                continue
            if after is None:
                logger.warning("job %s was taken from worker %s before it was put down", job.id, self.id)
            return

    def _now_us(self) -> int:
        return self._clock.time_ns() // 1000
