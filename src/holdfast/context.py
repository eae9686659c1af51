"""Where the code that is running stands: which run, inside which scopes, on whose behalf.

One `ContextVar` holds one small frozen value made of ids. Nothing heavy is ever put there, because timers, tasks and
threads keep their context alive for as long as they live; a run is looked up by its id and is simply not found once
it has ended.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from types import FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")


class Scope(Struct, frozen=True, gc=False):
    """An open stretch of work: the event that opened it, and the scope around it."""

    event_id: str
    kind: str
    outer: Scope | None


class Subject(Struct, frozen=True, gc=False):
    """On whose behalf work is done, stamped on every event inside."""

    task_id: str | None = None
    task_name: str | None = None
    agent_id: str | None = None
    agent_role: str | None = None


NOBODY = Subject()


class Position(Struct, frozen=True, gc=False):
    """The whole context of a piece of running code. Ids only."""

    run_id: str | None = None
    scope: Scope | None = None
    subject: Subject = NOBODY
    triggered_by: str | None = None
    step_id: str | None = None
    replaying: bool = False


OUTSIDE = Position()
position: ContextVar[Position] = ContextVar("holdfast_position", default=OUTSIDE)
standing = position.get
"""Where this code stands. Bound once: a call through a name that was imported is slow, and this is asked several times a step."""
stand_at = position.set
leave = position.reset


def current_run_id() -> str | None:
    """The id of the run this code belongs to, or None outside any run."""
    return position.get().run_id


def current_step_key() -> str | None:
    """The key of the flow step this code belongs to, or None outside any: `run/step#number`.

    No other step of any run has it, and the step has the same one when it is run again after a crash, in whatever process. Give
    it to what you call (an idempotency key, a unique column), and an effect that happens twice counts once.
    """
    here = position.get()
    return f"{here.run_id}/{here.step_id}" if here.step_id is not None and "#" in here.step_id else None


def is_replaying() -> bool:
    """True inside a handler that is shown a recorded event again, not a new one."""
    return position.get().replaying


@contextmanager
def at(place: Position) -> Iterator[None]:
    """Stand at `place` for the length of the block."""
    token = position.set(place)
    try:
        yield
    finally:
        position.reset(token)


@contextmanager
def on_behalf_of(
    *,
    task_id: str | None = None,
    task_name: str | None = None,
    agent_id: str | None = None,
    agent_role: str | None = None,
) -> Iterator[None]:
    """Stamp events of the block with a task, an agent, or both; what is not given stays as it is outside."""
    outside = position.get().subject
    subject = Subject(
        task_id=task_id or outside.task_id,
        task_name=task_name or outside.task_name,
        agent_id=agent_id or outside.agent_id,
        agent_role=agent_role or outside.agent_role,
    )
    position.set(replace(position.get(), subject=subject))
    try:
        yield
    finally:  # scopes that were opened or closed inside stay so
        position.set(replace(position.get(), subject=outside))


@contextmanager
def triggered_by(event_id: str | None) -> Iterator[None]:
    """Stamp events of the block with the event that caused them."""
    outside = position.get().triggered_by
    position.set(replace(position.get(), triggered_by=event_id))
    try:
        yield
    finally:
        position.set(replace(position.get(), triggered_by=outside))


def is_async_callable(call: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: an `async def`, a partial of one, an object with an async `__call__`."""
    inner: Any = call
    function = inner.__func__ if type(inner) is MethodType else inner
    if type(function) is FunctionType and not function.__dict__:  # what inspect asks below, without its dozen calls
        return bool(function.__code__.co_flags & inspect.CO_COROUTINE)
    while isinstance(inner, functools.partial):
        inner = inner.func
    return inspect.iscoroutinefunction(inner if inspect.isroutine(inner) else type(inner).__call__)


def bind(function: Callable[P, R]) -> Callable[P, R]:
    """Tie `function` to the run it is bound in, so that it may be called from any thread.

    Threads of `threading.Thread`, and of pools that are not Holdfast's, start with an empty context; what they emit would
    belong to no run. `Thread(target=bind(work))` carries the present context over. The result may be called any
    number of times, from several threads at once. An `async def` is tied to the run and its scopes only.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"bind() cannot tie {function.__name__} to a run: a generator runs where it is iterated; bind that"
        )
    if is_async_callable(function):
        place = position.get()

        @functools.wraps(function)
        async def awaiting(*args: Any, **kwargs: Any) -> Any:
            with at(place):
                return await cast(Any, function)(*args, **kwargs)

        return awaiting  # type: ignore[return-value]

    context = copy_context()

    @functools.wraps(function)
    def bound(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)

    return bound


class BoundExecutor(ThreadPoolExecutor):
    """A thread pool whose calls belong to the run that submitted them. Works with `loop.run_in_executor` too."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        return super().submit(bind(fn), *args, **kwargs)


class _Forks:
    """Counts the forks between this process and the one that imported us.

    `generation` changes in a forked child: whoever made threads, locks or runs before must make them anew.
    """

    __slots__ = ("generation",)

    def __init__(self) -> None:
        self.generation = 0


Forks = _Forks()


def _after_fork_in_child() -> None:
    Forks.generation += 1
    position.set(OUTSIDE)  # the runs belong to the parent


os.register_at_fork(after_in_child=_after_fork_in_child)
