"""Agents, tasks and crews."""

from __future__ import annotations

from holdfast.agents._agent import Agent
from holdfast.agents._crew import Crew, Process
from holdfast.agents._outputs import AgentOutput, CrewOutput, TaskOutput
from holdfast.agents._task import Task

__all__ = ["Agent", "AgentOutput", "Crew", "CrewOutput", "Process", "Task", "TaskOutput"]
