"""A flow object as a program the scheduler can drive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.events._base import BaseEvent
from holdfast.events.families.flow import (
    FlowStartedEvent,
    MethodExecutionCancelledEvent,
    MethodExecutionFailedEvent,
    MethodExecutionFinishedEvent,
    MethodExecutionPausedEvent,
    MethodExecutionStartedEvent,
)
from holdfast.flow._compile import FlowShape
from holdfast.flow._decorators import route_name
from holdfast.graph import Began, Cancelled, Completed, Execution, Fact, Failed, Started, Waiting

if TYPE_CHECKING:
    from holdfast.flow._flow import Flow


class FlowProgram:
    """Calls a flow's methods and names the events that tell of them."""

    def __init__(self, flow: Flow[Any], shape: FlowShape) -> None:
        self.graph = shape.graph
        self._flow = flow
        self._shape = shape

    def is_async(self, step: str) -> bool:
        return step in self._shape.awaited

    def call(self, execution: Execution, given: Any) -> Any:
        method = getattr(self._flow, execution.step)
        if execution.cause is not None and execution.step in self._shape.takes_result:
            return method(given)
        return method()

    def route(self, step: str, result: Any) -> str | None:
        return route_name(result)

    def event(self, fact: Fact, result: Any, error: BaseException | None) -> tuple[type[BaseEvent], dict[str, Any]]:
        if isinstance(fact, Started):
            params = {} if result is None else {"result": result}
            return MethodExecutionStartedEvent, self._about(fact.step, fact.number, params=params)
        if isinstance(fact, Completed):
            return MethodExecutionFinishedEvent, self._about(fact.step, fact.number, result=result, route=fact.route)
        if isinstance(fact, Failed):
            told = {"error": str(error), "error_type": type(error).__name__}
            return MethodExecutionFailedEvent, self._about(fact.step, fact.number, **told)
        if isinstance(fact, Waiting):
            return MethodExecutionPausedEvent, self._about(fact.step, fact.number)
        if isinstance(fact, Cancelled):
            return MethodExecutionCancelledEvent, self._about(fact.step, fact.number)
        raise TypeError(f"no event tells of {fact}")

    def _about(self, step: str, number: int, **more: Any) -> dict[str, Any]:
        return {"flow_name": self._flow.name, "method_name": step, "execution": number, **more}


def fact_of(event: BaseEvent) -> tuple[Fact, Any] | None:
    """The fact that an event of a flow tells of, with the result if there is one; None for any other event."""
    if isinstance(event, FlowStartedEvent):
        return Began(), None
    if isinstance(event, MethodExecutionStartedEvent):
        return Started(event.method_name, event.execution), None
    if isinstance(event, MethodExecutionFinishedEvent):
        return Completed(event.method_name, event.execution, event.route), event.result
    if isinstance(event, MethodExecutionFailedEvent):
        return Failed(event.method_name, event.execution, f"{event.error_type}: {event.error}"), None
    if isinstance(event, MethodExecutionCancelledEvent):
        return Cancelled(event.method_name, event.execution), None
    if isinstance(event, MethodExecutionPausedEvent):
        return Waiting(event.method_name, event.execution), None
    return None
