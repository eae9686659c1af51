"""Tools and models go on counting where a run was that is taken up again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.checkpoints import AgentUse
from holdfast.models import Model
from holdfast.tools import BaseTool

if TYPE_CHECKING:
    from holdfast.agents._agent import Agent

Filled = Callable[[str], str]


def reach_uses(
    at_work: Iterable[tuple[Agent, Sequence[BaseTool]]], used: Mapping[str, AgentUse], filled: Filled = str
) -> None:
    """Tell the tools and models of agents how often they were used. An agent is found by its id; else, made anew, by its role."""
    asked: dict[int, tuple[Model, dict[str, int]]] = {}
    for agent, tools in at_work:
        found = _uses_of(agent, used, filled)
        for tool in tools:
            tool.reach(max((use.tools.get(tool.call_name, 0) for use in found.values()), default=0))
        if isinstance(agent.llm, Model):
            _, requests = asked.setdefault(id(agent.llm), (agent.llm, {}))
            requests.update({agent_id: use.usage.requests for agent_id, use in found.items()})
    for model, requests in asked.values():
        model.reach(sum(requests.values()))


def _uses_of(agent: Agent, used: Mapping[str, AgentUse], filled: Filled) -> dict[str, AgentUse]:
    if agent.id in used:
        return {agent.id: used[agent.id]}
    return {agent_id: use for agent_id, use in used.items() if use.role == filled(agent.role)}
