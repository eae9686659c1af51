"""`MemoryJobs`: jobs and their queue in memory."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from holdfast.errors import UsageError
from holdfast.ports import (
    Ask,
    Caps,
    Job,
    JobChange,
    JobMove,
    JobQuery,
    JobRequest,
    JobStatus,
    Subscriptions,
    WorkerInfo,
)
from holdfast.stores import _job_rules as rules
from holdfast.stores._closing import Closing
from holdfast.stores._outbox_rules import Telling, nobody
from holdfast.stores._rules import store_closed


class MemoryJobs(Closing):
    """Jobs that end with this process: for tests, and for queues that need not outlive it.

    `hooks` says who is to be told of what happens to them, by a `MemoryOutbox`.
    """

    def __init__(self, *, hooks: Callable[[], Subscriptions] = nobody) -> None:
        self.telling = Telling(hooks)
        self.listeners: list[Callable[[Job | None, Job, int], None]] = []
        """Called inside each change with the job before, if there was one, the job after, and the time."""
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._changes: list[JobChange] = []
        self._requests: dict[str, JobRequest] = {}
        self._workers: dict[str, WorkerInfo] = {}
        self._last_change = self._stamp = 0
        self._closed = False

    def job_now(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise store_closed("this job store")
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self.telling.prepare()
        with self._alone():
            self._stamp += 1
            yield

    # -- jobs ------------------------------------------------------------------------------------------------------

    async def add(self, jobs: Sequence[Job], *, by: str = "") -> None:
        rules.check_new(jobs)
        with self._writing():
            if problem := self._problem(jobs):
                raise UsageError(problem)
            self._add(jobs, by)

    def _add(self, jobs: Sequence[Job], by: str) -> None:
        for job in jobs:
            # as other stores give it back: in order, without repetitions
            needs = tuple(sorted(set(job.needs)))
            self._jobs[job.id] = replace(
                job, uses=rules.uses_of(rules.lane_of(job.uses)), needs=needs, updated_us=job.created_us
            )
            self._note(job.id, None, job.status, job.created_us, job.reason, by)
            self._tell(None, job.id, job.created_us)

    def _problem(self, jobs: Sequence[Job]) -> str:
        new = {job.id for job in jobs}
        if len(new) < len(jobs):
            return "two of the jobs have the same id"
        for job in jobs:
            if job.id in self._jobs:
                return f"there is a job {job.id} already"
            for need in set(job.needs) - new:
                found = self._jobs.get(need)
                if found is None:
                    return f"job {job.id} needs job {need}, and there is no such job"
                if found.status in (JobStatus.FAILED, JobStatus.CANCELLED):
                    return f"job {job.id} needs job {need}, which is {found.status}: retry that first"
        return ""

    async def advance(self, moves: Sequence[JobMove]) -> list[Job | None]:
        rules.check_moves(moves)
        with self._writing():
            return [self._jobs[move.job_id] if self._move(move) else None for move in moves]

    def _move(self, move: JobMove, worker: str = "") -> bool:
        job = self._jobs.get(move.job_id)
        if job is None or (job.status, job.version) != (move.source, move.version):
            return False
        asked = [(one.id, one.kind) for one in self._requests.values() if one.job_id == job.id]
        if (heeding := rules.heeding(move, asked)) is None:
            return False
        move = heeding
        if move.target is JobStatus.QUEUED and self._has_lost_need(job):
            return False
        ends = move.target.is_terminal
        asks = move.asks if move.asks is not None else () if ends else job.asks
        self._jobs[job.id] = replace(
            job,
            status=move.target,
            version=job.version + 1,
            reason=move.reason,
            worker=worker,
            runs=job.runs + bool(worker),
            wake_us=move.wake_us,
            updated_us=move.now_us,
            started_us=(job.started_us or move.now_us) if worker else job.started_us,
            ended_us=move.now_us if ends else None,
            outputs=move.outputs if move.outputs is not None or move.source is JobStatus.COMPLETED else job.outputs,
            asks=() if ends else asks,
        )
        self._note(job.id, move.source, move.target, move.now_us, move.reason, move.by or worker)
        self._tell(job, job.id, move.now_us)
        if ends:
            self._follow_end(move)
        return True

    def _tell(self, before: Job | None, job_id: str, at_us: int) -> None:
        for listener in self.listeners:
            listener(before, self._jobs[job_id], at_us)

    def _note(self, job_id: str, source: JobStatus | None, target: JobStatus, at_us: int, reason: str, by: str) -> None:
        self._last_change += 1
        self._stamp += 1
        self._changes.append(JobChange(self._last_change, job_id, source, target, at_us, reason, by))

    def _follow_end(self, move: JobMove) -> None:
        self._requests = {
            key: one
            for key, one in self._requests.items()
            if one.job_id != move.job_id or rules.outlives(one.kind, move.target)
        }
        if move.target is JobStatus.COMPLETED:
            return
        reason = rules.following(move.job_id, move.target)
        for job in [*self._jobs.values()]:
            if move.job_id in job.needs and not job.runs and job.status in rules.FOLLOWING:
                self._move(JobMove(job.id, job.status, JobStatus.FAILED, job.version, move.now_us, reason, move.by))

    def _has_lost_need(self, job: Job) -> bool:
        lost = (JobStatus.FAILED, JobStatus.CANCELLED)
        return not job.runs and any(self._jobs[need].status in lost for need in job.needs)

    def _is_ready(self, job: Job) -> bool:
        met = job.runs > 0 or all(self._jobs[need].status is JobStatus.COMPLETED for need in job.needs)
        return job.status is JobStatus.QUEUED and met

    async def claim(self, worker_id: str, caps: Caps, *, now_us: int, limit: int = 1) -> list[Job]:
        with self._alone():
            if worker_id not in self._workers:
                return []
            ready = [
                rules.Ready(-job.priority, key, rules.lane_of(job.uses), job.id, job.version)
                for key, job in enumerate(self._jobs.values())
                if self._is_ready(job)
            ]
            chosen = rules.choose(ready, self._running_lanes(), caps, limit)
            return [job for one in chosen if (job := self._claim(one.job_id, worker_id, now_us))]

    def _running_lanes(self) -> Counter[str]:
        return Counter(rules.lane_of(job.uses) for job in self._jobs.values() if job.status is JobStatus.RUNNING)

    async def claim_job(self, job_id: str, worker_id: str, caps: Caps, *, now_us: int) -> Job | None:
        with self._alone():
            job = self._jobs.get(job_id)
            if job is None or worker_id not in self._workers:
                return None
            has_room = rules.has_room(rules.lane_of(job.uses), self._running_lanes(), caps)
            return self._claim(job_id, worker_id, now_us) if has_room else None

    def _claim(self, job_id: str, worker_id: str, now_us: int) -> Job | None:
        job = self._jobs.get(job_id)
        if job is None or not self._is_ready(job):
            return None
        self._move(JobMove(job_id, job.status, JobStatus.RUNNING, job.version, now_us, rules.CLAIMED), worker_id)
        return self._jobs[job_id]

    async def wake(self, *, now_us: int) -> int | None:
        with self._alone():
            for job in self._sleepers():
                if (job.wake_us or 0) <= now_us:
                    self._move(JobMove(job.id, job.status, JobStatus.QUEUED, job.version, now_us, rules.WOKEN))
            return min((job.wake_us for job in self._sleepers() if job.wake_us is not None), default=None)

    def _sleepers(self) -> list[Job]:
        return [job for job in self._jobs.values() if job.status is JobStatus.WAITING and job.wake_us is not None]

    async def show(self, job_id: str, version: int, *, asks: Sequence[Ask], now_us: int) -> bool:
        with self._writing():
            job = self._jobs.get(job_id)
            if job is None or (job.status, job.version) != (JobStatus.RUNNING, version):
                return False
            self._jobs[job_id] = replace(job, asks=tuple(asks))
            self._tell(job, job_id, now_us)
            return True

    async def archive(self, job_id: str, *, archived: bool, now_us: int) -> bool:
        with self._writing():
            job = self._jobs.get(job_id)
            if job is None or not job.status.is_terminal:
                return False
            self._jobs[job_id] = replace(job, archived=archived, updated_us=now_us)
            return True

    async def delete(self, job_id: str) -> bool:
        with self._writing():
            job = self._jobs.get(job_id)
            if job is None or not job.status.is_terminal:
                return False
            del self._jobs[job_id]
            for other in [*self._jobs.values()]:
                if job_id in other.needs:
                    needs = tuple(need for need in other.needs if need != job_id)
                    self._jobs[other.id] = replace(other, needs=needs)
            self._changes = [change for change in self._changes if change.job_id != job_id]
            self._requests = {key: one for key, one in self._requests.items() if one.job_id != job_id}
            return True

    async def job(self, job_id: str) -> Job | None:
        with self._alone():
            return self._jobs.get(job_id)

    async def jobs(self, query: JobQuery) -> list[Job]:
        with self._alone():
            newest_first = [*reversed(self._jobs.values())]
            if query.before:
                ids = [job.id for job in newest_first]
                place = ids.index(query.before) + 1 if query.before in ids else len(ids)
                newest_first = newest_first[place:]
            found = [job for job in newest_first if rules.matches(job, query)]
            return [replace(job, definition=b"{}") for job in found[: query.limit]]

    async def find(self, prefix: str, *, limit: int = 10) -> list[str]:
        with self._alone():
            begins = sorted(job_id for job_id in self._jobs if job_id.startswith(prefix))
            ends = sorted((job_id for job_id in self._jobs if job_id.endswith(prefix)), key=lambda one: one[::-1])
            return (begins or ends)[:limit]

    async def count(self) -> dict[JobStatus, int]:
        with self._alone():
            return dict(Counter(job.status for job in self._jobs.values() if not job.status.is_terminal))

    async def changes(self, *, after: int = 0, job_id: str = "", limit: int = 100) -> list[JobChange]:
        with self._alone():
            found = [one for one in self._changes if one.seq > after and (not job_id or one.job_id == job_id)]
            return found[:limit]

    async def last_change(self) -> int:
        with self._alone():
            return max((change.seq for change in self._changes), default=0)

    # -- requests --------------------------------------------------------------------------------------------------

    async def request(self, request: JobRequest, move: JobMove | None = None) -> bool:
        if move is not None:
            rules.check_moves([move])
        with self._writing():
            if known := self._requests.get(request.id):
                return (known.kind, known.data) == (request.kind, request.data)
            job = self._jobs.get(request.job_id)
            if job is None:
                return False
            fits = job.status in (JobStatus.QUEUED, JobStatus.RUNNING) if move is None else self._move(move)
            if fits:
                self._requests[request.id] = request
            return fits

    async def requests(self, *, worker_id: str = "", job_id: str = "") -> list[JobRequest]:
        with self._alone():
            held = {job.id for job in self._jobs.values() if worker_id and job.worker == worker_id}
            wanted = {job_id} if job_id else held
            return [one for one in self._requests.values() if one.job_id in wanted]

    async def settle(self, request_id: str) -> None:
        with self._writing():
            self._requests.pop(request_id, None)

    # -- workers ---------------------------------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo) -> None:
        with self._writing():
            self._workers[worker.id] = worker

    async def renew(self, worker: WorkerInfo) -> bool:
        with self._writing():
            known = self._workers.get(worker.id)
            if known is None:
                return False
            self._workers[worker.id] = replace(known, held_until_us=worker.held_until_us, serving=worker.serving)
            return True

    async def register_only(self, worker: WorkerInfo) -> bool:
        with self._writing():
            others = [one for one in self._workers.values() if one.id != worker.id and one.serving]
            if any(one.held_until_us > worker.started_us for one in others):
                return False
            await self.register(worker)
            return True

    async def workers(self) -> list[WorkerInfo]:
        with self._alone():
            return [*self._workers.values()]

    async def lose(self, worker_id: str, *, reason: str, now_us: int) -> list[str]:
        with self._writing():
            self._workers.pop(worker_id, None)
            held = [job for job in self._jobs.values() if worker_id and job.worker == worker_id]
            for job in held:
                self._move(JobMove(job.id, job.status, JobStatus.QUEUED, job.version, now_us, reason, worker_id))
            return [job.id for job in held]

    # -- noticing, ending ------------------------------------------------------------------------------------------

    async def stamp(self) -> int:
        with self._alone():
            return self._stamp

    def close(self) -> None:
        self._closed = True

    async def aclose(self) -> None:
        self.close()
