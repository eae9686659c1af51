"""What the API shows of jobs, runs and checkpoints: plain, documented, and free of what is nobody's business."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.ports import Ask, Job, JobChange, JobStatus, LogLine, Row, RunInfo, StepInfo

_EPOCH = datetime.fromtimestamp(0, UTC)


def moment(at_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at_us)


def _moment(at_us: int | None) -> datetime | None:
    return None if at_us is None else moment(at_us)


class AskView(Struct, frozen=True):
    """What a step waits for."""

    id: str
    step: str
    message: str
    fields: dict[str, Any]
    """the form: by name, what each value must be"""
    expires: datetime | None


class JobView(Struct, frozen=True):
    """A job."""

    id: str
    flow: str
    name: str
    status: JobStatus
    reason: str
    """why it has its status"""
    labels: dict[str, str]
    priority: int
    needs: list[str]
    """jobs that must complete before it may run"""
    asks: list[AskView]
    """what it waits for"""
    inputs: Any
    worker: str
    claims: int
    """how often a worker took it up"""
    archived: bool
    created: datetime
    updated: datetime
    started: datetime | None
    ended: datetime | None
    wakes: datetime | None
    """when a waiting job goes on by itself"""


class StepView(Struct, frozen=True):
    """A step of a job."""

    path: str
    status: str
    executor: str
    attempt: int
    reason: str
    started: datetime | None
    ended: datetime | None
    outputs: Any


class ChangeView(Struct, frozen=True):
    """A change of a job's status."""

    seq: int
    job_id: str
    source: JobStatus | None
    target: JobStatus
    reason: str
    by: str
    at: datetime


class LogView(Struct, frozen=True):
    """A piece of a step's live output."""

    step: str
    channel: str
    text: str
    attempt: int
    at: datetime


class EventView(Struct, frozen=True):
    """An event as the journal has it."""

    seq: int
    type: str
    id: str
    run_id: str
    at: datetime
    data: Any
    """large values stand as `{"$blob": hash}` in streams, and whole in lists"""
    parent_id: str | None
    """the event that opened what this one happened in"""
    started_id: str | None
    """the event that this one closes"""
    triggered_by: str | None
    source_type: str | None
    source_name: str | None
    task_name: str | None
    agent_role: str | None


class RunView(Struct, frozen=True):
    """A root run that is written down, or lives in this process."""

    id: str
    kind: str
    name: str
    status: str
    incarnation: int
    is_live: bool
    """whether it goes on in this process"""
    created: datetime | None
    updated: datetime | None


def job_view(job: Job) -> JobView:
    return JobView(
        id=job.id, flow=job.flow, name=job.name, status=job.status, reason=job.reason, labels=job.labels,
        priority=job.priority, needs=[*job.needs], asks=[ask_view(ask) for ask in job.asks],
        inputs=msgspec.json.decode(job.inputs), worker=job.worker, claims=job.runs, archived=job.archived,
        created=moment(job.created_us), updated=moment(job.updated_us or job.created_us),
        started=_moment(job.started_us), ended=_moment(job.ended_us), wakes=_moment(job.wake_us),
    )  # fmt: skip


def ask_view(ask: Ask) -> AskView:
    return AskView(ask.id, ask.step, ask.message, ask.fields, _moment(ask.expires_us))


def step_view(step: StepInfo) -> StepView:
    return StepView(
        step.path, step.status, step.executor, step.attempt, step.reason, _moment(step.started_us),
        _moment(step.ended_us), step.outputs,
    )  # fmt: skip


def change_view(change: JobChange) -> ChangeView:
    return ChangeView(
        change.seq, change.job_id, change.source, change.target, change.reason, change.by, moment(change.at_us)
    )


def log_view(line: LogLine) -> LogView:
    return LogView(line.step, line.channel, line.text, line.attempt, moment(line.at_us))


def event_view(row: Row) -> EventView:
    return EventView(
        row.seq, row.type, row.event_id, row.run_id, moment(row.at_us), msgspec.Raw(row.payload),
        row.parent_event_id, row.started_event_id, row.triggered_by_event_id,
        row.origin.source_type, row.origin.source_name, row.origin.task_name, row.origin.agent_role,
    )  # fmt: skip


def run_view(info: RunInfo, *, is_live: bool) -> RunView:
    return RunView(
        info.root_run_id, info.kind, info.name, info.status, info.incarnation, is_live,
        moment(info.created_us), moment(info.updated_us),
    )  # fmt: skip
