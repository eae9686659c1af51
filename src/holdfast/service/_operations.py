"""What can be asked of a job, and what that means in each status. One table; nothing else decides it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from holdfast.errors import AlreadyFinishedError, IllegalTransitionError
from holdfast.ports import Job, JobStatus

Operation = Literal["approve", "pause", "resume", "cancel", "retry", "rerun", "answer", "go_on"]
S = JobStatus


class How(Struct, frozen=True):
    """How an operation is carried out."""

    target: JobStatus | None = None
    """the job's new status; None to leave it"""
    is_request: bool = False
    """whether the runner must hear of it"""


def _move(target: JobStatus) -> How:
    return How(target)


ASK = How(None, True)
"""A worker has the job, or soon will."""
QUEUE_AND_ASK = How(S.QUEUED, True)
"""No worker has the job: it goes to the queue, and whoever claims it hears of it."""

OPERATIONS: Mapping[Operation, Mapping[JobStatus, How]] = {
    "approve": {S.AWAITING_APPROVAL: _move(S.QUEUED)},
    "pause": {S.QUEUED: _move(S.PAUSED), S.RUNNING: ASK, S.WAITING: _move(S.PAUSED)},
    "resume": {S.QUEUED: ASK, S.RUNNING: ASK, S.WAITING: QUEUE_AND_ASK, S.PAUSED: QUEUE_AND_ASK},
    "cancel": {
        S.AWAITING_APPROVAL: _move(S.CANCELLED),
        S.QUEUED: ASK,
        S.RUNNING: ASK,
        S.WAITING: QUEUE_AND_ASK,
        S.PAUSED: QUEUE_AND_ASK,
    },
    "retry": {S.FAILED: QUEUE_AND_ASK},
    "rerun": {
        S.QUEUED: ASK,
        S.RUNNING: ASK,
        S.WAITING: QUEUE_AND_ASK,
        S.PAUSED: QUEUE_AND_ASK,
        S.FAILED: QUEUE_AND_ASK,
        S.COMPLETED: QUEUE_AND_ASK,
    },
    "answer": {S.QUEUED: ASK, S.RUNNING: ASK, S.WAITING: QUEUE_AND_ASK},
    "go_on": {S.FAILED: QUEUE_AND_ASK, S.COMPLETED: QUEUE_AND_ASK},
}

UNBEGUN: Mapping[Operation, Mapping[JobStatus, How]] = {
    "resume": {S.PAUSED: _move(S.QUEUED)},
    "cancel": {S.QUEUED: _move(S.CANCELLED), S.PAUSED: _move(S.CANCELLED)},
    "retry": {S.FAILED: _move(S.QUEUED)},
    "rerun": {},
    "answer": {},
}
"""Where it is different for a job that no worker ever had: there is no run that would have to hear of it."""

_ADVICE: Mapping[Operation, str] = {
    "approve": "it was approved already, or needed no approval",
    "pause": "only a job that is queued, running or waiting can be paused",
    "resume": "only a job that is paused or waits can be resumed; a failed one can be retried",
    "cancel": "",
    "retry": "only a failed job can be retried; submit it again for a new run",
    "rerun": "steps of a job that was cancelled, or has not been approved, are not run again: submit it anew",
    "go_on": "only a job that has completed or failed goes on with a branch of it; others are resumed",
    "answer": "a paused job takes answers once it is resumed; one that has ended takes none",
}


def decide(operation: Operation, job: Job) -> How:
    """How an operation is carried out on a job as it is.

    Raises IllegalTransitionError, saying what can be done instead, or AlreadyFinishedError if it is to end and has ended.
    """
    known = OPERATIONS[operation]
    if job.runs == 0 and operation in UNBEGUN and job.status in known:
        known = {S.AWAITING_APPROVAL: known[S.AWAITING_APPROVAL]} if S.AWAITING_APPROVAL in known else {}
        known |= UNBEGUN[operation]
    if (how := known.get(job.status)) is not None:
        return how
    if operation == "cancel":
        raise AlreadyFinishedError(f"job {job.id} is {job.status} already")
    if job.runs == 0 and job.status in OPERATIONS[operation]:
        raise IllegalTransitionError(
            f"job {job.id} is {job.status} and has not run yet: there is nothing to {operation}"
        )
    raise IllegalTransitionError(f"job {job.id} is {job.status}: {_ADVICE[operation]}")
