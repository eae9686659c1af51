"""Jobs: what is known of one, where they are kept (`JobStore`), and who runs one (`JobRunner`).

A job is one root run, with the same id, plus its place in the queue. The store owns its status; what the run did is in its journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from holdfast.ports._job_status import JobStatus
from holdfast.ports._resources import Owner

RequestKind = Literal["cancel", "pause", "resume", "answer", "retry", "rerun"]


class Ask(Struct, frozen=True):
    """Something a step of a job needs from outside before it can go on."""

    id: str
    """the same however often the job is taken up again"""
    step: str
    message: str = ""
    fields: dict[str, Any] = {}
    """the form: by name, what each value must be, as the flow file's typed outputs say it"""
    expires_us: int | None = None
    """when the step goes on without an answer; None for never"""


class Job(Struct, frozen=True):
    """All that the store knows of a job. JSON is kept as bytes; the store never looks inside."""

    id: str
    """of the job and of its root run"""
    flow: str
    """the flow's name, for lists and caps"""
    status: JobStatus
    created_us: int
    definition: bytes = b"{}"
    """JSON: what the runner builds the graph from; how it looks is between the submitter and the runner"""
    inputs: bytes = b"{}"
    """JSON; never holds a sensitive one"""
    name: str = ""
    labels: dict[str, str] = {}
    priority: int = 0
    """higher ones are claimed first"""
    uses: tuple[str, ...] = ()
    """what it takes one place of each while it runs: `flow:NAME`, `executor:NAME`, `agent:NAME`; caps go by these"""
    needs: tuple[str, ...] = ()
    """jobs that must complete before it may run for the first time; what becomes of them later does not concern it"""
    version: int = 0
    """raised by every change of status: a fence for whoever acts on what it has read"""
    reason: str = ""
    """why it has its status"""
    outputs: bytes | None = None
    """JSON: the result of a completed job"""
    asks: tuple[Ask, ...] = ()
    """what its steps wait for"""
    wake_us: int | None = None
    """a waiting job is queued again at this time, if nothing comes earlier"""
    worker: str = ""
    """the incarnation that has it; empty when none has"""
    runs: int = 0
    """how often a worker claimed it; a runner that is handed it with 1 is the first, and finds nothing written down"""
    updated_us: int = 0
    started_us: int | None = None
    ended_us: int | None = None
    archived: bool = False
    webhook: str = ""
    """an address that is told what happens to it, beside the project's hooks; empty for none"""


class JobMove(Struct, frozen=True):
    """One change of a job's status, made only if it still is as the mover has read it."""

    job_id: str
    source: JobStatus
    target: JobStatus
    version: int
    now_us: int
    reason: str = ""
    by: str = ""
    """who asked for it: a worker's incarnation, a user"""
    outputs: bytes | None = None
    asks: tuple[Ask, ...] | None = None
    """None to leave them; an end leaves none"""
    wake_us: int | None = None
    unheard: tuple[str, ...] = ()
    """the requests that stay for its next runner, unless the job's end settles them, and do not bring it to the queue"""


class JobChange(Struct, frozen=True):
    """A change of status as it was stored, together with the status itself: the job's history, and the feed of watchers."""

    seq: int
    """across all jobs of the store; later ones are higher"""
    job_id: str
    source: JobStatus | None
    """None for the first"""
    target: JobStatus
    at_us: int
    reason: str = ""
    by: str = ""


class JobRequest(Struct, frozen=True):
    """Something asked of a job whose run must act on it. Kept until the runner has settled it."""

    id: str
    job_id: str
    kind: RequestKind
    at_us: int
    data: bytes = b"{}"
    """JSON. answer: `{"ask": id, "values": {…}}`; rerun: `{"step": name}`; the others: `{"reason": text}`"""
    by: str = ""


class JobQuery(Struct, frozen=True):
    """Which jobs to list, newest first. Every condition given must hold."""

    statuses: tuple[JobStatus, ...] = ()
    flow: str = ""
    labels: dict[str, str] = {}
    text: str = ""
    """found in the id, the flow's name, the job's name or its reason"""
    archived: bool | None = False
    """None: whether or not"""
    before: str = ""
    """the id of the last job of the page before this one"""
    limit: int = 100


class WorkerInfo(Struct, frozen=True):
    """One life of one process that serves the queue."""

    owner: Owner
    held_until_us: int
    """its heartbeat: a worker past this may be taken for lost"""
    started_us: int
    serving: bool = True
    """False for one that only runs jobs of its own, or is leaving"""

    @property
    def id(self) -> str:
        return self.owner.id


class Caps(Struct, frozen=True):
    """How many jobs may be running at once. None and what is not listed have no bound."""

    total: int | None = None
    by_use: dict[str, int] = {}
    """by one of `Job.uses`: `{"flow:deploy": 1, "agent:claude": 2}`"""


class JobStore(Protocol):
    """Where jobs are kept. May be called from any thread and loop; several processes may share one storage.

    What one call writes is stored as a whole or not at all, and durable when it returns. Each raises StoreUnavailableError when
    the storage cannot be read or written. But for `jobs` with conditions, the cost of a call does not grow with how many ended
    jobs there are.
    """

    # -- jobs ------------------------------------------------------------------------------------------------------

    async def add(self, jobs: Sequence[Job], *, by: str = "") -> None:
        """Store new jobs, queued or awaiting approval, all or none, with their first change.

        Raises UsageError if an id is taken, or a job needs one that is not there or did not complete.
        """
        ...

    async def advance(self, moves: Sequence[JobMove]) -> list[Job | None]:
        """Make each move whose job is still in its source at its version, and return the job after it; None for the others.

        To the queue goes no job that has not begun and needs one that failed or was cancelled: None for it too. A running job
        that would wait or pause, but of which something was asked that is not settled, goes to the queue instead: nothing asked is
        forgotten. So does one that would complete or fail, if a `rerun` is not settled. But for requests that the move leaves
        `unheard`. A job without a worker that is to be cancelled is not paused: None for it too.

        The only writer of a status besides `claim`, `wake`, `lose` and the jobs that follow an end: when a job completes, those
        that need it need one job less; when it fails or is cancelled, those that need it and have not run fail with it, and so
        on down.
        Raises IllegalTransitionError, storing nothing, if the table has no such edge.
        """
        ...

    async def claim(self, worker_id: str, caps: Caps, *, now_us: int, limit: int = 1) -> list[Job]:
        """Take up to `limit` queued jobs for a worker, as running: the highest priority, then the oldest, that needs no
        unfinished job and that the caps have room for. A worker that is not registered gets none."""
        ...

    async def claim_job(self, job_id: str, worker_id: str, caps: Caps, *, now_us: int) -> Job | None:
        """Take one queued job out of its turn; None if it cannot be had: it is not queued, needs another, or a cap is reached."""
        ...

    async def wake(self, *, now_us: int) -> int | None:
        """Queue the waiting jobs whose time has come. Returns when the next one's comes; None if there is none."""
        ...

    async def show(self, job_id: str, version: int, *, asks: Sequence[Ask], now_us: int) -> bool:
        """Note what a running job's steps wait for. False if it is at that version no longer."""
        ...

    async def archive(self, job_id: str, *, archived: bool, now_us: int) -> bool:
        """Put an ended job out of sight, or back. False if there is none, or it has not ended."""
        ...

    async def delete(self, job_id: str) -> bool:
        """Forget an ended job and its history; those that need it need it no more. False if there is none or it has not ended."""
        ...

    async def job(self, job_id: str) -> Job | None: ...

    async def jobs(self, query: JobQuery) -> list[Job]:
        """A page of jobs, newest first. `definition` is left out."""
        ...

    async def find(self, prefix: str, *, limit: int = 10) -> list[str]:
        """Ids that begin, or else end, so; for what people type."""
        ...

    async def count(self) -> dict[JobStatus, int]:
        """How many jobs there are that have not ended, by status; statuses without any are left out."""
        ...

    async def changes(self, *, after: int = 0, job_id: str = "", limit: int = 100) -> list[JobChange]:
        """Changes after a number, in order; of one job, or of all."""
        ...

    async def last_change(self) -> int:
        """The number of the last change; 0 if there is none."""
        ...

    # -- requests --------------------------------------------------------------------------------------------------

    async def request(self, request: JobRequest, move: JobMove | None = None) -> bool:
        """Store a request, and make a move with it: both or neither. False if the move could not be made.

        Without a move the job must be queued or running: False if it is not. A request with a known id is the same request, and
        nothing is stored again: True if it says the same, False if not.
        """
        ...

    async def requests(self, *, worker_id: str = "", job_id: str = "") -> list[JobRequest]:
        """What is not settled yet, in order: of the jobs a worker has, or of one job."""
        ...

    async def settle(self, request_id: str) -> None:
        """The runner has acted on it, durably. One that is not there is fine.

        A job's end settles all that are left, but for answers to one that failed: they are heard when it is retried.
        """
        ...

    # -- workers ---------------------------------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo) -> None:
        """Write down a new worker."""
        ...

    async def renew(self, worker: WorkerInfo) -> bool:
        """Renew a worker's hold, and whether it serves. False if it was struck out: then its jobs are others' by now."""
        ...

    async def register_only(self, worker: WorkerInfo) -> bool:
        """Write down a worker if no other is serving whose hold lasts beyond its start; False if there is one."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """All that are registered, oldest first."""
        ...

    async def lose(self, worker_id: str, *, reason: str, now_us: int) -> list[str]:
        """Strike out a worker: its running jobs go back to the queue. Returns their ids. One that is not there is fine."""
        ...

    # -- noticing --------------------------------------------------------------------------------------------------

    async def stamp(self) -> int:
        """A number that differs from the last one if anything may have been written meanwhile, by whomever.

        Cheap: made to be asked every 50 ms.
        """
        ...

    async def aclose(self) -> None:
        """Let go of the storage. Twice is fine; any other use afterwards is a ClosedError."""
        ...


# -- the seam to the engine ----------------------------------------------------------------------------------------


class LogLine(Struct, frozen=True):
    """A piece of a step's live output. For people: lines may be dropped under load, and none is needed to go on."""

    at_us: int
    step: str
    """its path, `outer/inner` inside sub-flows; empty for the job itself"""
    channel: Literal["text", "thinking", "tool", "stderr", "stdout", "step", "human", "lifecycle"]
    text: str
    attempt: int = 1


class StepInfo(Struct, frozen=True):
    """One step of a job, as its journal has it."""

    path: str
    """its name, after the names of the steps around it: `research/3/summarise`"""
    status: Literal["pending", "running", "waiting", "completed", "failed", "skipped", "cancelled"]
    executor: str = ""
    attempt: int = 0
    started_us: int | None = None
    ended_us: int | None = None
    reason: str = ""
    """the error, why it was skipped, what it waits for"""
    outputs: Any = None


class JobOutcome(Struct, frozen=True):
    """How a job stands when its runner puts it down."""

    status: Literal[JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.WAITING, JobStatus.PAUSED]
    reason: str = ""
    """of a failure: what, at which step, by which rule"""
    outputs: bytes | None = None
    """JSON, of a completed job"""
    asks: tuple[Ask, ...] = ()
    """of a waiting or paused job"""
    wake_us: int | None = None
    """when a waiting job can go on without anything from outside: its next poll, an ask that expires"""
    unheard: tuple[str, ...] = ()
    """the requests that it can act on only when it goes on, by id: they wait with it, and do not wake it"""


class JobControl(Protocol):
    """What reaches a running job from outside, and what it tells. Used on the runner's loop only."""

    async def next_request(self) -> JobRequest:
        """The next request, in the order they were made; waits until there is one.

        Requests that an earlier worker did not settle come again, before others: acting on one twice must do no harm.
        """
        ...

    async def settle(self, request: JobRequest) -> None:
        """The request is acted on, and that is durable: it will not come again."""
        ...

    async def show(self, asks: Sequence[Ask]) -> None:
        """What the job's steps wait for now, all of it, while others still work."""
        ...

    def log(self, line: LogLine) -> None:
        """Pass on live output. Never blocks, never raises."""
        ...


class JobRunner(Protocol):
    """Runs jobs. One object runs many at once, on one loop; it passes `JobRunnerConformance`."""

    async def run(self, job: Job, control: JobControl) -> JobOutcome:
        """Run a claimed job, or go on with it, until it ends, waits or is paused; then hold nothing of it.

        Its journal says how far it came. One that had ended there already is not run again: its outcome is returned, unless it
        failed and a `retry`, or it failed or completed and a `rerun`, is waiting (then it is waiting before this is called). A
        `cancel` ends it as cancelled; a `pause` lets running steps finish and starts none. Whatever it raises fails the job, with
        the message as the reason: that is how a job says that it cannot go on; RunBusyError only puts it off.

        Cancelling this call is a *departure* (the worker leaves): release everything, let no step stay running, leave the run as
        one that can be taken up by another worker, and raise CancelledError.
        """
        ...

    async def steps(self, job: Job) -> list[StepInfo]:
        """The steps of a job, running or not, in the order they first started; those that never did at the end."""
        ...

    async def forget(self, job_id: str) -> None:
        """Delete everything that is kept of an ended job: journal, workspace, logs. One that is unknown is fine."""
        ...
