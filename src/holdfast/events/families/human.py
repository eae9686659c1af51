"""People: what a run asks of them and what they answer."""

# msgspec gives every event its own copy of an empty default

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class HumanFeedbackRequestedEvent(BaseEvent):
    """The output of a flow's method was put before a person for feedback."""

    type: ClassVar[str] = "human_feedback_requested"
    opens: ClassVar[ScopeKind | None] = "human"

    request_id: str = ""
    flow_name: str = ""
    method_name: str = ""
    message: str = ""
    output: Any = None
    emit: list[str] = []
    expires_us: int | None = None


class HumanFeedbackReceivedEvent(BaseEvent):
    """A person gave feedback on the output of a flow's method."""

    type: ClassVar[str] = "human_feedback_received"
    closes: ClassVar[ScopeKind | None] = "human"

    request_id: str = ""
    flow_name: str = ""
    method_name: str = ""
    feedback: str = ""
    outcome: str | None = None


class HumanInputRequestedEvent(BaseEvent):
    """A step, a task or an agent needs an answer from outside: an input, an approval, a permission or a secret."""

    type: ClassVar[str] = "human_input_requested"
    opens: ClassVar[ScopeKind | None] = "human"

    request_id: str = ""
    kind: str = "input"
    message: str = ""
    fields: dict[str, Any] = {}


class HumanInputReceivedEvent(BaseEvent):
    """An answer from outside was accepted."""

    type: ClassVar[str] = "human_input_received"
    closes: ClassVar[ScopeKind | None] = "human"

    request_id: str = ""
    values: Any = None
    answered_by: str = ""


class HumanRequestTimedOutEvent(BaseEvent):
    """Nobody answered a request in the time it was given."""

    type: ClassVar[str] = "human_request_timed_out"
    closes: ClassVar[ScopeKind | None] = "human"

    request_id: str = ""
    timeout_seconds: float | None = None


class HumanRequestCancelledEvent(BaseEvent):
    """A request was withdrawn because its run no longer needs an answer."""

    type: ClassVar[str] = "human_request_cancelled"
    closes: ClassVar[ScopeKind | None] = "human"

    request_id: str = ""
    reason: str = ""
