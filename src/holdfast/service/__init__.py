"""Jobs as people see them: submitted, queued, claimed, asked things of, recovered. Nothing else changes a job's status.

Imported on first use, so that a command that only looks pays for nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.service._answers import field_of as field_of
    from holdfast.service._answers import give_answer as give_answer
    from holdfast.service._answers import sample as sample
    from holdfast.service._away import leave_alone as leave_alone
    from holdfast.service._detached import ensure_worker as ensure_worker
    from holdfast.service._detached import is_served as is_served
    from holdfast.service._detached import start_detached as start_detached
    from holdfast.service._logs import LogFolder as LogFolder
    from holdfast.service._logs import LogFollower as LogFollower
    from holdfast.service._lost import lose_dead as lose_dead
    from holdfast.service._noticing import Noticing as Noticing
    from holdfast.service._operations import OPERATIONS as OPERATIONS
    from holdfast.service._operations import UNBEGUN as UNBEGUN
    from holdfast.service._operations import How as How
    from holdfast.service._operations import Operation as Operation
    from holdfast.service._service import JobService as JobService
    from holdfast.service._service import Submission as Submission
    from holdfast.service._service import is_settled as is_settled
    from holdfast.service._settings import SETTINGS_FILE as SETTINGS_FILE
    from holdfast.service._settings import read_settings as read_settings
    from holdfast.service._settings import with_flags as with_flags
    from holdfast.service._settings import write_settings as write_settings
    from holdfast.service._tuning import Tuning as Tuning
    from holdfast.service._tuning import following as following
    from holdfast.service._worker import Worker as Worker
    from holdfast.service._worker import WorkerOptions as WorkerOptions

_WHERE = {
    "How": "_operations",
    "JobService": "_service",
    "LogFolder": "_logs",
    "LogFollower": "_logs",
    "Noticing": "_noticing",
    "OPERATIONS": "_operations",
    "Operation": "_operations",
    "SETTINGS_FILE": "_settings",
    "Submission": "_service",
    "Tuning": "_tuning",
    "UNBEGUN": "_operations",
    "Worker": "_worker",
    "WorkerOptions": "_worker",
    "ensure_worker": "_detached",
    "field_of": "_answers",
    "following": "_tuning",
    "give_answer": "_answers",
    "is_served": "_detached",
    "is_settled": "_service",
    "leave_alone": "_away",
    "lose_dead": "_lost",
    "read_settings": "_settings",
    "sample": "_answers",
    "start_detached": "_detached",
    "with_flags": "_settings",
    "write_settings": "_settings",
}

__all__ = [
    "OPERATIONS",
    "SETTINGS_FILE",
    "UNBEGUN",
    "How",
    "JobService",
    "LogFolder",
    "LogFollower",
    "Noticing",
    "Operation",
    "Submission",
    "Tuning",
    "Worker",
    "WorkerOptions",
    "ensure_worker",
    "field_of",
    "following",
    "give_answer",
    "is_served",
    "is_settled",
    "leave_alone",
    "lose_dead",
    "read_settings",
    "sample",
    "start_detached",
    "with_flags",
    "write_settings",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.service' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.service.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
