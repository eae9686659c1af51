"""The steps of a job, as its journal has them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.checkpoints import locate
from holdfast.checkpoints._blobs import BlobReader
from holdfast.events.families.job import JobStartedEvent
from holdfast.events.families.step import (
    StepCancelledEvent,
    StepCompletedEvent,
    StepFailedEvent,
    StepSkippedEvent,
    StepStartedEvent,
    StepWaitingEvent,
)
from holdfast.flowfiles import FlowFile
from holdfast.ports import Job, JournalStore, Row, StepInfo

_STATUSES: dict[str, Any] = {
    StepStartedEvent.type: "running",
    StepCompletedEvent.type: "completed",
    StepFailedEvent.type: "failed",
    StepCancelledEvent.type: "cancelled",
    StepWaitingEvent.type: "waiting",
    StepSkippedEvent.type: "skipped",
}

_OPEN = ("running", "waiting")


async def list_steps(store: JournalStore, job: Job, flow: FlowFile) -> list[StepInfo]:
    """Every step that has a line in the journal, in the order of their first, then those of the flow that have none."""
    found: dict[str, StepInfo] = {}
    if await store.run(job.id) is not None:
        found = await _read(store, job.id)
    if job.status.is_terminal:  # its end may not have fitted on the disk
        found = {path: _cut_off(info, "its job ended") for path, info in found.items()}
    found = {path: _below(found, path, info) for path, info in found.items()}
    kinds = {step.name: step.kind for step in flow.steps}
    listed = [replace(info, executor=kinds.get(path, info.executor)) for path, info in found.items()]
    return [*listed, *(StepInfo(name, "pending", kind) for name, kind in kinds.items() if name not in found)]


async def _read(store: JournalStore, job_id: str) -> dict[str, StepInfo]:
    place = await locate(store, job_id)
    blobs = BlobReader(store.blob)
    places: dict[str, str] = {job_id: ""}
    found: dict[str, StepInfo] = {}
    async for row in store.read(job_id, branch=place.branch):
        if row.type == JobStartedEvent.type and row.run_id not in places:
            enter_place(places, row.run_id, msgspec.json.decode(row.payload).get("called_as", ""))
        elif row.type in _STATUSES and row.run_id in places:
            told = msgspec.json.decode((await blobs.resolve_row(row)).payload)
            if told.get("step"):
                path = places[row.run_id] + told["step"]
                found[path] = _noted(found.get(path), path, row, told)
    return found


def _below(found: dict[str, StepInfo], path: str, info: StepInfo) -> StepInfo:
    """A step inside one that does not run does not run either: its process may have ended without a word."""
    parts = path.split("/")
    around = [found[above] for n in range(1, len(parts)) if (above := "/".join(parts[:n])) in found]
    if all(outer.status in _OPEN for outer in around):
        return info
    return _cut_off(info, "the step around it ended")


def _cut_off(info: StepInfo, reason: str) -> StepInfo:
    return replace(info, status="cancelled", reason=reason) if info.status in _OPEN else info


def enter_place(places: dict[str, str], run_id: str, called_as: str) -> None:
    """A flow inside a step: its steps are named after that, and after the item where there are several."""
    parent, _, call = called_as.partition(" ")
    step = call.partition("#")[0]
    item = call.rpartition(".")[2] if "." in call.rpartition("/")[2] else ""
    places[run_id] = f"{places.get(parent, '')}{step}/" + (f"{item}/" if item else "")


def _noted(before: StepInfo | None, path: str, row: Row, told: dict[str, Any]) -> StepInfo:
    status = _STATUSES[row.type]
    known = before or StepInfo(path, "pending")
    if status == "running":
        return replace(known, status=status, attempt=told["execution"], started_us=row.at_us, ended_us=None, reason="")
    reason = told.get("error") or told.get("reason") or ""
    outputs = told.get("result") if status == "completed" else known.outputs
    ended = row.at_us if status in ("completed", "failed", "cancelled") else None
    return replace(known, status=status, reason=reason, outputs=outputs, ended_us=ended)
