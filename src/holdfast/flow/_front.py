"""A flow object as something that can be kicked off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

import msgspec
from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from holdfast.checkpoints import AgentUse, CheckpointConfig, Restored
from holdfast.errors import UsageError
from holdfast.events._base import BaseEvent
from holdfast.events.families.flow import (
    FlowCancelledEvent,
    FlowFailedEvent,
    FlowFinishedEvent,
    FlowPausedEvent,
    FlowStartedEvent,
)
from holdfast.flow._human import SUFFIX
from holdfast.flow._persist import Saving
from holdfast.flow._program import FlowProgram
from holdfast.graph import Graph
from holdfast.human import HumanFeedbackResult
from holdfast.kickoff import Asking, Budget, Kickoff, Meter, Moment, check_inputs
from holdfast.ports import HumanRequest
from holdfast.runs import Run

if TYPE_CHECKING:
    from holdfast.flow._flow import Flow


class FlowFront:
    """Stands between a flow and its kickoffs, so that the names of what they need are not taken from its methods."""

    kind = "flow"
    is_apart = False

    def __init__(self, flow: Flow[Any]) -> None:
        if not hasattr(flow, "_starter"):
            raise UsageError(f"{type(flow).__name__}.__init__ must call super().__init__(), with the arguments of Flow")
        self.entity = flow
        self._shape = flow.compiled()

    @property
    def name(self) -> str:
        return self.entity.name

    @property
    def made_by(self) -> str:
        return made_by_of(type(self.entity))

    @property
    def graph(self) -> Graph:
        return self._shape.graph

    @property
    def checkpoint(self) -> CheckpointConfig | None:
        return self.entity.checkpoint

    @property
    def state_example(self) -> Any:
        return self.entity.state_example

    @property
    def on_state_conflict(self) -> Literal["fail", "last"]:
        return self.entity.on_state_conflict

    @property
    def budget(self) -> Budget | None:
        return self.entity.budget

    @property
    def is_async(self) -> bool:
        return bool(self._shape.awaited)

    @property
    def may_ask(self) -> bool:
        return self._shape.asks

    def program(self, run: Run, asking: Asking, done: Mapping[str, Any]) -> FlowProgram:
        return FlowProgram(self.entity, self._shape, asking, done)

    def stored(self, config: CheckpointConfig) -> dict[str, Any]:
        return {}

    def outcome(self, results: Mapping[str, Any], last: Any, meter: Meter) -> Any:
        return last

    def check_inputs(self, restored: Restored, inputs: Mapping[str, Any]) -> None:
        check_inputs(restored, inputs)

    def reach(self, used: Mapping[str, AgentUse]) -> None:
        """A flow's own methods use nothing."""

    def saver(self, run: Run) -> Saving | None:
        return Saving.begin(run, self.name, self._shape.persist)

    def event(self, moment: Moment, **about: Any) -> tuple[type[BaseEvent], dict[str, Any]]:
        if moment == "failed":
            error = about["error"]
            about = {"error": str(error), "error_type": type(error).__name__}
        elif moment == "paused":
            about = _question(about["request"])
        return _EVENTS[moment], {"flow_name": self.name, **about}

    def begins(self, run_id: str, kickoff: Kickoff) -> None:
        self.entity.keep_kickoff(run_id, kickoff)

    def ends(self, run_id: str) -> None:
        self.entity.forget_kickoff(run_id)

    def put_down(self, run_id: str, requests: tuple[HumanRequest, ...]) -> None:
        self.entity.put_down(run_id, requests)

    # -- stored results --------------------------------------------------------------------------------------------

    def typed(self, step: str, result: Any) -> Any:
        """With the type that the method's annotation gives it; plain data where there is none, or it does not fit."""
        if step.endswith(SUFFIX):
            return self._typed_feedback(step, result)
        try:
            kind = get_type_hints(getattr(type(self.entity), step)).get("return")
            return result if kind is None else TypeAdapter(kind).validate_python(result, strict=False)
        except (AttributeError, NameError, TypeError, ValidationError, PydanticSchemaGenerationError):
            return result

    def _typed_feedback(self, step: str, result: Any) -> Any:
        try:
            said = msgspec.convert(result, HumanFeedbackResult)
        except msgspec.ValidationError:
            return result
        return msgspec.structs.replace(said, output=self.typed(step.removesuffix(SUFFIX), said.output))


_EVENTS: dict[Moment, type[BaseEvent]] = {
    "started": FlowStartedEvent,
    "finished": FlowFinishedEvent,
    "failed": FlowFailedEvent,
    "cancelled": FlowCancelledEvent,
    "paused": FlowPausedEvent,
}


def _question(first: HumanRequest | None) -> dict[str, Any]:
    if first is None:
        return {}
    return {"method_name": first.method_name, "message": first.message, "emit": list(first.options)}


def made_by_of(kind: type) -> str:
    """How a flow class is named in a journal."""
    return f"{kind.__module__}:{kind.__qualname__}"
