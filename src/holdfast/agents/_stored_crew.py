"""Crews and their tasks as plain data and back: a task's agent is stored as its place, and restored as the crew's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.agents._agent import Agent
from holdfast.agents._stored import dump_agent, load_agent
from holdfast.agents._task import Task
from holdfast.errors import StorageError
from holdfast.kickoff import Budget
from holdfast.models import Model, dump_model, load_model
from holdfast.serde import to_plain
from holdfast.tools import dump_class, dump_reference, dump_tool, load_class, load_function, load_tool

if TYPE_CHECKING:
    from holdfast.agents._crew import Crew

C = TypeVar("C", bound="Crew")
_TASK_PLAIN = (
    "id", "name", "description", "expected_output", "output_file", "guardrail_max_retries", "async_execution", "human_input",
)  # fmt: skip
_TASK_CLASSES = ("output_pydantic", "output_json")
_TASK_FUNCTIONS = ("guardrail", "condition", "callback")


def dump_crew(crew: Crew) -> dict[str, Any]:
    """A crew as plain data. Raises NotStorableError, naming the place, for what has no stored form."""
    manager = crew.manager_agent
    return {
        "fields": {"id": crew.id, "name": crew.name, "process": crew.process.value},
        "agents": [dump_agent(agent, f"$.agents[{place}]") for place, agent in enumerate(crew.agents)],
        "tasks": [_dump_task(crew, task, f"$.tasks[{place}]") for place, task in enumerate(crew.tasks)],
        "manager_llm": dump_model(crew.manager_llm) if isinstance(crew.manager_llm, Model) else crew.manager_llm,
        "manager_agent": dump_agent(manager, "$.manager_agent") if manager is not None else None,
        "task_callback": _dump_function(crew.task_callback, "$.task_callback"),
        "budget": to_plain(crew.budget),
    }


def _dump_task(crew: Crew, task: Task, path: str) -> dict[str, Any]:
    return {
        "fields": {name: getattr(task, name) for name in _TASK_PLAIN},
        "classes": {
            name: dump_class(cls, f"{path}.{name}") if (cls := getattr(task, name)) is not None else None
            for name in _TASK_CLASSES
        },
        "functions": {name: _dump_function(getattr(task, name), f"{path}.{name}") for name in _TASK_FUNCTIONS},
        "guardrails": [_dump_function(one, f"{path}.guardrails[{place}]") for place, one in enumerate(task.guardrails)],
        "agent": _place(crew.agents, task.agent) if task.agent is not None else None,
        "context": [_place(crew.tasks, one) for one in task.context] if task.context is not None else None,
        "tools": [dump_tool(tool, f"{path}.tools[{place}]") for place, tool in enumerate(task.tools)]
        if task.tools is not None
        else None,
    }


def _place(among: Sequence[object], wanted: object) -> int:
    return next(place for place, one in enumerate(among) if one is wanted)


def _dump_function(function: Any, path: str) -> str | None:
    return dump_reference(function, path) if function is not None else None


def _load_function(reference: str | None) -> Any:
    return load_function(reference) if reference is not None else None


def load_crew(stored: dict[str, Any], kind: type[C], **options: Any) -> C:
    """The crew that `dump_crew` described; its tasks have its own agents. Raises StorageError."""
    try:
        agents = [load_agent(agent, Agent, runtime=options.get("runtime")) for agent in stored["agents"]]
        tasks: list[Task] = []
        for told in stored["tasks"]:
            tasks.append(_load_task(told, agents, tasks))
        manager = stored["manager_agent"]
        llm = stored["manager_llm"]
        return kind(
            **stored["fields"],
            agents=agents,
            tasks=tasks,
            manager_llm=load_model(llm) if isinstance(llm, dict) else llm,
            manager_agent=load_agent(manager, Agent, runtime=options.get("runtime")) if manager is not None else None,
            task_callback=_load_function(stored["task_callback"]),
            budget=msgspec.convert(stored["budget"], Budget | None),
            **options,
        )
    except (KeyError, IndexError, msgspec.ValidationError) as error:
        raise StorageError(f"this is not a stored crew: {error!r}") from error


def _load_task(told: dict[str, Any], agents: Sequence[Agent], before: Sequence[Task]) -> Task:
    found: dict[str, Any] = dict(told["fields"])
    found |= {name: load_class(cls) if cls is not None else None for name, cls in told["classes"].items()}
    found |= {name: _load_function(reference) for name, reference in told["functions"].items()}
    return Task(
        **found,
        guardrails=[_load_function(one) for one in told["guardrails"]],
        agent=agents[told["agent"]] if told["agent"] is not None else None,
        context=[before[place] for place in told["context"]] if told["context"] is not None else None,
        tools=[load_tool(tool) for tool in told["tools"]] if told["tools"] is not None else None,
    )
