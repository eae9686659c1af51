"""Crews from two YAML files: who there is, and what is to be done. Mistakes are told with file, line and column, all at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from holdfast.agents._agent import Agent
from holdfast.agents._crew import Crew
from holdfast.agents._task import Task
from holdfast.errors import FlowFileError
from holdfast.flowfiles import Position
from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._nearest import did_you_mean
from holdfast.flowfiles._nodes import Mapping as MappingNode
from holdfast.flowfiles._nodes import Node, Scalar, Sequence, plain, read_nodes

AGENT_KEYS = (
    "role", "goal", "backstory", "llm", "tools", "settings", "max_iter", "max_execution_time", "on_overflow",
    "allow_delegation",
)  # fmt: skip
TASK_KEYS = (
    "description", "expected_output", "agent", "context", "tools", "output_pydantic", "output_json", "output_file",
    "guardrail", "guardrails", "guardrail_max_retries", "async_execution", "condition", "human_input", "callback",
)  # fmt: skip
NAMED = ("tools", "output_pydantic", "output_json", "guardrail", "guardrails", "condition", "callback")
"""Keys whose values are names of tools, classes and functions."""

PathLike = str | os.PathLike[str]


def crew_from_yaml(
    agents: PathLike = "agents.yaml",
    tasks: PathLike = "tasks.yaml",
    *,
    names: Mapping[str, Any] | None = None,
    **options: Any,
) -> Crew:
    """The crew that two files describe: each has one entry for each agent or task, by name.

    `names` gives the tools, classes and functions that the files mention: nothing is imported because a file says so. `options`
    are the crew's own: `process`, `checkpoint`, and so on. Raises FlowFileError with everything that is wrong, and where.
    """
    report = Report()
    reader = _Reader(names or {}, report)
    entries = {kind: _entries(Path(path), report) for kind, path in (("agent", agents), ("task", tasks))}
    found = reader.agents(entries["agent"])
    listed = reader.tasks(entries["task"], found)
    report.raise_errors()
    return Crew(agents=list(found.values()), tasks=listed, **options)


def _entries(path: Path, report: Report) -> list[tuple[Scalar, MappingNode]]:
    """The named entries of a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FlowFileError(f"{path} cannot be read: {error.strerror or error}") from error
    tree = read_nodes(data, str(path), report)
    if tree is None:
        return []
    if not isinstance(tree, MappingNode):
        report.error(
            "shape",
            tree.at,
            "this is no mapping of names to entries",
            fix="write `name:` and indent what is said of it",
        )
        return []
    good = []
    for name, entry in tree.entries:
        if isinstance(entry, MappingNode):
            good.append((name, entry))
        else:
            report.error("shape", entry.at, f"{name.text} has no keys", fix="indent what is said of it")
    return good


class _Reader:
    """Makes agents and tasks of entries."""

    def __init__(self, names: Mapping[str, Any], report: Report) -> None:
        self._names = names
        self._report = report

    def agents(self, entries: list[tuple[Scalar, MappingNode]]) -> dict[str, Agent]:
        found: dict[str, Agent] = {}
        for name, entry in entries:
            fields = self._fields(entry, AGENT_KEYS)
            fields.setdefault("role", name.text)
            if (agent := self._made(Agent, entry, fields)) is not None:
                found[name.text] = agent
        return found

    def tasks(self, entries: list[tuple[Scalar, MappingNode]], agents: Mapping[str, Agent]) -> list[Task]:
        found: dict[str, Task] = {}
        for name, entry in entries:
            fields = {"name": name.text, **self._fields(entry, TASK_KEYS)}
            if "agent" in fields:
                fields["agent"] = self._one_of(agents, "agent", entry, fields["agent"])
            if fields.get("context") is not None:
                wanted = fields["context"] if isinstance(fields["context"], list) else [fields["context"]]
                fields["context"] = [one for name in wanted if (one := self._one_of(found, "context", entry, name))]
            if (task := self._made(Task, entry, fields)) is not None:
                found[name.text] = task
        return list(found.values())

    def _fields(self, entry: MappingNode, keys: tuple[str, ...]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key, value in entry.entries:
            if key.text not in keys:
                self._report.error("unknown-key", key.at, f"there is no key {key.text}{did_you_mean(key.text, keys)}")
            elif key.text in NAMED:
                fields[key.text] = self._named(value)
            else:
                fields[key.text] = plain(value)
        return fields

    def _named(self, node: Node) -> Any:
        """What a name, or each of a list of them, stands for."""
        if isinstance(node, Sequence):
            return [found for item in node.items if (found := self._named(item)) is not None]
        text = node.text if isinstance(node, Scalar) else ""
        if text not in self._names:
            hint = did_you_mean(text, self._names)
            fix = f"give it: crew_from_yaml(…, names={{{text!r}: …}})"
            self._report.error("unknown-name", node.at, f"nothing is called {text!r}{hint}", fix=fix)
        return self._names.get(text)

    def _one_of(self, known: Mapping[str, Any], what: str, entry: MappingNode, name: Any) -> Any:
        if name in known:
            return known[name]
        hint = did_you_mean(str(name), known)
        self._report.error(f"unknown-{what}", _place(entry, what), f"there is no {what} {name} before this{hint}")
        return None

    def _made(self, kind: Any, entry: MappingNode, fields: dict[str, Any]) -> Any:
        if self._report.has_errors:
            fields = {name: value for name, value in fields.items() if value is not None}
        try:
            return kind(**fields)
        except ValidationError as error:
            for one in error.errors():
                key = str(one["loc"][0]) if one["loc"] else ""
                if not self._report.has_errors or entry.get(key) is not None or key not in fields:
                    self._report.error("value", _place(entry, key), f"{key}: {one['msg']}" if key else one["msg"])
            return None


def _place(entry: MappingNode, key: str) -> Position:
    value = entry.get(key)
    return value.at if value is not None else entry.at
