"""Crews: a kickoff from start to end."""

# msgspec gives every event its own copy of an empty default

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class CrewKickoffStartedEvent(BaseEvent):
    """A crew began to work on its tasks with these inputs."""

    type: ClassVar[str] = "crew_kickoff_started"
    opens: ClassVar[ScopeKind | None] = "crew"

    crew_name: str = ""
    inputs: dict[str, Any] = {}
    called_as: str = ""
    """of a crew inside a run that is written down: which call of which step started it"""
    graph: dict[str, Any] = {}
    """its graph, then"""


class CrewKickoffPausedEvent(BaseEvent):
    """A crew stopped to wait for a person or a secret."""

    type: ClassVar[str] = "crew_kickoff_paused"

    crew_name: str = ""
    message: str = ""


class CrewKickoffCompletedEvent(BaseEvent):
    """A crew finished its tasks and gave this output."""

    type: ClassVar[str] = "crew_kickoff_completed"
    closes: ClassVar[ScopeKind | None] = "crew"

    crew_name: str = ""
    output: Any = None
    total_tokens: int = 0


class CrewKickoffFailedEvent(BaseEvent):
    """A crew gave up its kickoff because of an error."""

    type: ClassVar[str] = "crew_kickoff_failed"
    closes: ClassVar[ScopeKind | None] = "crew"

    crew_name: str = ""
    error: str
    error_type: str = ""


class CrewKickoffCancelledEvent(BaseEvent):
    """A crew's kickoff was cancelled before its tasks were done."""

    type: ClassVar[str] = "crew_kickoff_cancelled"
    closes: ClassVar[ScopeKind | None] = "crew"

    crew_name: str = ""
    reason: str = ""
