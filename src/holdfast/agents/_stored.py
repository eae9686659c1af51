"""Agents as plain data and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.errors import StorageError
from holdfast.kickoff import Budget
from holdfast.models import Model, ModelSettings, dump_model, load_model
from holdfast.serde import to_plain
from holdfast.tools import dump_tool, load_tool

if TYPE_CHECKING:
    from holdfast.agents._agent import Agent

A = TypeVar("A", bound="Agent")
_PLAIN = ("id", "role", "goal", "backstory", "max_iter", "max_execution_time", "on_overflow", "allow_delegation")


def dump_agent(agent: Agent, path: str = "$") -> dict[str, Any]:
    """An agent as plain data, without keys. Raises NotStorableError, naming the place, for what has no stored form."""
    return {
        "fields": {name: getattr(agent, name) for name in _PLAIN},
        "llm": dump_model(agent.llm) if isinstance(agent.llm, Model) else agent.llm,
        "tools": [dump_tool(tool, f"{path}.tools[{place}]") for place, tool in enumerate(agent.tools)],
        "settings": to_plain(agent.settings),
        "budget": to_plain(agent.budget),
    }


def load_agent(stored: dict[str, Any], kind: type[A], **options: Any) -> A:
    """The agent that `dump_agent` described. Raises StorageError for what this program does not have."""
    try:
        return kind(
            **stored["fields"],
            llm=load_model(stored["llm"]) if isinstance(stored["llm"], dict) else stored["llm"],
            tools=[load_tool(tool) for tool in stored["tools"]],
            settings=msgspec.convert(stored["settings"], ModelSettings),
            budget=msgspec.convert(stored["budget"], Budget | None),
            **options,
        )
    except (KeyError, msgspec.ValidationError) as error:
        raise StorageError(f"this is not a stored agent: {error!r}") from error
