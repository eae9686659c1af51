"""A job's live output, as lines for people."""

from __future__ import annotations

from typing import Any

from holdfast.events._base import BaseEvent
from holdfast.events.families.job import JobStartedEvent
from holdfast.events.families.llm import LLMStreamChunkEvent, LLMThinkingChunkEvent
from holdfast.events.families.step import (
    StepCompletedEvent,
    StepFailedEvent,
    StepOutputChunkEvent,
    StepSkippedEvent,
    StepStartedEvent,
    StepWaitingEvent,
)
from holdfast.jobs._listing import enter_place
from holdfast.ports import JobControl, LogLine
from holdfast.runs import Run

_STEPS: dict[type[BaseEvent], str] = {
    StepStartedEvent: "started",
    StepCompletedEvent: "completed",
    StepFailedEvent: "failed",
    StepSkippedEvent: "skipped",
    StepWaitingEvent: "waiting",
}


def pass_on_logs(run: Run, control: JobControl, job_id: str) -> None:
    """Have a job's control told what its steps write and do, until it ends."""
    places = {job_id: ""}

    def path(event: BaseEvent, step: str) -> str:
        return places.get(event.run_id or "", "") + step

    @run.on(JobStartedEvent)
    def started(source: Any, event: JobStartedEvent) -> None:
        if event.called_as:
            enter_place(places, event.run_id or "", event.called_as)

    @run.on(StepOutputChunkEvent)
    def output(source: Any, event: StepOutputChunkEvent) -> None:
        channel: Any = event.stream
        control.log(LogLine(event.at_us, path(event, event.name), channel, event.chunk, event.attempt))

    @run.on(LLMStreamChunkEvent, LLMThinkingChunkEvent)
    def text(source: Any, event: Any) -> None:
        channel: Any = "text" if isinstance(event, LLMStreamChunkEvent) else "thinking"
        control.log(LogLine(event.at_us, path(event, event.task_name or ""), channel, event.chunk))

    @run.on(*_STEPS)
    def step(source: Any, event: Any) -> None:
        if event.step:
            said = getattr(event, "error", "") or getattr(event, "reason", "")
            line = _STEPS[type(event)] + (f": {said}" if said else "")
            channel: Any = "human" if isinstance(event, StepWaitingEvent) else "step"
            control.log(LogLine(event.at_us, path(event, event.name), channel, line, getattr(event, "attempt", 1)))
