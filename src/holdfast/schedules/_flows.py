"""The jobs that a schedule fires, made of a flow of the project as it is at that moment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.errors import UsageError
from holdfast.flowfiles import FlowFile, find_flow, load_flow, resolve_variables
from holdfast.jobs import define, uses_of
from holdfast.ports import SCHEDULE_LABEL, Job, JobStatus, Schedule
from holdfast.serde import decode, encode


def load_scheduled(project: Path, reference: str) -> FlowFile:
    """A flow of the project. Raises UsageError if there is none, or it lies outside, FlowFileError if it cannot be used."""
    found = find_flow(reference, project)
    if found is None or not found.resolve().is_relative_to(project.resolve()):
        raise UsageError(f"the project has no flow {reference!r:.200}; schedules are for flows inside of it")
    return load_flow(found, project)


def check_inputs(flow: FlowFile, given: Mapping[str, Any]) -> None:
    """Raise FlowInputError for what is no input of a flow, does not fit or is secret; what is missing may come later."""
    inputs, config = (tuple(replace(one, required=False) for one in group) for group in (flow.inputs, flow.config))
    resolve_variables(replace(flow, inputs=inputs, config=config), given)


def make_job(schedule: Schedule, project: Path, job_id: str, given: Mapping[str, Any], now_us: int) -> Job:
    """A job of a schedule. Raises UsageError, FlowFileError or FlowInputError if its flow or inputs cannot be used."""
    flow = load_scheduled(project, schedule.flow)
    values = resolve_variables(flow, {**decode(schedule.inputs), **given}).values
    return Job(
        id=job_id,
        flow=flow.name,
        status=JobStatus.QUEUED,
        created_us=now_us,
        definition=define(flow, project),
        inputs=encode(values),
        labels={**schedule.labels, SCHEDULE_LABEL: schedule.name},
        uses=uses_of(flow),
        reason=f"fired by schedule {schedule.name}",
    )
