"""Tools: each use by an agent, and the uses that were refused."""

# msgspec gives every event its own copy of an empty default

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class ToolUsageStartedEvent(BaseEvent):
    """A tool was called with these arguments."""

    type: ClassVar[str] = "tool_usage_started"
    opens: ClassVar[ScopeKind | None] = "tool"

    step: str = ""
    """of the agent's graph; empty outside one"""
    execution: int = 0
    tool_name: str
    tool_args: dict[str, Any] = {}
    call_id: str = ""


class ToolUsageFinishedEvent(BaseEvent):
    """A tool returned this output, or the cache did in its place."""

    type: ClassVar[str] = "tool_usage_finished"
    closes: ClassVar[ScopeKind | None] = "tool"
    unstored: ClassVar[frozenset[str]] = frozenset({"env", "output"})  # may be anything; the text is what counts

    step: str = ""
    """of the agent's graph; empty outside one"""
    execution: int = 0
    tool_name: str
    tool_args: dict[str, Any] = {}
    call_id: str = ""
    output: Any = None
    text: str = ""
    """the output as the model reads it"""
    from_cache: bool = False


class ToolUsageErrorEvent(BaseEvent):
    """A tool raised an error."""

    type: ClassVar[str] = "tool_usage_error"
    closes: ClassVar[ScopeKind | None] = "tool"

    step: str = ""
    """of the agent's graph; empty outside one"""
    execution: int = 0
    tool_name: str
    tool_args: dict[str, Any] = {}
    call_id: str = ""
    error: str
    error_type: str = ""


class ToolUsageCancelledEvent(BaseEvent):
    """A tool was cancelled before it returned."""

    type: ClassVar[str] = "tool_usage_cancelled"
    closes: ClassVar[ScopeKind | None] = "tool"

    step: str = ""
    """of the agent's graph; empty outside one"""
    execution: int = 0
    tool_name: str
    call_id: str = ""
    reason: str = ""


class ToolUsagePausedEvent(BaseEvent):
    """A tool waits for a person or a secret."""

    type: ClassVar[str] = "tool_usage_paused"

    step: str = ""
    execution: int = 0
    tool_name: str = ""
    call_id: str = ""
    message: str = ""


class ToolValidateInputErrorEvent(BaseEvent):
    """A tool was not called because its arguments do not fit its schema."""

    type: ClassVar[str] = "tool_validate_input_error"

    tool_name: str
    tool_args: Any = None
    call_id: str = ""
    error: str


class ToolSelectionErrorEvent(BaseEvent):
    """A model asked for a tool that the agent does not have."""

    type: ClassVar[str] = "tool_selection_error"

    tool_name: str
    call_id: str = ""
    error: str = ""


class ToolUsageLimitReachedEvent(BaseEvent):
    """A tool was not called because it has been used as often as it may be."""

    type: ClassVar[str] = "tool_usage_limit_reached"

    tool_name: str
    call_id: str = ""
    limit: int
