"""Model calls: the call itself, the text it streams, and the thinking it shows."""

# msgspec gives every event its own copy of an empty default

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class LLMCallStartedEvent(BaseEvent):
    """A request was sent to a model, with the messages that are new since the call before it."""

    type: ClassVar[str] = "llm_call_started"
    opens: ClassVar[ScopeKind | None] = "llm"
    unstored: ClassVar[frozenset[str]] = frozenset({"env", "new_messages"})  # stored with what brought them

    step: str = ""
    """of the agent's graph; empty outside one"""
    execution: int = 0
    call_id: str = ""
    model: str = ""
    new_messages: list[dict[str, Any]] = []
    message_count: int = 0
    tools: list[str] = []


class LLMCallCompletedEvent(BaseEvent):
    """A model answered."""

    type: ClassVar[str] = "llm_call_completed"
    closes: ClassVar[ScopeKind | None] = "llm"

    step: str = ""
    """of the agent's graph; empty outside one"""
    execution: int = 0
    call_id: str = ""
    model: str = ""
    response: Any = None
    route: str | None = None
    items: int | None = None
    finish_reason: str = ""
    usage: dict[str, int] = {}
    cost_usd: float | None = None


class LLMCallFailedEvent(BaseEvent):
    """A model call ended in an error."""

    type: ClassVar[str] = "llm_call_failed"
    closes: ClassVar[ScopeKind | None] = "llm"

    step: str = ""
    """of the agent's graph; empty outside one"""
    execution: int = 0
    call_id: str = ""
    model: str = ""
    error: str
    error_type: str = ""


class LLMCallCancelledEvent(BaseEvent):
    """A model call was cancelled before its answer was complete."""

    type: ClassVar[str] = "llm_call_cancelled"
    closes: ClassVar[ScopeKind | None] = "llm"

    step: str = ""
    """of the agent's graph; empty outside one"""
    execution: int = 0
    call_id: str = ""
    model: str = ""
    reason: str = ""


class LLMCallPausedEvent(BaseEvent):
    """A model call waits for a secret."""

    type: ClassVar[str] = "llm_call_paused"

    step: str = ""
    execution: int = 0
    message: str = ""


class LLMStreamRestartedEvent(BaseEvent):
    """A model's answer broke off half-way, and the model is asked again: what was streamed of this call so far does not count."""

    type: ClassVar[str] = "llm_stream_restarted"
    durable: ClassVar[bool] = False

    call_id: str = ""
    error: str = ""


class LLMStreamChunkEvent(BaseEvent):
    """A model streamed a piece of its answer."""

    type: ClassVar[str] = "llm_stream_chunk"
    durable: ClassVar[bool] = False

    call_id: str = ""
    chunk: str


class LLMThinkingChunkEvent(BaseEvent):
    """A model streamed a piece of its thinking."""

    type: ClassVar[str] = "llm_thinking_chunk"
    durable: ClassVar[bool] = False

    call_id: str = ""
    chunk: str


class LLMContextOverflowEvent(BaseEvent):
    """The messages for a model no longer fit into its context window."""

    type: ClassVar[str] = "llm_context_overflow"

    call_id: str = ""
    model: str = ""
    tokens: int | None = None
    limit: int | None = None
    action: str = ""
