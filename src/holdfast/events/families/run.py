"""Runs: the start, the pauses and the one end of each."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class RunStartedEvent(BaseEvent):
    """A run began, or began again under a new incarnation."""

    type: ClassVar[str] = "run_started"
    opens: ClassVar[ScopeKind | None] = "run"

    name: str = ""
    from_status: str
    incarnation: int = 1


class RunWaitingEvent(BaseEvent):
    """A run has nothing left to do until something from outside arrives."""

    type: ClassVar[str] = "run_waiting"

    from_status: str
    reason: str = ""


class RunPausedEvent(BaseEvent):
    """A run stopped starting steps because someone or some rule asked it to."""

    type: ClassVar[str] = "run_paused"

    from_status: str
    reason: str = ""


class RunResumedEvent(BaseEvent):
    """A waiting or paused run went on."""

    type: ClassVar[str] = "run_resumed"

    from_status: str
    reason: str = ""


class RunCompletedEvent(BaseEvent):
    """A run reached its end with a result."""

    type: ClassVar[str] = "run_completed"
    closes: ClassVar[ScopeKind | None] = "run"

    from_status: str
    reason: str = ""
    result: Any = None


class RunFailedEvent(BaseEvent):
    """A run ended because of an error."""

    type: ClassVar[str] = "run_failed"
    closes: ClassVar[ScopeKind | None] = "run"

    from_status: str
    reason: str = ""
    error: str
    error_type: str


class RunCancelledEvent(BaseEvent):
    """A run was ended on request before it was done."""

    type: ClassVar[str] = "run_cancelled"
    closes: ClassVar[ScopeKind | None] = "run"

    from_status: str
    reason: str = ""
