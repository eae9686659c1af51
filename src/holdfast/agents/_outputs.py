"""What agents, tasks and crews give back."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.ports import Usage


class AgentOutput(Struct, frozen=True):
    """An agent's answer."""

    raw: str
    """as the model wrote it"""
    pydantic: Any = None
    """in the form that was asked for, if one was"""
    agent_role: str = ""
    turns: int = 0
    """how often the model was asked"""
    usage: Usage = Usage()

    def __str__(self) -> str:
        return self.raw


class TaskOutput(Struct, frozen=True):
    """What came of a task."""

    raw: str
    pydantic: Any = None
    """in the form of `output_pydantic`, if the task has one"""
    json_dict: dict[str, Any] | None = None
    """in the form of `output_json`, if the task has one"""
    name: str = ""
    description: str = ""
    agent_role: str = ""
    is_skipped: bool = False
    """whether its condition kept it from being done"""
    usage: Usage = Usage()

    def __str__(self) -> str:
        return self.raw


class CrewOutput(Struct, frozen=True):
    """What came of a crew's kickoff: the output of its last task, and all of them."""

    raw: str
    pydantic: Any = None
    json_dict: dict[str, Any] | None = None
    tasks_output: tuple[TaskOutput, ...] = ()
    """of every task, in the order of the tasks"""
    usage: Usage = Usage()

    def __str__(self) -> str:
        return self.raw
