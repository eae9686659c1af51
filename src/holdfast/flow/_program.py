"""A flow object as a program the scheduler can drive."""

from __future__ import annotations

from collections.abc import Mapping
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from holdfast.context import Subject, is_async_callable
from holdfast.errors import AnswerPendingError, StepFailedError
from holdfast.events._base import BaseEvent
from holdfast.events.families.flow import (
    MethodExecutionCancelledEvent,
    MethodExecutionFailedEvent,
    MethodExecutionFinishedEvent,
    MethodExecutionPausedEvent,
    MethodExecutionStartedEvent,
)
from holdfast.flow._compile import FlowShape
from holdfast.flow._decorators import route_name
from holdfast.flow._human import SUFFIX, Gate
from holdfast.graph import Cancelled, Completed, Execution, Fact, Failed, Started, Waiting
from holdfast.human import HumanFeedbackResult
from holdfast.kickoff import Asking
from holdfast.ports import HumanProvider

if TYPE_CHECKING:
    from holdfast.flow._flow import Flow


class FlowProgram:
    """Calls a flow's methods, asks at its gates, and names the events that tell of them."""

    def __init__(self, flow: Flow[Any], shape: FlowShape, asking: Asking, done: Mapping[str, Any]) -> None:
        self.graph = shape.graph
        self._nodes = shape.graph.by_name
        self.subjects: Mapping[str, Subject] = {}
        self._flow = flow
        self._shape = shape
        self._asking = asking
        self._done = done
        """What executions returned that only have to be merged."""

    def is_async(self, step: str) -> bool:
        shape = self._shape
        if shape.gates and (gate := shape.gates.get(step)) is not None:
            return is_async_callable(self._provider(gate).request)
        return step in shape.awaited

    def call(self, execution: Execution, given: Any) -> Any:
        step, shape = execution.step, self._shape
        if self._done and execution.key in self._done:
            result = self._done[execution.key]
            return _at_once(result) if self.is_async(step) else result
        if shape.gates and (gate := shape.gates.get(step)) is not None:
            ask = self._afeedback if self.is_async(step) else self._feedback
            return ask(gate, step.removesuffix(SUFFIX), given)
        method = getattr(self._flow, step)
        result = method(given) if step in shape.takes_result and execution.cause is not None else method()
        if type(result) is CoroutineType and step not in shape.awaited:
            result.close()
            raise StepFailedError(
                f"step {step} is no `async def` and returned a coroutine, which nobody awaits: make it one"
            )
        return result

    def _provider(self, gate: Gate) -> HumanProvider:
        return gate.provider or self._flow.human

    def _feedback(self, gate: Gate, method: str, output: Any) -> HumanFeedbackResult:
        return self._said(gate, method, output, self._asking.ask(self._request(gate, output), self._provider(gate)))

    async def _afeedback(self, gate: Gate, method: str, output: Any) -> HumanFeedbackResult:
        answer = await self._asking.aask(self._request(gate, output), self._provider(gate))
        return self._said(gate, method, output, answer)

    def _request(self, gate: Gate, output: Any) -> Any:
        about = {"output": output, "options": gate.emit, "metadata": dict(gate.metadata)}
        return self._asking.request("feedback", gate.message, gate.timeout, **about)

    def _said(self, gate: Gate, method: str, output: Any, answer: str | None) -> HumanFeedbackResult:
        outcome = gate.outcome_of(method, answer)
        at_us = self._asking.now_us()
        return HumanFeedbackResult(output, answer or "", outcome, method, at_us, dict(gate.metadata))

    def route(self, step: str, result: Any) -> str | None:
        routes = self._nodes[step].routes
        if type(result) is str and result in routes:  # as nearly always
            return result
        return result.outcome if isinstance(result, HumanFeedbackResult) else route_name(step, result, routes)

    def items(self, step: str, result: Any) -> int | None:
        if isinstance(result, list | tuple):
            return len(result)
        raise StepFailedError(
            f"step {step} returned a {type(result).__name__}, but something is to run for each item of its result: "
            f"return a list"
        )

    def event(self, fact: Fact, result: Any, error: BaseException | None) -> tuple[type[BaseEvent], dict[str, Any]]:
        name = self._flow.name
        if type(fact) is Started:  # first what every step tells
            params = {} if result is None else {"result": result}
            return MethodExecutionStartedEvent, {
                "flow_name": name, "method_name": fact.step, "execution": fact.number, "params": params,
            }  # fmt: skip
        if type(fact) is Completed:
            return MethodExecutionFinishedEvent, {
                "flow_name": name, "method_name": fact.step, "execution": fact.number,
                "result": result, "route": fact.route, "items": fact.items,
            }  # fmt: skip
        assert isinstance(fact, Failed | Waiting | Cancelled), f"no event tells of {fact}"
        told = {"flow_name": name, "method_name": fact.step, "execution": fact.number}
        if isinstance(fact, Failed):
            return MethodExecutionFailedEvent, told | {"error": str(error), "error_type": type(error).__name__}
        if isinstance(fact, Waiting):
            return MethodExecutionPausedEvent, told | _question(error)
        return MethodExecutionCancelledEvent, told


async def _at_once(result: Any) -> Any:
    return result


def _question(error: BaseException | None) -> dict[str, Any]:
    """What a step that waits has asked."""
    requests: Any = error.requests if isinstance(error, AnswerPendingError) else ()
    return {"message": requests[0].message, "emit": list(requests[0].options)} if requests else {}
