"""Agents, tasks and crews."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.agents._agent import Agent as Agent
    from holdfast.agents._crew import Crew as Crew
    from holdfast.agents._crew import Process as Process
    from holdfast.agents._outputs import AgentOutput as AgentOutput
    from holdfast.agents._outputs import CrewOutput as CrewOutput
    from holdfast.agents._outputs import TaskOutput as TaskOutput
    from holdfast.agents._task import Task as Task
    from holdfast.agents._yaml import crew_from_yaml as crew_from_yaml

_WHERE = {
    "Agent": "_agent",
    "AgentOutput": "_outputs",
    "Crew": "_crew",
    "CrewOutput": "_outputs",
    "Process": "_crew",
    "Task": "_task",
    "TaskOutput": "_outputs",
    "crew_from_yaml": "_yaml",
}

__all__ = sorted(_WHERE)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.agents' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.agents.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
