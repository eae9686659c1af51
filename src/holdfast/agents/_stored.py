"""Agents as plain data and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from holdfast.errors import NotStorableError, StorageError
from holdfast.kickoff import Budget, Secrets
from holdfast.models import Model, ModelSettings, dump_model, load_model
from holdfast.serde import to_plain
from holdfast.tools import BaseTool, dump_reference, dump_tool, dump_value, load_reference, load_tool, load_value

if TYPE_CHECKING:
    from holdfast.agents._agent import Agent

A = TypeVar("A", bound="Agent")
B = TypeVar("B", bound=BaseModel)
_PLAIN = (
    "id",
    "role",
    "goal",
    "backstory",
    "max_iter",
    "max_execution_time",
    "on_overflow",
    "allow_delegation",
    "stream",
)


class Shelf:
    """Tools and models that agents and tasks may share: each is stored once, and is one thing again when it is restored."""

    def __init__(self, tools: Sequence[BaseTool] = (), models: Sequence[Model] = ()) -> None:
        self.tools = list(tools)
        self.models = list(models)
        self._stored_tools: list[dict[str, Any]] = []
        self._stored_models: list[dict[str, Any]] = []

    def put_tool(self, tool: BaseTool, path: str) -> int:
        """Its place. Raises NotStorableError, naming the path, if it has no stored form."""
        if (place := _place(self.tools, tool)) is None:
            self._stored_tools.append(dump_tool(tool, path))
            self.tools.append(tool)
            place = len(self.tools) - 1
        return place

    def put_tools(self, tools: Sequence[BaseTool], path: str) -> list[int]:
        return [self.put_tool(tool, f"{path}[{place}]") for place, tool in enumerate(tools)]

    def put_model(self, model: str | Model | None, path: str) -> int | str | None:
        """Its place; a name is its own."""
        if not isinstance(model, Model):
            return model
        if (place := _place(self.models, model)) is None:
            self._stored_models.append(_dump_model(model, path))
            self.models.append(model)
            place = len(self.models) - 1
        return place

    def model(self, stored: int | str | None) -> str | Model | None:
        return self.models[stored] if isinstance(stored, int) else stored

    def stored(self) -> dict[str, Any]:
        return {"tools": self._stored_tools, "models": self._stored_models}

    @classmethod
    def load(cls, stored: dict[str, Any], secrets: Secrets) -> Self:
        """What `stored` gave. Raises StorageError for what this program does not have, secrets of tools included."""
        tools = [load_tool(tool, _secrets_of(tool, secrets)) for tool in stored["tools"]]
        return cls(tools, [load_model(model) for model in stored["models"]])


def _secrets_of(stored: dict[str, Any], secrets: Secrets) -> dict[str, str]:
    """The secrets of a stored tool: known as `tool.field`, or as `field`."""
    name = stored["fields"].get("name") or stored.get("class", "").rpartition(":")[2]
    found = {field: secrets(f"{name}.{field}") or secrets(field) for field in stored.get("secrets", ())}
    return {field: value for field, value in found.items() if value is not None}


def _place(among: Sequence[object], wanted: object) -> int | None:
    return next((place for place, one in enumerate(among) if one is wanted), None)


def _dump_model(model: Model, path: str) -> dict[str, Any]:
    try:
        return dump_model(model)
    except NotStorableError as error:
        raise NotStorableError(f"{path}{error.path[1:]}", error.type_name, error.hint) from error


# -- subclasses --------------------------------------------------------------------------------------------------------


def dump_kind(thing: BaseModel, path: str) -> dict[str, Any]:
    """The class of an agent or a task, if it is one of the user's, and the fields that this class adds."""
    kind = type(thing)
    base: Any = next(one for one in kind.__mro__ if one.__module__.startswith("holdfast.agents."))
    if kind is base:
        return {"class": None, "more": {}}
    added = [name for name, field in kind.model_fields.items() if name not in base.model_fields and not field.exclude]
    more = {name: dump_value(getattr(thing, name), f"{path}.{name}") for name in added}
    return {"class": dump_reference(kind, path), "more": more}


def load_kind(stored: dict[str, Any], base: type[B]) -> tuple[type[B], dict[str, Any]]:
    """The class that `dump_kind` named, `base` if that is none of its subclasses, and the fields it adds."""
    found: Any = load_reference(stored["class"]) if stored["class"] is not None else base
    kind = found if isinstance(found, type) and issubclass(found, base) else base
    return kind, {name: load_value(value) for name, value in stored["more"].items()}


# -- agents ------------------------------------------------------------------------------------------------------------


def dump_agent(agent: Agent, path: str, shelf: Shelf) -> dict[str, Any]:
    """An agent as plain data, without keys. Raises NotStorableError, naming the place, for what has no stored form."""
    return {
        "fields": {name: getattr(agent, name) for name in _PLAIN},
        "kind": dump_kind(agent, path),
        "is_apart": agent.checkpoint is False,
        "llm": shelf.put_model(agent.llm, f"{path}.llm"),
        "tools": shelf.put_tools(agent.tools, f"{path}.tools"),
        "settings": to_plain(agent.settings),
        "budget": to_plain(agent.budget),
    }


def load_agent(stored: dict[str, Any], base: type[A], shelf: Shelf, **options: Any) -> A:
    """The agent that `dump_agent` described. Raises StorageError for what this program does not have."""
    try:
        kind, more = load_kind(stored["kind"], base)
        if stored["is_apart"]:
            options.setdefault("checkpoint", False)
        return kind(
            **stored["fields"],
            **more,
            llm=shelf.model(stored["llm"]),
            tools=[shelf.tools[place] for place in stored["tools"]],
            settings=msgspec.convert(stored["settings"], ModelSettings),
            budget=msgspec.convert(stored["budget"], Budget | None),
            **options,
        )
    except (KeyError, IndexError, msgspec.ValidationError, ValidationError) as error:
        raise StorageError(f"this stored agent cannot be made again: {error}") from error
