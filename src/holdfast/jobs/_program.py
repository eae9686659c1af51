"""A flow file as a program the scheduler can drive: how a step is called, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.context import Subject
from holdfast.deltas import encode_plain, plain
from holdfast.errors import JobLimitError, JobStepError, NotStorableError
from holdfast.events._base import BaseEvent
from holdfast.events.families.step import (
    StepCancelledEvent,
    StepCompletedEvent,
    StepFailedEvent,
    StepStartedEvent,
    StepWaitingEvent,
)
from holdfast.flowfiles import ForEach, ResourceRequest, StepSpec
from holdfast.graph import Cancelled, Completed, Execution, Fact, Failed, Graph, Started, Verdict, Waiting
from holdfast.jobs import _cache
from holdfast.jobs._binding import Inputs
from holdfast.jobs._calls import Call
from holdfast.jobs._categories import category_of
from holdfast.jobs._compile import compile_flow
from holdfast.jobs._fields import check_fields
from holdfast.jobs._functions import find_function
from holdfast.jobs._masking import masked
from holdfast.jobs._meter import JobMeter
from holdfast.jobs._scope import Scope
from holdfast.jobs._time import bounded
from holdfast.runs import Run


class Given(Struct, frozen=True, eq=False):
    """What an execution is given, or why it cannot be."""

    inputs: dict[str, Any]
    items: tuple[Any, ...] = ()
    attempt: int = 1
    problem: Exception | None = None


class JobProgram:
    """The steps of one flow of a job."""

    def __init__(self, run: Run, scope: Scope) -> None:
        self.graph: Graph = compile_flow(scope.flow)
        self.subjects: Mapping[str, Subject] = {step.name: Subject(task_name=step.name) for step in scope.flow.steps}
        self.scope = scope
        self._run = run
        self._inputs = {step.name: Inputs(step, scope.variables) for step in scope.flow.steps}
        self._direct = {
            name: call for step in scope.flow.steps if (call := _direct(step, scope)) for name in [step.name]
        }
        """Functions that can be called where the scheduler stands."""

    def spec(self, step: str) -> StepSpec:
        return self.scope.flow.by_name[step]

    def inputs(self, step: str) -> Inputs:
        return self._inputs[step]

    # -- what the scheduler calls ----------------------------------------------------------------------------------

    def is_async(self, step: str) -> bool:
        return step not in self._direct

    def call(self, execution: Execution, given: Given) -> Any:
        if execution.step in self._direct:
            return self._call_here(execution, given)
        return self._call(execution, given)

    def route(self, step: str, result: Any) -> str | None:
        return None

    def items(self, step: str, result: Any) -> int | None:
        return None

    def _call_here(self, execution: Execution, given: Given) -> dict[str, Any]:
        step = self.spec(execution.step)
        self._check_given(step, given)
        return self._checked(step, self._direct[step.name](**given.inputs))

    async def _call(self, execution: Execution, given: Given) -> dict[str, Any]:
        step = self.spec(execution.step)
        await self._delay(execution)
        self._check_given(step, given)
        meter = JobMeter(f"step {step.name}", step.limits, outer=self.scope.meter)
        meter.check()
        executor = step.fallback.executor if execution.fallback and step.fallback is not None else step.executor
        call = Call(step, executor, given.inputs, execution, self._run, self.scope, meter, given.attempt, given.items)
        work = self.scope.engine.registry.find(executor)
        for request in step.resources:
            await self._hold(request)
        key = _cache.key_of(call) if step.cache is not None else ""
        if key and (known := await self.scope.engine.cache.get(key, call.now_us)) is not None:
            return self._checked(step, known)
        outputs = self._checked(step, await bounded(call, work(call)))
        if key and step.cache is not None:
            ttl = step.cache.ttl_seconds
            await self.scope.engine.cache.put(key, outputs, call.now_us, None if ttl is None else round(ttl * 1e6))
        return outputs

    async def _hold(self, request: ResourceRequest) -> None:
        """Have the run hold what a step asks for; it is given back with the run, on every way out."""
        maker = self.scope.engine.resources.get(request.kind)
        if maker is None:
            known = ", ".join(self.scope.engine.resources) or "none"
            raise JobStepError(
                f"there is no resource of kind {request.kind!r}; this worker knows {known}", category="configuration"
            )
        self._run.own(await maker(self._run, dict(request.options)))

    async def _delay(self, execution: Execution) -> None:
        left = execution.not_before_us - self._run.host.clock.time_ns() // 1000
        if left > 0:
            await self._run.host.clock.sleep(left / 1e6)

    def _check_given(self, step: StepSpec, given: Given) -> None:
        if given.problem is not None:
            raise given.problem
        self._inputs[step.name].holds(given.inputs)  # one that cannot be evaluated fails the step
        for limits, kind in ((self.scope.flow.limits, JobLimitError), (step.limits, JobStepError)):
            most = limits.max_iterations
            if most is not None and given.attempt > most:
                raise kind(
                    f"step {step.name} would run for the {given.attempt}th time, and may run {most} times (max_iterations)",
                    category="limit",
                )

    def _checked(self, step: StepSpec, raw: Any) -> dict[str, Any]:
        """What a step gave, if that is what it declares and can be stored. Raises JobStepError."""
        outputs = {} if raw is None else raw
        if not isinstance(outputs, dict):
            outputs = {"result": outputs}
        secrets = self.scope.shared.secrets
        outputs = (
            masked(check_fields(step.outputs, outputs), secrets) if secrets else check_fields(step.outputs, outputs)
        )
        try:
            kept: dict[str, Any] = plain(outputs)
            size = len(encode_plain(kept))
        except NotStorableError as error:
            raise JobStepError(f"its outputs cannot be stored: {error}", category="output") from error
        most = self.scope.engine.output_cap
        if size > most:
            raise JobStepError(
                f"its outputs are {size:,} bytes, and may be {most:,}: write a file and give its path",
                category="output",
            )
        return kept

    # -- what is told ----------------------------------------------------------------------------------------------

    def event(self, fact: Fact, result: Any, error: BaseException | None) -> tuple[type[BaseEvent], dict[str, Any]]:
        if isinstance(fact, Started):
            told: dict[str, Any] = {"uses": list(fact.uses), "tries": fact.tries, "fallback": fact.fallback}
            return StepStartedEvent, self._about(fact, attempt=result.attempt, **told)
        if isinstance(fact, Completed):
            return StepCompletedEvent, self._about(fact, result=result, verdict=_told(fact.verdict))
        if isinstance(fact, Failed):
            assert error is not None
            text = masked(str(error), self.scope.shared.secrets)
            told = {"error": text, "error_type": type(error).__name__, "error_category": category_of(error)}
            return StepFailedEvent, self._about(fact, **told, verdict=_told(fact.verdict))
        if isinstance(fact, Waiting):
            wait = error.requests[0]  # type: ignore[union-attr]
            ask = msgspec.to_builtins(wait.asks[0]) if wait.asks else {}
            reason = wait.held or ("waits for an answer" if wait.asks else "waits for a time")
            return StepWaitingEvent, self._about(
                fact, reason=reason, ask=ask, until_us=fact.until_us, since_us=fact.since_us
            )
        if isinstance(fact, Cancelled):
            return StepCancelledEvent, self._about(fact, reason=self._run.end_reason)
        raise TypeError(f"no event tells of {fact}")

    def _about(self, fact: Any, **more: Any) -> dict[str, Any]:
        return {"name": fact.step, "step": fact.step, "execution": fact.number, **more}


def _told(verdict: Verdict | None) -> dict[str, Any]:
    if verdict is None or verdict == _PLAIN:
        return {}
    told = msgspec.structs.asdict(verdict)
    return {name: value for name, value in told.items() if value}


_PLAIN = Verdict("advance")


def _direct(step: StepSpec, scope: Scope) -> Callable[..., Any] | None:
    """A plain function that nothing bounds in time: it needs no task of its own."""
    is_bounded = step.retry or step.timeout_seconds or step.cache or step.fallback or step.limits.max_duration_minutes
    if step.kind != "python" or is_bounded or step.resources or isinstance(step.executor, ForEach):
        return None
    try:
        found = find_function(step.executor, scope.flow.directory)
    except JobStepError:  # said when it is called
        return None
    return None if asyncio.iscoroutinefunction(found) else found
