"""Flows and their methods: creation, execution, pauses and questions asked with `ask`."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class FlowCreatedEvent(BaseEvent):
    """A flow object was built."""

    type: ClassVar[str] = "flow_created"

    flow_name: str


class FlowStartedEvent(BaseEvent):
    """A flow began to execute with these inputs."""

    type: ClassVar[str] = "flow_started"
    opens: ClassVar[ScopeKind | None] = "flow"

    flow_name: str
    inputs: dict[str, Any] = {}
    called_as: str = ""
    """of a flow inside a run that is written down: which call of which step started it"""
    graph: dict[str, Any] = {}
    """its graph, then"""


class FlowPausedEvent(BaseEvent):
    """A flow stopped to wait for a person's feedback on one of its methods."""

    type: ClassVar[str] = "flow_paused"

    flow_name: str
    method_name: str = ""
    message: str = ""
    emit: list[str] = []


class FlowFinishedEvent(BaseEvent):
    """A flow executed to its end and gave this result."""

    type: ClassVar[str] = "flow_finished"
    closes: ClassVar[ScopeKind | None] = "flow"

    flow_name: str
    result: Any = None


class FlowFailedEvent(BaseEvent):
    """A flow ended because one of its methods failed and nothing routed the failure."""

    type: ClassVar[str] = "flow_failed"
    closes: ClassVar[ScopeKind | None] = "flow"

    flow_name: str
    error: str
    error_type: str = ""


class FlowCancelledEvent(BaseEvent):
    """A flow was cancelled before its end."""

    type: ClassVar[str] = "flow_cancelled"
    closes: ClassVar[ScopeKind | None] = "flow"

    flow_name: str
    reason: str = ""


class FlowPlotEvent(BaseEvent):
    """A picture of a flow's graph was drawn."""

    type: ClassVar[str] = "flow_plot"

    flow_name: str
    path: str = ""


class MethodExecutionStartedEvent(BaseEvent):
    """A method of a flow began to execute."""

    type: ClassVar[str] = "method_execution_started"
    opens: ClassVar[ScopeKind | None] = "method"
    unstored: ClassVar[frozenset[str]] = frozenset({"env", "params"})  # the result of another method: stored there

    flow_name: str
    method_name: str
    execution: int = 1
    params: dict[str, Any] = {}


class MethodExecutionPausedEvent(BaseEvent):
    """A method of a flow waits for a person's feedback before the flow goes on."""

    type: ClassVar[str] = "method_execution_paused"

    flow_name: str
    method_name: str
    execution: int = 1
    message: str = ""
    emit: list[str] = []


class MethodExecutionFinishedEvent(BaseEvent):
    """A method of a flow returned this result."""

    type: ClassVar[str] = "method_execution_finished"
    closes: ClassVar[ScopeKind | None] = "method"

    flow_name: str
    method_name: str
    execution: int = 1
    route: str | None = None
    items: int | None = None
    result: Any = None


class MethodExecutionFailedEvent(BaseEvent):
    """A method of a flow raised an error."""

    type: ClassVar[str] = "method_execution_failed"
    closes: ClassVar[ScopeKind | None] = "method"

    flow_name: str
    method_name: str
    execution: int = 1
    error: str
    error_type: str = ""


class MethodExecutionCancelledEvent(BaseEvent):
    """A method of a flow was cancelled while it was executing."""

    type: ClassVar[str] = "method_execution_cancelled"
    closes: ClassVar[ScopeKind | None] = "method"

    flow_name: str
    method_name: str
    execution: int = 1
    reason: str = ""


class FlowInputRequestedEvent(BaseEvent):
    """A method of a flow asked a person a question and waits for the answer."""

    type: ClassVar[str] = "flow_input_requested"
    opens: ClassVar[ScopeKind | None] = "human"

    flow_name: str
    method_name: str = ""
    request_id: str = ""
    message: str
    metadata: dict[str, Any] = {}
    expires_us: int | None = None


class FlowInputReceivedEvent(BaseEvent):
    """A question asked by a flow was answered, or its time ran out and the response is None."""

    type: ClassVar[str] = "flow_input_received"
    closes: ClassVar[ScopeKind | None] = "human"

    flow_name: str
    method_name: str = ""
    request_id: str = ""
    message: str = ""
    response: str | None = None
    metadata: dict[str, Any] = {}
    response_metadata: dict[str, Any] = {}
