"""Agents: one execution of the loop of model calls and tool calls."""

# msgspec gives every event its own copy of an empty default

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class AgentExecutionStartedEvent(BaseEvent):
    """An agent began to work on a prompt."""

    type: ClassVar[str] = "agent_execution_started"
    opens: ClassVar[ScopeKind | None] = "agent"

    task_prompt: str = ""
    tools: list[str] = []
    called_as: str = ""
    """of an agent inside a run that is written down: which call of which step started it"""
    graph: dict[str, Any] = {}
    """its graph, then"""


class AgentExecutionPausedEvent(BaseEvent):
    """An agent stopped to wait for a person or a secret."""

    type: ClassVar[str] = "agent_execution_paused"

    message: str = ""


class AgentExecutionCompletedEvent(BaseEvent):
    """An agent gave its final answer."""

    type: ClassVar[str] = "agent_execution_completed"
    closes: ClassVar[ScopeKind | None] = "agent"

    output: Any = None
    iterations: int = 0
    usage: dict[str, int] = {}
    """of an agent program, as far as it tells; empty where each model call tells of its own"""
    cost_usd: float | None = None


class AgentExecutionErrorEvent(BaseEvent):
    """An agent stopped because of an error."""

    type: ClassVar[str] = "agent_execution_error"
    closes: ClassVar[ScopeKind | None] = "agent"

    error: str
    error_type: str = ""


class AgentExecutionCancelledEvent(BaseEvent):
    """An agent was stopped before its final answer."""

    type: ClassVar[str] = "agent_execution_cancelled"
    closes: ClassVar[ScopeKind | None] = "agent"

    reason: str = ""
