"""Agent programs over the Agent Client Protocol: start one, share it between runs, talk to it, leave nothing behind.

`AgentManager` is where to begin. Imported on first use, and the protocol's types when the first agent is started.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.acp._manager import AgentLease as AgentLease
    from holdfast.acp._manager import AgentManager as AgentManager
    from holdfast.acp._permissions import Permissions as Permissions
    from holdfast.acp._registry import KnownAgent as KnownAgent
    from holdfast.acp._registry import find_agent as find_agent
    from holdfast.acp._registry import known_agents as known_agents
    from holdfast.acp._session import AgentSession as AgentSession
    from holdfast.acp._spec import AgentSpec as AgentSpec
    from holdfast.acp._spec import SessionOptions as SessionOptions
    from holdfast.acp._telling import ToolUse as ToolUse
    from holdfast.acp._turn import PromptResult as PromptResult

_WHERE = {
    "AgentLease": "_manager",
    "AgentManager": "_manager",
    "AgentSession": "_session",
    "AgentSpec": "_spec",
    "KnownAgent": "_registry",
    "Permissions": "_permissions",
    "PromptResult": "_turn",
    "SessionOptions": "_spec",
    "ToolUse": "_telling",
    "find_agent": "_registry",
    "known_agents": "_registry",
}

__all__ = [
    "AgentLease",
    "AgentManager",
    "AgentSession",
    "AgentSpec",
    "KnownAgent",
    "Permissions",
    "PromptResult",
    "SessionOptions",
    "ToolUse",
    "find_agent",
    "known_agents",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.acp' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.acp.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
