"""Which events are facts of a graph. Folding these, and nothing else, tells where a run stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.events._base import BaseEvent
from holdfast.events.families.agent import AgentExecutionCompletedEvent, AgentExecutionStartedEvent
from holdfast.events.families.checkpoint import CheckpointRestoredEvent
from holdfast.events.families.crew import CrewKickoffCompletedEvent, CrewKickoffStartedEvent
from holdfast.events.families.flow import (
    FlowFinishedEvent,
    FlowStartedEvent,
    MethodExecutionCancelledEvent,
    MethodExecutionFailedEvent,
    MethodExecutionFinishedEvent,
    MethodExecutionPausedEvent,
    MethodExecutionStartedEvent,
)
from holdfast.events.families.job import JobCompletedEvent, JobPausedEvent, JobResumedEvent, JobStartedEvent
from holdfast.events.families.llm import (
    LLMCallCancelledEvent,
    LLMCallCompletedEvent,
    LLMCallFailedEvent,
    LLMCallPausedEvent,
    LLMCallStartedEvent,
)
from holdfast.events.families.step import (
    StepCancelledEvent,
    StepCompletedEvent,
    StepFailedEvent,
    StepRerunRequestedEvent,
    StepSkippedEvent,
    StepStartedEvent,
    StepWaitingEvent,
)
from holdfast.events.families.task import (
    TaskCancelledEvent,
    TaskCompletedEvent,
    TaskFailedEvent,
    TaskPausedEvent,
    TaskSkippedEvent,
    TaskStartedEvent,
)
from holdfast.events.families.tool import (
    ToolUsageCancelledEvent,
    ToolUsageErrorEvent,
    ToolUsageFinishedEvent,
    ToolUsagePausedEvent,
    ToolUsageStartedEvent,
)
from holdfast.graph import (
    Began,
    Cancelled,
    Completed,
    Fact,
    Failed,
    Paused,
    Rerun,
    Resumed,
    Skipped,
    Started,
    Verdict,
    Waiting,
)

Opener = FlowStartedEvent | CrewKickoffStartedEvent | AgentExecutionStartedEvent | JobStartedEvent
"""Events that tell of the beginning of a run with a graph."""
Finisher = FlowFinishedEvent | CrewKickoffCompletedEvent | AgentExecutionCompletedEvent | JobCompletedEvent

STARTED = (
    MethodExecutionStartedEvent, TaskStartedEvent, LLMCallStartedEvent, ToolUsageStartedEvent, StepStartedEvent,
)  # fmt: skip
"""Events that tell of the start of a step."""
_RESULTS: dict[type[BaseEvent], Callable[[Any], Any]] = {
    MethodExecutionFinishedEvent: lambda event: event.result,
    TaskCompletedEvent: lambda event: event.output,
    TaskSkippedEvent: lambda event: event.output,
    LLMCallCompletedEvent: lambda event: event.response,
    ToolUsageFinishedEvent: lambda event: _said(event, event.text, is_error=False),
    ToolUsageErrorEvent: lambda event: _said(event, event.error, is_error=True),
    StepCompletedEvent: lambda event: event.result,
    StepFailedEvent: lambda event: failed_outputs(event.error, event.error_type, event.error_category),
}
COMPLETED = tuple(event_type for event_type in _RESULTS if event_type is not StepFailedEvent)
"""Events that tell of a step's result. What a tool did wrong is a result too: the model reads it and goes on."""
STEP_EVENTS: tuple[type[BaseEvent], ...] = (*STARTED, *COMPLETED)
_FAILED = (MethodExecutionFailedEvent, TaskFailedEvent, LLMCallFailedEvent, StepFailedEvent)
_CANCELLED = (
    MethodExecutionCancelledEvent, TaskCancelledEvent, LLMCallCancelledEvent, ToolUsageCancelledEvent, StepCancelledEvent,
)  # fmt: skip
_PAUSED = (
    MethodExecutionPausedEvent, TaskPausedEvent, LLMCallPausedEvent, ToolUsagePausedEvent, StepWaitingEvent,
)  # fmt: skip


def _said(event: Any, text: str, *, is_error: bool) -> dict[str, Any]:
    return {"role": "tool", "call_id": event.call_id, "name": event.tool_name, "text": text, "is_error": is_error}


def failed_outputs(error: str, error_type: str, category: str) -> dict[str, Any]:
    """What a step that failed gives those who take something from it all the same."""
    return {"_error": {"message": error, "type": error_type, "category": category}}


def result_of(event: BaseEvent) -> Any:
    """The result that one of `COMPLETED` tells of, plain; or what a failed step of a job leaves."""
    return _RESULTS[type(event)](event)


def step_key(event: Any) -> tuple[str, int]:
    """The step that an event tells of, and which execution; no name if the event belongs to no graph."""
    name: str = event.method_name if hasattr(event, "method_name") else event.step
    return name, event.execution


def _completed(event: Any) -> Fact:
    route, items = getattr(event, "route", None), getattr(event, "items", None)
    return Completed(*step_key(event), route, items, _verdict(event))


def _failed(event: Any) -> Fact:
    return Failed(*step_key(event), f"{event.error_type}: {event.error}", _verdict(event))


def _verdict(event: Any) -> Verdict | None:
    told = getattr(event, "verdict", None)
    return msgspec.convert(told, Verdict) if told else None


def _waiting(event: Any) -> Fact:
    return Waiting(*step_key(event), getattr(event, "until_us", None), getattr(event, "since_us", None))


def _started(event: Any) -> Fact:
    if not isinstance(event, StepStartedEvent):
        return Started(*step_key(event))
    return Started(event.step, event.execution, tuple(event.uses), event.tries, event.fallback)


_FACTS: dict[type[BaseEvent], Callable[[Any], Fact]] = {
    **dict.fromkeys(STARTED, _started),
    **dict.fromkeys(COMPLETED, _completed),
    **dict.fromkeys(_FAILED, _failed),
    **dict.fromkeys(_CANCELLED, lambda event: Cancelled(*step_key(event))),
    **dict.fromkeys(_PAUSED, _waiting),
}
_BEGAN = Opener | CheckpointRestoredEvent
_REQUESTS: dict[type[BaseEvent], Callable[[Any], Fact | None]] = {
    StepSkippedEvent: lambda event: Skipped(event.step) if event.step else None,
    StepRerunRequestedEvent: lambda event: Rerun(event.step, event.inside),
    JobPausedEvent: lambda event: (
        None if event.step else Paused(event.reason)
    ),  # a rule's pause is in its step's verdict
    JobResumedEvent: lambda event: Resumed(),
}


def fact_of(event: BaseEvent) -> Fact | None:
    """The fact that an event tells of; None for one that changes nothing in its graph."""
    if (tell := _FACTS.get(type(event))) is not None:
        return tell(event) if step_key(event)[0] else None
    if (request := _REQUESTS.get(type(event))) is not None:
        return request(event)
    return Began() if isinstance(event, _BEGAN) else None
