"""A job's live output, as lines for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from holdfast.events import EventBus
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
from holdfast.jobs._masking import StreamMask, masked
from holdfast.ports import JobControl, LogLine

_STEPS: dict[type[BaseEvent], str] = {
    StepStartedEvent: "started",
    StepCompletedEvent: "completed",
    StepFailedEvent: "failed",
    StepSkippedEvent: "skipped",
    StepWaitingEvent: "waiting",
}

_PIECES = frozenset({"stdout", "stderr", "text", "thinking"})
"""Channels whose lines are pieces of one text."""


class JobLogs:
    """Tells the controls of running jobs what their steps write and do: one set of handlers for all jobs of an engine.

    Handlers for each job would have the bus plan its deliveries anew, for every run it has, with every job that begins.
    """

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._jobs: dict[str, _Listener] = {}
        """By root run."""
        self._handlers: dict[type[BaseEvent], Callable[..., None]] = {
            JobStartedEvent: self._started,
            StepOutputChunkEvent: self._output,
            LLMStreamChunkEvent: self._text,
            LLMThinkingChunkEvent: self._text,
            **dict.fromkeys(_STEPS, self._step),
        }
        self._is_listening = False

    @contextmanager
    def passed_on(self, job_id: str, control: JobControl, secrets: tuple[str, ...] = ()) -> Iterator[None]:
        """Have a job's control told, until it ends; of its secrets nothing."""
        if not self._is_listening:
            self._is_listening = True
            for event_type, handler in self._handlers.items():
                self._bus.register_handler(event_type, handler)
        self._jobs[job_id] = _Listener(job_id, control, secrets)
        try:
            yield
        finally:
            del self._jobs[job_id]

    def close(self) -> None:
        """Listen no more. Twice is fine."""
        if self._is_listening:
            self._is_listening = False
            for event_type, handler in self._handlers.items():
                self._bus.off(event_type, handler)

    def _started(self, source: Any, event: JobStartedEvent) -> None:
        job = self._jobs.get(event.root_run_id or "")
        if job is not None and event.called_as:
            enter_place(job.places, event.run_id or "", event.called_as)

    def _output(self, source: Any, event: StepOutputChunkEvent) -> None:
        self._tell(event, event.name, event.stream, event.chunk, event.attempt)

    def _text(self, source: Any, event: Any) -> None:
        channel = "text" if isinstance(event, LLMStreamChunkEvent) else "thinking"
        self._tell(event, event.task_name or "", channel, event.chunk)

    def _step(self, source: Any, event: Any) -> None:
        if event.step:
            said = getattr(event, "error", "") or getattr(event, "reason", "")
            line = _STEPS[type(event)] + (f": {said}" if said else "")
            channel = "human" if isinstance(event, StepWaitingEvent) else "step"
            self._tell(event, event.name, channel, line, getattr(event, "attempt", 1))

    def _tell(self, event: BaseEvent, step: str, channel: Any, text: str, attempt: int = 1) -> None:
        job = self._jobs.get(event.root_run_id or "")
        if job is not None:
            job.tell(LogLine(event.at_us, job.places.get(event.run_id or "", "") + step, channel, text, attempt))


class _Listener:
    """Who is told of a job, and where in it each of its runs stands."""

    def __init__(self, job_id: str, control: JobControl, secrets: tuple[str, ...]) -> None:
        self.places = {job_id: ""}
        self._control, self._secrets = control, secrets
        self._masks: dict[tuple[str, str], StreamMask] = {}

    def tell(self, line: LogLine) -> None:
        if not self._secrets:
            self._control.log(line)
        elif line.channel in _PIECES:
            mask = self._masks.setdefault((line.step, line.channel), StreamMask(self._secrets))
            self._pass_on(line, mask.feed(line.text))
        else:
            for place in [place for place in self._masks if place[0] == line.step]:
                self._pass_on(replace(line, channel=place[1]), self._masks.pop(place).close())
            self._pass_on(line, masked(line.text, self._secrets))

    def _pass_on(self, line: LogLine, text: str) -> None:
        if text:
            self._control.log(replace(line, text=text))
