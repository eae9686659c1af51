"""One piece of work for an agent, as something that can be kicked off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from pydantic import BaseModel

from holdfast.agents._forms import read_form
from holdfast.agents._history import Condensed, History, Policy, Turn
from holdfast.agents._loop import GRAPH, AgentProgram
from holdfast.agents._outputs import AgentOutput
from holdfast.agents._stored import dump_agent
from holdfast.checkpoints import CheckpointConfig
from holdfast.events._base import BaseEvent
from holdfast.events.families.agent import (
    AgentExecutionCancelledEvent,
    AgentExecutionCompletedEvent,
    AgentExecutionErrorEvent,
    AgentExecutionPausedEvent,
    AgentExecutionStartedEvent,
)
from holdfast.graph import Graph
from holdfast.kickoff import Asking, Budget, Kickoff, Moment
from holdfast.models import Message, Model, ModelSettings, ToolMessage, dump_messages, load_messages
from holdfast.ports import HumanRequest, Usage
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


class AgentFront:
    """One piece of work of one agent."""

    kind = "agent"
    graph: Graph = GRAPH
    state_example: Any = dict
    on_state_conflict: Literal["fail", "last"] = "fail"
    is_async = True
    may_ask = False

    def __init__(self, agent: Agent, model: Model, work: Work) -> None:
        self.entity = agent
        self._model = model
        self._work = work
        self._kickoff: Kickoff | None = None

    @property
    def name(self) -> str:
        return self._work.name

    @property
    def made_by(self) -> str:
        return f"{type(self.entity).__module__}:{type(self.entity).__qualname__}"

    @property
    def checkpoint(self) -> CheckpointConfig | None:
        return self.entity.checkpoint_config

    @property
    def budget(self) -> Budget | None:
        return self.entity.whole_budget

    @property
    def inputs(self) -> dict[str, Any]:
        """What a run of it begins with, and is stored."""
        return {"messages": dump_messages(self._work.messages)}

    def program(self, run: Run, asking: Asking, done: Mapping[str, Any]) -> AgentProgram:
        kickoff = self._kickoff
        assert kickoff is not None
        place = run.place
        subject = msgspec.structs.replace(place.subject, agent_id=self.entity.id, agent_role=self.entity.role)
        run.place = msgspec.structs.replace(place, subject=subject)
        first = load_messages(kickoff.cell.current()["messages"])
        return AgentProgram(run, self._work, self._model, first, kickoff.recorded())

    def typed(self, step: str, result: Any) -> Any:
        kind: Any = {"think": Turn, "act": ToolMessage, "condense": Condensed}[step]
        return msgspec.convert(result, kind)

    def stored(self, config: CheckpointConfig) -> dict[str, Any]:
        if not config.self_contained:
            return {}
        form = self._work.form
        return {"agent": dump_agent(self.entity), "form": dump_class(form, "$.response_format") if form else None}

    @property
    def is_apart(self) -> bool:
        return self.entity.checkpoint is False

    def outcome(self, results: Mapping[str, Any], last: Any) -> AgentOutput:
        turns = History((), results).turns
        raw = turns[-1].text
        form = self._work.form
        usage = sum((result.usage for result in results.values() if isinstance(result, Turn | Condensed)), Usage())
        return AgentOutput(raw, read_form(raw, form) if form else None, self.entity.role, len(turns), usage)

    def saver(self, run: Run) -> None:
        return None

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

    def begins(self, run_id: str, kickoff: Kickoff) -> None:
        self._kickoff = kickoff
        self.entity.latest = kickoff

    def ends(self, run_id: str) -> None:
        self._kickoff = None

    def put_down(self, run_id: str, requests: tuple[HumanRequest, ...]) -> None:
        self.entity.starter.put_down(run_id, requests)


def _text_of(messages: Sequence[Message]) -> str:
    """The prompt: the last thing that the model is told first."""
    last = messages[-1] if messages else None
    return getattr(last, "text", "")
