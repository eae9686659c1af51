"""Agents, tasks and crews."""

from __future__ import annotations

from holdfast.agents._agent import Agent
from holdfast.agents._outputs import AgentOutput, CrewOutput, TaskOutput

__all__ = ["Agent", "AgentOutput", "CrewOutput", "TaskOutput"]
