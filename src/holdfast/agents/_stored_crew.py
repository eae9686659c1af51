"""Crews and their tasks as plain data and back: a task's agent is stored as its place, and restored as the crew's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from pydantic import ValidationError

from holdfast.agents._agent import Agent
from holdfast.agents._stored import Shelf, dump_agent, dump_kind, load_agent, load_kind
from holdfast.agents._task import Task
from holdfast.errors import StorageError
from holdfast.kickoff import Budget, Secrets, from_environment
from holdfast.serde import to_plain
from holdfast.tools import dump_class, dump_reference, load_class, load_function

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
    manager, shelf = crew.manager_agent, Shelf()
    stored = {
        "fields": {"id": crew.id, "name": crew.name, "process": crew.process.value, "stream": crew.stream},
        "kind": dump_kind(crew, "$"),
        "agents": [dump_agent(agent, f"$.agents[{place}]", shelf) for place, agent in enumerate(crew.agents)],
        "tasks": [_dump_task(crew, task, f"$.tasks[{place}]", shelf) for place, task in enumerate(crew.tasks)],
        "manager_llm": shelf.put_model(crew.manager_llm, "$.manager_llm"),
        "manager_agent": dump_agent(manager, "$.manager_agent", shelf) if manager is not None else None,
        "task_callback": _dump_function(crew.task_callback, "$.task_callback"),
        "budget": to_plain(crew.budget),
    }
    return {"crew": stored, "shared": shelf.stored()}


def _dump_task(crew: Crew, task: Task, path: str, shelf: Shelf) -> dict[str, Any]:
    return {
        "fields": {name: getattr(task, name) for name in _TASK_PLAIN},
        "kind": dump_kind(task, path),
        "classes": {
            name: dump_class(cls, f"{path}.{name}") if (cls := getattr(task, name)) is not None else None
            for name in _TASK_CLASSES
        },
        "functions": {name: _dump_function(getattr(task, name), f"{path}.{name}") for name in _TASK_FUNCTIONS},
        "guardrails": [_dump_function(one, f"{path}.guardrails[{place}]") for place, one in enumerate(task.guardrails)],
        "agent": _place(crew.agents, task.agent) if task.agent is not None else None,
        "context": [_place(crew.tasks, one) for one in task.context] if task.context is not None else None,
        "tools": shelf.put_tools(task.tools, f"{path}.tools") if task.tools is not None else None,
    }


def _place(among: Sequence[object], wanted: object) -> int:
    return next(place for place, one in enumerate(among) if one is wanted)


def _dump_function(function: Any, path: str) -> str | None:
    return dump_reference(function, path) if function is not None else None


def _load_function(reference: str | None) -> Any:
    return load_function(reference) if reference is not None else None


def load_crew(stored: dict[str, Any], base: type[C], **options: Any) -> C:
    """The crew that `dump_crew` described; its tasks have its own agents. Raises StorageError."""
    try:
        return _load_crew(stored["crew"], base, Shelf.load(stored["shared"], _secrets(options)), options)
    except (KeyError, IndexError, msgspec.ValidationError, ValidationError) as error:
        raise StorageError(f"this stored crew cannot be made again: {error}") from error


def _secrets(options: dict[str, Any]) -> Secrets:
    return options["checkpoint"].secrets or from_environment


def _load_crew(stored: dict[str, Any], base: type[C], shelf: Shelf, options: dict[str, Any]) -> C:
    runtime = options["runtime"]
    agents = [load_agent(agent, Agent, shelf, runtime=runtime) for agent in stored["agents"]]
    tasks: list[Task] = []
    for told in stored["tasks"]:
        tasks.append(_load_task(told, agents, tasks, shelf))
    manager = stored["manager_agent"]
    kind, more = load_kind(stored["kind"], base)
    return kind(
        **stored["fields"],
        **more,
        agents=agents,
        tasks=tasks,
        manager_llm=shelf.model(stored["manager_llm"]),
        manager_agent=load_agent(manager, Agent, shelf, runtime=runtime) if manager is not None else None,
        task_callback=_load_function(stored["task_callback"]),
        budget=msgspec.convert(stored["budget"], Budget | None),
        **options,
    )


def _load_task(told: dict[str, Any], agents: Sequence[Agent], before: Sequence[Task], shelf: Shelf) -> Task:
    found: dict[str, Any] = dict(told["fields"])
    found |= {name: load_class(cls) if cls is not None else None for name, cls in told["classes"].items()}
    found |= {name: _load_function(reference) for name, reference in told["functions"].items()}
    kind, more = load_kind(told["kind"], Task)
    return kind(
        **found,
        **more,
        guardrails=[_load_function(one) for one in told["guardrails"]],
        agent=agents[told["agent"]] if told["agent"] is not None else None,
        context=[before[place] for place in told["context"]] if told["context"] is not None else None,
        tools=[shelf.tools[place] for place in told["tools"]] if told["tools"] is not None else None,
    )
