"""The statuses of a job and the one table of what may follow what."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from holdfast.errors import AlreadyFinishedError, IllegalTransitionError


class JobStatus(StrEnum):
    """Where a job stands. `JOB_MEANINGS` documents each; archived is no status but a flag."""

    AWAITING_APPROVAL = "awaiting_approval"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether a job in this status holds nothing, and does nothing unless someone sends it back."""
        return self in JOB_TERMINAL


JOB_MEANINGS: dict[JobStatus, str] = {
    JobStatus.AWAITING_APPROVAL: "It was submitted; it may not be queued until someone approves it.",
    JobStatus.QUEUED: "It has its place in the queue: for its first run, or to go on.",
    JobStatus.RUNNING: "A worker has it, and at least one step is at work.",
    JobStatus.WAITING: "Nothing is at work: it needs something from outside, or a time to come. No worker has it.",
    JobStatus.PAUSED: "No step is started until someone resumes it. No worker has it.",
    JobStatus.COMPLETED: "It settled with a result. A step of it may be run again, with what depends on it.",
    JobStatus.FAILED: "It ended without its result; the reason says why. It may be retried.",
    JobStatus.CANCELLED: "It was told to end.",
}

JOB_TERMINAL = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})


class JobTransition(Struct, frozen=True):
    """One edge of the table."""

    source: JobStatus
    target: JobStatus
    when: str


def _edges() -> tuple[JobTransition, ...]:
    s = JobStatus
    return (
        JobTransition(s.AWAITING_APPROVAL, s.QUEUED, "someone approves it"),
        JobTransition(s.AWAITING_APPROVAL, s.FAILED, "a job that it needs fails or is cancelled"),
        JobTransition(s.AWAITING_APPROVAL, s.CANCELLED, "it is cancelled before anyone approved it"),
        JobTransition(s.QUEUED, s.RUNNING, "a worker claims it"),
        JobTransition(s.QUEUED, s.PAUSED, "someone pauses it before a worker has it"),
        JobTransition(s.QUEUED, s.FAILED, "a job that it needs fails or is cancelled"),
        JobTransition(s.QUEUED, s.CANCELLED, "it is cancelled before its first run"),
        JobTransition(s.RUNNING, s.QUEUED, "its worker left or was lost; it will go on from its journal"),
        JobTransition(s.RUNNING, s.WAITING, "its last step at work starts to wait"),
        JobTransition(s.RUNNING, s.PAUSED, "someone or a rule paused it, and its last step at work is done"),
        JobTransition(s.RUNNING, s.COMPLETED, "it settles with a result"),
        JobTransition(s.RUNNING, s.FAILED, "it ends without its result, or cannot go on"),
        JobTransition(s.RUNNING, s.CANCELLED, "it is cancelled"),
        JobTransition(s.WAITING, s.QUEUED, "what it waited for has come, or someone asks something of it"),
        JobTransition(s.WAITING, s.PAUSED, "someone pauses it while it waits"),
        JobTransition(s.PAUSED, s.QUEUED, "someone resumes it, or asks something else of it"),
        JobTransition(s.PAUSED, s.FAILED, "a job that it needs fails or is cancelled"),
        JobTransition(s.PAUSED, s.CANCELLED, "it is cancelled before its first run"),
        JobTransition(
            s.FAILED, s.QUEUED, "someone retries it, runs one of its steps again, or goes on with a branch of it"
        ),
        JobTransition(s.COMPLETED, s.QUEUED, "someone runs one of its steps again, or goes on with a branch of it"),
    )


JOB_TRANSITIONS = _edges()
_TARGETS = {status: frozenset(t.target for t in JOB_TRANSITIONS if t.source is status) for status in JobStatus}


def check_job_transition(job_id: str, source: JobStatus, target: JobStatus) -> None:
    """Raise IllegalTransitionError, or AlreadyFinishedError for a second end, unless the table has this edge."""
    if target in _TARGETS[source]:
        return
    if source.is_terminal and target.is_terminal:
        raise AlreadyFinishedError(f"job {job_id} is {source} already; a job ends once")
    allowed = ", ".join(sorted(_TARGETS[source])) or "nothing: submit it again"
    raise IllegalTransitionError(f"job {job_id} is {source} and cannot become {target}; from here: {allowed}")
