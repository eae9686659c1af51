"""Steps: each attempt of a node of the graph, whatever kind of program it belongs to."""

# msgspec gives every event its own copy of an empty default

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class StepStartedEvent(BaseEvent):
    """An attempt of a step began."""

    type: ClassVar[str] = "step_started"
    opens: ClassVar[ScopeKind | None] = "step"

    name: str
    attempt: int = 1
    step: str = ""
    """in the graph; empty for a call that belongs to none"""
    execution: int = 0
    """which execution of it"""
    uses: list[str] = []
    """the executions whose results it was given, one for each of its needs"""
    tries: int = 0
    """how often this execution failed before and was tried again"""
    fallback: bool = False
    """whether it is what runs in place of the step"""


class StepCompletedEvent(BaseEvent):
    """An attempt of a step gave this result."""

    type: ClassVar[str] = "step_completed"
    closes: ClassVar[ScopeKind | None] = "step"

    name: str
    attempt: int = 1
    result: Any = None
    step: str = ""
    execution: int = 0
    verdict: dict[str, Any] = {}
    """what follows from it: the action, and the rule that says so"""


class StepFailedEvent(BaseEvent):
    """An attempt of a step ended in an error."""

    type: ClassVar[str] = "step_failed"
    closes: ClassVar[ScopeKind | None] = "step"

    name: str
    attempt: int = 1
    error: str
    error_type: str
    error_category: str = ""
    step: str = ""
    execution: int = 0
    verdict: dict[str, Any] = {}
    """what follows from it: the action, and the rule that says so"""


class StepCancelledEvent(BaseEvent):
    """An attempt of a step was cancelled, and whatever it still returns is refused."""

    type: ClassVar[str] = "step_cancelled"
    closes: ClassVar[ScopeKind | None] = "step"

    name: str
    attempt: int = 1
    reason: str = ""
    step: str = ""
    execution: int = 0


class StepSkippedEvent(BaseEvent):
    """A step was left out because it never became ready."""

    type: ClassVar[str] = "step_skipped"

    name: str
    reason: str = ""
    step: str = ""


class StepWaitingEvent(BaseEvent):
    """A step that has started needs something from outside before it can go on."""

    type: ClassVar[str] = "step_waiting"
    closes: ClassVar[ScopeKind | None] = "step"

    name: str
    reason: str = ""
    step: str = ""
    execution: int = 0
    ask: dict[str, Any] = {}
    """what it asks for: the id, the message and the form; empty if it only waits for a time"""
    until_us: int | None = None
    """when it goes on by itself; None for never"""
    since_us: int | None = None


class StepRerunRequestedEvent(BaseEvent):
    """Someone wants a step to run again, with all that depends on it."""

    type: ClassVar[str] = "step_rerun_requested"

    name: str
    step: str = ""
    inside: str = ""
    """of a step that is made of steps: the one to begin with; empty for all of it"""
    requested_by: str = ""


class StepOutputChunkEvent(BaseEvent):
    """A piece of what a step's process wrote, as it was written."""

    type: ClassVar[str] = "step_output_chunk"
    durable: ClassVar[bool] = False

    name: str
    stream: str = "stderr"
    chunk: str
    attempt: int = 1


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
