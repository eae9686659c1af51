"""Tasks of a crew, and the guardrails that judge their output."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class TaskStartedEvent(BaseEvent):
    """An agent was given a task."""

    type: ClassVar[str] = "task_started"
    opens: ClassVar[ScopeKind | None] = "task"

    step: str = ""
    """of the crew's graph; empty outside one"""
    execution: int = 0
    description: str = ""
    expected_output: str = ""
    context: str = ""


class TaskCompletedEvent(BaseEvent):
    """A task was done and gave this output."""

    type: ClassVar[str] = "task_completed"
    closes: ClassVar[ScopeKind | None] = "task"

    step: str = ""
    """of the crew's graph; empty outside one"""
    execution: int = 0
    output: Any = None


class TaskFailedEvent(BaseEvent):
    """A task ended in an error."""

    type: ClassVar[str] = "task_failed"
    closes: ClassVar[ScopeKind | None] = "task"

    step: str = ""
    """of the crew's graph; empty outside one"""
    execution: int = 0
    error: str
    error_type: str = ""


class TaskCancelledEvent(BaseEvent):
    """A task was cancelled before it was done."""

    type: ClassVar[str] = "task_cancelled"
    closes: ClassVar[ScopeKind | None] = "task"

    step: str = ""
    """of the crew's graph; empty outside one"""
    execution: int = 0
    reason: str = ""


class TaskSkippedEvent(BaseEvent):
    """A task was left out because its condition did not hold."""

    type: ClassVar[str] = "task_skipped"
    closes: ClassVar[ScopeKind | None] = "task"

    step: str = ""
    """of the crew's graph; empty outside one"""
    execution: int = 0
    output: Any = None
    reason: str = ""


class TaskPausedEvent(BaseEvent):
    """A task waits for a person or a secret."""

    type: ClassVar[str] = "task_paused"

    step: str = ""
    execution: int = 0
    message: str = ""


class LLMGuardrailStartedEvent(BaseEvent):
    """A guardrail began to judge the output of a task."""

    type: ClassVar[str] = "llm_guardrail_started"

    guardrail: str = ""
    retry_count: int = 0


class LLMGuardrailCompletedEvent(BaseEvent):
    """A guardrail gave its verdict on the output of a task."""

    type: ClassVar[str] = "llm_guardrail_completed"

    guardrail: str = ""
    success: bool
    result: Any = None
    error: str = ""
    retry_count: int = 0


class LLMGuardrailFailedEvent(BaseEvent):
    """A guardrail broke before it could give a verdict."""

    type: ClassVar[str] = "llm_guardrail_failed"

    guardrail: str = ""
    error: str
    error_type: str = ""
    retry_count: int = 0
