"""Which events are facts of a graph. Folding these, and nothing else, tells where a run stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.events._base import BaseEvent
from holdfast.events.families.checkpoint import CheckpointRestoredEvent
from holdfast.events.families.flow import (
    FlowStartedEvent,
    MethodExecutionCancelledEvent,
    MethodExecutionFailedEvent,
    MethodExecutionFinishedEvent,
    MethodExecutionPausedEvent,
    MethodExecutionStartedEvent,
)
from holdfast.graph import Began, Cancelled, Completed, Fact, Failed, Started, Waiting

_FACTS: dict[type[BaseEvent], Callable[[Any], Fact]] = {
    FlowStartedEvent: lambda event: Began(),
    CheckpointRestoredEvent: lambda event: Began(),
    MethodExecutionStartedEvent: lambda event: Started(event.method_name, event.execution),
    MethodExecutionFinishedEvent: lambda event: Completed(event.method_name, event.execution, event.route, event.items),
    MethodExecutionFailedEvent: lambda event: Failed(
        event.method_name, event.execution, f"{event.error_type}: {event.error}"
    ),
    MethodExecutionCancelledEvent: lambda event: Cancelled(event.method_name, event.execution),
    MethodExecutionPausedEvent: lambda event: Waiting(event.method_name, event.execution),
}


def fact_of(event: BaseEvent) -> Fact | None:
    """The fact that an event tells of; None for one that changes nothing in its graph."""
    tell = _FACTS.get(type(event))
    return tell(event) if tell is not None else None
