"""Jobs as people see them: submitted, queued, claimed, asked things of, recovered. Nothing else changes a job's status."""

from __future__ import annotations

from holdfast.service._logs import LogFolder, LogFollower
from holdfast.service._lost import lose_dead
from holdfast.service._operations import OPERATIONS, UNBEGUN, How, Operation
from holdfast.service._service import JobService, Submission, is_settled
from holdfast.service._worker import Worker, WorkerOptions

__all__ = [
    "OPERATIONS",
    "UNBEGUN",
    "How",
    "JobService",
    "LogFolder",
    "LogFollower",
    "Operation",
    "Submission",
    "Worker",
    "WorkerOptions",
    "is_settled",
    "lose_dead",
]
