"""One execution of a step as its executor sees it, and who executes what."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from holdfast.clock import Clock
from holdfast.errors import AnswerPendingError, JobStepError
from holdfast.flowfiles import Executor, StepSpec, find_plugin, kind_of
from holdfast.graph import Execution
from holdfast.jobs._meter import JobMeter
from holdfast.jobs._scope import Scope, Wait
from holdfast.ports import Ask
from holdfast.runs import Run


class Call(Struct, frozen=True, eq=False):
    """One execution of a step, and everything it may need."""

    step: StepSpec
    executor: Executor
    """the step's own, or its fallback's"""
    inputs: dict[str, Any]
    execution: Execution
    run: Run
    scope: Scope
    meter: JobMeter
    attempt: int = 1
    """in the present frame of the loop around the step"""
    items: tuple[Any, ...] = ()
    """what a `for_each` runs for"""

    @property
    def clock(self) -> Clock:
        return self.run.host.clock

    @property
    def now_us(self) -> int:
        return self.clock.time_ns() // 1000

    @property
    def deadline_us(self) -> int | None:
        """When its time is up: its `timeout` or the minutes of its `limits` from when it began to wait, or from now."""
        minutes = self.step.limits.max_duration_minutes
        bounds = (self.step.timeout_seconds, None if minutes is None else minutes * 60)
        seconds = min((bound for bound in bounds if bound is not None), default=None)
        return None if seconds is None else (self.execution.since_us or self.now_us) + round(seconds * 1e6)

    @property
    def idempotency_key(self) -> str:
        """The same however often this execution is tried, in whatever process."""
        return f"{self.run.id}/{self.execution.key}"

    @property
    def ask_id(self) -> str:
        """The same however often the job is taken up again."""
        return ask_id(self.run.id, self.execution.key)

    def wait_for(self, *asks: Ask, until_us: int | None = None, held: str = "") -> AnswerPendingError:
        """What to raise when the step can do nothing before someone answers, or before a time."""
        return AnswerPendingError(requests=(Wait(asks, until_us, held),))


def ask_id(run_id: str, execution: str) -> str:
    """The id of what an execution asks."""
    return f"{run_id} {execution}"


Execute: TypeAlias = Callable[[Call], Awaitable[Any]]
"""Runs a step: returns its outputs, or raises. A JobStepError names its own category; for others it is found."""


class Registry:
    """Who executes which kind of step. A package adds kinds with the entry point group `holdfast.executors`."""

    def __init__(self, own: Mapping[str, Execute | str]) -> None:
        self._known = dict(own)
        """Functions, or where they are: `module:function`."""

    def find(self, executor: Executor) -> Execute:
        """Raises JobStepError, category `configuration`, if nobody executes that."""
        kind = kind_of(executor)
        found = self._known.get(kind)
        if found is None or isinstance(found, str):
            found = self._known[kind] = _imported(found) if found is not None else _installed(kind)
        return found


def _installed(kind: str) -> Execute:
    try:
        plugin = find_plugin(kind)
        if plugin is None:
            raise ImportError(f"there is no executor {kind!r}; install the package that brings it")
        return _imported(plugin.run)
    except (ImportError, AttributeError) as error:
        raise JobStepError(str(error), category="configuration") from error


def _imported(where: str) -> Execute:
    module, _, name = where.partition(":")
    found: Execute = getattr(importlib.import_module(module), name)
    return found
