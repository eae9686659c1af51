"""One piece of work for an agent, as something that can be kicked off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from pydantic import BaseModel

from holdfast.agents._forms import read_form
from holdfast.agents._history import Condensed, History, Policy, Turn
from holdfast.agents._loop import GRAPH, AgentProgram
from holdfast.agents._outputs import AgentOutput
from holdfast.agents._resumable import ResumableFront
from holdfast.agents._secrets import supply_secrets
from holdfast.agents._stored import Shelf, dump_agent
from holdfast.agents._uses import reach_uses
from holdfast.checkpoints import AgentUse, CheckpointConfig, Restored
from holdfast.errors import StorageError, UsageError
from holdfast.events._base import BaseEvent
from holdfast.events.families.agent import (
    AgentExecutionCancelledEvent,
    AgentExecutionCompletedEvent,
    AgentExecutionErrorEvent,
    AgentExecutionPausedEvent,
    AgentExecutionStartedEvent,
)
from holdfast.graph import Graph
from holdfast.kickoff import Asking, Budget, Meter, Moment
from holdfast.models import Message, Model, ModelSettings, RequestLimits, ToolMessage, dump_messages, load_messages
from holdfast.ports import HumanRequest
from holdfast.runs import Run
from holdfast.tools import BaseTool, dump_class

if TYPE_CHECKING:
    from holdfast.agents._agent import Agent


class Work(Struct, frozen=True, kw_only=True):
    """What an agent is to do, and how."""

    name: str
    messages: Sequence[Message]
    """what the model is told first"""
    tools: Sequence[BaseTool] = ()
    form: type[BaseModel] | None = None
    """the form its answer must have"""
    settings: ModelSettings = ModelSettings()
    max_turns: int = 25
    on_overflow: Policy = "summarise"
    limits: RequestLimits | None = None


class AgentFront(ResumableFront["Agent"]):
    """One piece of work of one agent."""

    kind = "agent"
    graph: Graph = GRAPH
    may_ask = False

    def __init__(self, agent: Agent, model: Model, work: Work) -> None:
        super().__init__(agent)
        self._model = model
        self._work = work

    @property
    def name(self) -> str:
        return self._work.name

    @property
    def budget(self) -> Budget | None:
        return self.entity.whole_budget

    @property
    def inputs(self) -> dict[str, Any]:
        """What a run of it begins with, and is stored."""
        return {"messages": dump_messages(self._work.messages)}

    def program(self, run: Run, asking: Asking, done: Mapping[str, Any]) -> AgentProgram:
        supply_secrets(self._work.tools, run, self.checkpoint)
        place = run.place
        subject = msgspec.structs.replace(place.subject, agent_id=self.entity.id, agent_role=self.entity.role)
        run.place = msgspec.structs.replace(place, subject=subject)
        first = load_messages(self.kickoff.cell.current()["messages"])
        return AgentProgram(run, self._work, self._model, first, self.kickoff.recorded())

    def typed(self, step: str, result: Any) -> Any:
        kind: Any = {"think": Turn, "act": ToolMessage, "condense": Condensed}[step]
        return msgspec.convert(result, kind)

    def stored(self, config: CheckpointConfig) -> dict[str, Any]:
        if not config.self_contained:
            return {}
        form, shelf = self._work.form, Shelf()
        agent = dump_agent(self.entity, "$", shelf)
        return {
            "agent": agent,
            "shared": shelf.stored(),
            "form": dump_class(form, "$.response_format") if form else None,
        }

    def outcome(self, results: Mapping[str, Any], last: Any, meter: Meter) -> AgentOutput:
        turns = History((), results).turns
        raw = turns[-1].text
        form = self._work.form
        return AgentOutput(raw, read_form(raw, form) if form else None, self.entity.role, len(turns), meter.used)

    def check_inputs(self, restored: Restored, inputs: Mapping[str, Any]) -> None:
        if restored.is_begun and inputs:
            raise UsageError("a run that is taken up has its prompt already: kickoff(from_checkpoint=…) alone")
        if not restored.is_begun and not inputs:
            raise StorageError(
                f"run {restored.info.root_run_id} was killed before its prompt was written down: give it again, "
                f"kickoff(prompt, from_checkpoint=…)"
            )

    def reach(self, used: Mapping[str, AgentUse]) -> None:
        reach_uses([(self.entity, self._work.tools)], used)

    def event(self, moment: Moment, **about: Any) -> tuple[type[BaseEvent], dict[str, Any]]:
        if moment == "started":
            del about["inputs"]  # they are in the state
            tools = [tool.call_name for tool in self._work.tools]
            return AgentExecutionStartedEvent, {"task_prompt": _text_of(self._work.messages), "tools": tools, **about}
        if moment == "finished":
            output: AgentOutput = about["result"]
            return AgentExecutionCompletedEvent, {"output": output.raw, "iterations": output.turns}
        if moment == "failed":
            error = about["error"]
            return AgentExecutionErrorEvent, {"error": str(error), "error_type": type(error).__name__}
        if moment == "paused":
            request: HumanRequest | None = about["request"]
            return AgentExecutionPausedEvent, {"message": request.message if request else ""}
        return AgentExecutionCancelledEvent, about


def _text_of(messages: Sequence[Message]) -> str:
    """The prompt: the last thing that the model is told first."""
    last = messages[-1] if messages else None
    return getattr(last, "text", "")
