"""Agent programs spoken to over the Agent Client Protocol: what they tell besides text, thinking and tools."""

# msgspec gives every event its own copy of an empty default

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent


class AgentSessionOpenedEvent(BaseEvent):
    """A session with an agent program was opened: a new one, one reopened by its id, or a fork."""

    type: ClassVar[str] = "agent_session_opened"

    agent: str
    session_id: str
    how: str = "new"
    """`new`, `resume`, `load` or `fork`"""


class AgentPlanUpdatedEvent(BaseEvent):
    """An agent program told what it means to do, and how far it is: the whole plan, each time."""

    type: ClassVar[str] = "agent_plan_updated"

    session_id: str = ""
    entries: list[dict[str, Any]] = []


class AgentUpdateReceivedEvent(BaseEvent):
    """An agent program told something else, as it was sent: a mode, a tool's progress, or what we do not know."""

    type: ClassVar[str] = "agent_update_received"
    durable: ClassVar[bool] = False

    session_id: str = ""
    kind: str
    """its `sessionUpdate`"""
    update: dict[str, Any] = {}
