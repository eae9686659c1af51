"""Steps: each attempt of a node of the graph, whatever kind of program it belongs to."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class StepStartedEvent(BaseEvent):
    """An attempt of a step began."""

    type: ClassVar[str] = "step_started"
    opens: ClassVar[ScopeKind | None] = "step"

    name: str
    attempt: int = 1


class StepCompletedEvent(BaseEvent):
    """An attempt of a step gave this result."""

    type: ClassVar[str] = "step_completed"
    closes: ClassVar[ScopeKind | None] = "step"

    name: str
    attempt: int = 1
    result: Any = None


class StepFailedEvent(BaseEvent):
    """An attempt of a step ended in an error."""

    type: ClassVar[str] = "step_failed"
    closes: ClassVar[ScopeKind | None] = "step"

    name: str
    attempt: int = 1
    error: str
    error_type: str
    error_category: str = ""


class StepCancelledEvent(BaseEvent):
    """An attempt of a step was cancelled, and whatever it still returns is refused."""

    type: ClassVar[str] = "step_cancelled"
    closes: ClassVar[ScopeKind | None] = "step"

    name: str
    attempt: int = 1
    reason: str = ""


class StepSkippedEvent(BaseEvent):
    """A step was left out because it never became ready."""

    type: ClassVar[str] = "step_skipped"

    name: str
    reason: str = ""


class StepWaitingEvent(BaseEvent):
    """A step that has started needs something from outside before it can go on."""

    type: ClassVar[str] = "step_waiting"

    name: str
    reason: str = ""


class StepRetryScheduledEvent(BaseEvent):
    """A failed step will be attempted again after a delay."""

    type: ClassVar[str] = "step_retry_scheduled"

    name: str
    attempt: int
    delay_seconds: float = 0.0
    error: str = ""
    error_type: str = ""


class StepDisownedEvent(BaseEvent):
    """A synchronous step outlived its cancellation, so its run went on without it and left its thread behind."""

    type: ClassVar[str] = "step_disowned"

    name: str
    thread: str
