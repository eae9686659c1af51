"""Jobs: their way through approval, the queue, work and their end."""

# msgspec gives every event its own copy of an empty default

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class JobEvent(BaseEvent):
    """Something happened to a job: every event of this family is one of these."""

    type: ClassVar[str] = "job"

    job_id: str
    from_status: str = ""
    reason: str = ""


class JobAwaitingApprovalEvent(JobEvent):
    """A job was submitted and may not be queued until someone approves it."""

    type: ClassVar[str] = "job_awaiting_approval"

    flow_name: str = ""


class JobQueuedEvent(JobEvent):
    """A job took its place in the queue."""

    type: ClassVar[str] = "job_queued"

    flow_name: str = ""
    priority: int = 0


class JobStartedEvent(JobEvent):
    """A worker claimed a job and began to work on it."""

    type: ClassVar[str] = "job_started"
    opens: ClassVar[ScopeKind | None] = "job"

    flow_name: str = ""
    worker: str = ""
    inputs: dict[str, Any] = {}
    """without those that are secret"""
    called_as: str = ""
    """of a flow inside a step: the run and the call that started it"""
    graph: dict[str, Any] = {}
    """of such a flow: what is needed to take it up again"""
    continues: str = ""
    """of one that begins with a step in its middle: the run whose results it goes on with"""
    progress: dict[str, Any] = {}
    """of one that does: how far that run had come"""


class JobWaitingEvent(JobEvent):
    """A job can do nothing more until something from outside arrives."""

    type: ClassVar[str] = "job_waiting"


class JobPausedEvent(JobEvent):
    """A job starts no more steps until someone resumes it."""

    type: ClassVar[str] = "job_paused"

    step: str = ""
    rule: str = ""


class JobResumedEvent(JobEvent):
    """A waiting or paused job went on."""

    type: ClassVar[str] = "job_resumed"


class JobRecoveredEvent(JobEvent):
    """A job whose worker was lost was taken over."""

    type: ClassVar[str] = "job_recovered"

    lost_worker: str = ""
    worker: str = ""


class JobRetriedEvent(JobEvent):
    """A failed job was sent back to work at the steps that failed."""

    type: ClassVar[str] = "job_retried"

    steps: list[str] = []


class JobLimitExceededEvent(JobEvent):
    """A job used more than one of its limits allows."""

    type: ClassVar[str] = "job_limit_exceeded"

    limit: str
    used: float
    allowed: float


class JobCompletedEvent(JobEvent):
    """A job settled with a result."""

    type: ClassVar[str] = "job_completed"
    closes: ClassVar[ScopeKind | None] = "job"

    outputs: Any = None


class JobFailedEvent(JobEvent):
    """A job ended without its result, for the reason, step and rule given."""

    type: ClassVar[str] = "job_failed"
    closes: ClassVar[ScopeKind | None] = "job"

    step: str = ""
    rule: str = ""
    error: str = ""
    error_type: str = ""


class JobCancelledEvent(JobEvent):
    """A job was ended on request before it settled."""

    type: ClassVar[str] = "job_cancelled"
    closes: ClassVar[ScopeKind | None] = "job"

    cancelled_by: str = ""


class JobArchivedEvent(JobEvent):
    """A finished job was put out of sight."""

    type: ClassVar[str] = "job_archived"
