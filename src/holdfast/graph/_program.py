"""What a front end (flow, crew, flow file) gives the scheduler: how a step is called, and what is told of it."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from holdfast.context import Subject
from holdfast.deltas import Delta
from holdfast.events._base import BaseEvent
from holdfast.graph._core import Execution
from holdfast.graph._facts import Fact
from holdfast.graph._model import Graph


class Program(Protocol):
    """A graph that can be run. The scheduler calls these; none of them decides anything."""

    graph: Graph
    subjects: Mapping[str, Subject]
    """On whose behalf steps work, by their names; the others on that of the run."""

    def is_async(self, step: str) -> bool:
        """Whether calling the step gives a coroutine."""
        ...

    def call(self, execution: Execution, given: Any) -> Any:
        """Run a step; `given` is the result of what triggered it."""
        ...

    def route(self, step: str, result: Any) -> str | None:
        """The route that a router's result names; None takes none. Raises StepFailedError for a result that names none of its."""
        ...

    def items(self, step: str, result: Any) -> int | None:
        """How many items a result has, of a step whose result is taken apart; None if nothing is to run for them.

        Raises StepFailedError for a result that has no items and should.
        """
        ...

    def event(self, fact: Fact, result: Any, error: BaseException | None) -> tuple[type[BaseEvent], dict[str, Any]]:
        """The event that tells of a fact: its class and its payload."""
        ...


class StateCell(Protocol):
    """The state a program's steps share. The scheduler says who works on it; steps find theirs by where they stand."""

    alone: str | None
    """The execution that nothing overlaps, by its key: it works on the state itself. Set when it begins."""

    def enter_shared(self, key: str) -> None:
        """A step begins that others overlap: it gets a view of its own of what is committed."""
        ...

    def leave(self, key: str) -> Delta | None:
        """A step completed: what it changed is committed, and returned if somebody keeps track.

        Raises StateConflictError if that cannot be decided.
        """
        ...

    def abandon(self, key: str) -> None:
        """A step did not complete: what it changed is thrown away with its view, if it had one."""
        ...


class Log(Protocol):
    """Where what happens is written down. The scheduler says when it must be safe."""

    async def commit(self) -> None:
        """Return once everything told so far is safe."""
        ...

    def commit_here(self) -> Coroutine[Any, Any, None] | None:
        """`commit` that needs no task if it is quick: None, or what is left to be awaited, at once."""
        ...

    def commit_now(self) -> None:
        """`commit`, blocking."""
        ...


class NoState:
    """For programs without a state of their own."""

    alone: str | None = None

    def enter_shared(self, key: str) -> None: ...
    def leave(self, key: str) -> Delta | None: ...
    def abandon(self, key: str) -> None: ...
