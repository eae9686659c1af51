"""Which events are facts of a graph. Folding these, and nothing else, tells where a run stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from holdfast.events.families.llm import (
    LLMCallCancelledEvent,
    LLMCallCompletedEvent,
    LLMCallFailedEvent,
    LLMCallPausedEvent,
    LLMCallStartedEvent,
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
from holdfast.graph import Began, Cancelled, Completed, Fact, Failed, Started, Waiting

Opener = FlowStartedEvent | CrewKickoffStartedEvent | AgentExecutionStartedEvent
"""Events that tell of the beginning of a run with a graph."""
Finisher = FlowFinishedEvent | CrewKickoffCompletedEvent | AgentExecutionCompletedEvent

STARTED = (MethodExecutionStartedEvent, TaskStartedEvent, LLMCallStartedEvent, ToolUsageStartedEvent)
"""Events that tell of the start of a step."""
_RESULTS: dict[type[BaseEvent], Callable[[Any], Any]] = {
    MethodExecutionFinishedEvent: lambda event: event.result,
    TaskCompletedEvent: lambda event: event.output,
    TaskSkippedEvent: lambda event: event.output,
    LLMCallCompletedEvent: lambda event: event.response,
    ToolUsageFinishedEvent: lambda event: _said(event, event.text, is_error=False),
    ToolUsageErrorEvent: lambda event: _said(event, event.error, is_error=True),
}
COMPLETED = tuple(_RESULTS)
"""Events that tell of a step's result. What a tool did wrong is a result too: the model reads it and goes on."""
STEP_EVENTS: tuple[type[BaseEvent], ...] = (*STARTED, *COMPLETED)
_FAILED = (MethodExecutionFailedEvent, TaskFailedEvent, LLMCallFailedEvent)
_CANCELLED = (
    MethodExecutionCancelledEvent, TaskCancelledEvent, LLMCallCancelledEvent, ToolUsageCancelledEvent,
)  # fmt: skip
_PAUSED = (MethodExecutionPausedEvent, TaskPausedEvent, LLMCallPausedEvent, ToolUsagePausedEvent)


def _said(event: Any, text: str, *, is_error: bool) -> dict[str, Any]:
    return {"role": "tool", "call_id": event.call_id, "name": event.tool_name, "text": text, "is_error": is_error}


def result_of(event: BaseEvent) -> Any:
    """The result that one of `COMPLETED` tells of, plain."""
    return _RESULTS[type(event)](event)


def step_key(event: Any) -> tuple[str, int]:
    """The step that an event tells of, and which execution; no name if the event belongs to no graph."""
    name: str = event.method_name if hasattr(event, "method_name") else event.step
    return name, event.execution


def _completed(event: Any) -> Fact:
    return Completed(*step_key(event), getattr(event, "route", None), getattr(event, "items", None))


def _failed(event: Any) -> Fact:
    return Failed(*step_key(event), f"{event.error_type}: {event.error}")


_FACTS: dict[type[BaseEvent], Callable[[Any], Fact]] = {
    **dict.fromkeys(STARTED, lambda event: Started(*step_key(event))),
    **dict.fromkeys(COMPLETED, _completed),
    **dict.fromkeys(_FAILED, _failed),
    **dict.fromkeys(_CANCELLED, lambda event: Cancelled(*step_key(event))),
    **dict.fromkeys(_PAUSED, lambda event: Waiting(*step_key(event))),
}
_BEGAN = Opener | CheckpointRestoredEvent


def fact_of(event: BaseEvent) -> Fact | None:
    """The fact that an event tells of; None for one that changes nothing in its graph."""
    if (tell := _FACTS.get(type(event))) is not None:
        return tell(event) if step_key(event)[0] else None
    return Began() if isinstance(event, _BEGAN) else None
