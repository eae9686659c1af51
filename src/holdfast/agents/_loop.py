"""The loop of an agent as a graph: think, act on what the model asks for, think again, until there is an answer.

    think ──answer──▶ (done)
      │ ▲
      │ ├── again: the answer was empty, or not in the form that was asked for
      │ ├── condense ◀── overflow: the messages did not fit
      │ └── every act is done
      └──▶ act, once for each tool call, all at once

Each execution is a pair of events, `llm_call_*` or `tool_usage_*`, and its result is in the second: the conversation is what
these results amount to (`History`), live and after a crash alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.agents._calls import ModelCall
from holdfast.agents._forms import read_form
from holdfast.agents._history import Condensed, History, Turn, transcript
from holdfast.agents._prompts import EMPTY, LAST_TURN, LEFT_OUT, SUMMARISE, misfit_prompt
from holdfast.context import Subject
from holdfast.errors import AgentError, AnswerPendingError, ContextLengthError
from holdfast.events._base import BaseEvent
from holdfast.events.families.llm import (
    LLMCallCancelledEvent,
    LLMCallCompletedEvent,
    LLMCallFailedEvent,
    LLMCallPausedEvent,
    LLMCallStartedEvent,
    LLMContextOverflowEvent,
)
from holdfast.events.families.tool import (
    ToolSelectionErrorEvent,
    ToolUsageCancelledEvent,
    ToolUsageErrorEvent,
    ToolUsageFinishedEvent,
    ToolUsageLimitReachedEvent,
    ToolUsagePausedEvent,
    ToolUsageStartedEvent,
    ToolValidateInputErrorEvent,
)
from holdfast.graph import (
    BEGINNING,
    AnyOf,
    Cancelled,
    Completed,
    Execution,
    Fact,
    Failed,
    Graph,
    Node,
    Source,
    Started,
    Waiting,
    each_label,
    gathered_label,
    route_label,
)
from holdfast.models import (
    AssistantMessage,
    Message,
    Model,
    ModelSettings,
    ToolCall,
    ToolMessage,
    UserMessage,
    dump_messages,
)
from holdfast.ports import Usage
from holdfast.runs import Run
from holdfast.tools import Toolbox, ToolCache, ToolHost, ToolResult

if TYPE_CHECKING:
    from holdfast.agents._work import Work

GIVEN_UP_AFTER = 3
"""How many answers in a row may be empty or in the wrong form."""

_AGAIN = AnyOf(
    (Source(BEGINNING), Source(route_label("again")), Source("condense"), Source(gathered_label("act"))),
)
GRAPH = Graph(
    "agent",
    (
        Node("think", _AGAIN, is_router=True, routes=("act", "again", "answer", "overflow")),
        Node("act", Source(each_label("think"))),
        Node("condense", Source(route_label("overflow"))),
    ),
    max_calls=100_000,  # the agent's own limit comes first
    keeps_results=True,
)


class AgentProgram:
    """Runs the loop for one piece of work."""

    graph = GRAPH

    def __init__(
        self, run: Run, work: Work, model: Model, first: Sequence[Message], recorded: Mapping[str, Any]
    ) -> None:
        self.subjects: Mapping[str, Subject] = {}
        self._run = run
        self._work = work
        self._model = model
        self._ask = ModelCall(run, model, work.limits)
        self._tools = Toolbox(work.tools)
        self._specs = self._tools.specs
        self._host = ToolHost(
            run.host.threads, run.host.clock, ToolCache(), lambda name, thread: run.host.disown(run.id, name, thread)
        )
        self.history = History(first, recorded)
        self._used: dict[str, ToolResult] = {}
        """What tools gave, until it is told."""
        self._answered: Usage | None = None
        """What the answer used that the model call under way got, until it is told whether it counts."""

    # -- what the scheduler calls ------------------------------------------------------------------------------------

    def is_async(self, step: str) -> bool:
        return True

    async def call(self, execution: Execution, given: Any) -> Any:
        if execution.step == "act":
            result: Any = await self._act(execution, given)
        elif execution.step == "condense":
            result = await self._condense(execution)
        else:
            result = await self._think(execution)
        self.history.add(execution.key, result)
        return result

    def route(self, step: str, result: Any) -> str | None:
        if result.overflowed:
            return "overflow"
        if result.follow_up:
            return "again"
        return "act" if result.message.tool_calls else "answer"

    def items(self, step: str, result: Any) -> int | None:
        return len(result.message.tool_calls) or None

    # -- think -------------------------------------------------------------------------------------------------------

    async def _think(self, execution: Execution) -> Turn:
        messages = self.history.messages()
        if self._is_last_turn:
            messages.append(UserMessage(LAST_TURN))
        specs = [] if self._is_last_turn else self._specs
        try:
            reply = await self._ask.ask(self._call_id(execution), messages, specs, self._work.settings)
        except ContextLengthError:
            if not self._can_shorten(execution):
                raise
            return Turn(AssistantMessage(), Usage(), overflowed=True)
        self._answered = reply.usage
        turn = Turn(**msgspec.structs.asdict(reply))
        if self._is_last_turn and turn.message.tool_calls:
            raise AgentError(
                f"{self._work.name} asked for tools in its last turn, its {self._work.max_turns}th; raise max_iter, or give "
                f"it a smaller task"
            )
        return self._judged(turn)

    @property
    def _is_last_turn(self) -> bool:
        return len(self.history.turns) + 1 >= self._work.max_turns

    def _judged(self, turn: Turn) -> Turn:
        """The turn, with what the model is told if its answer cannot count. Raises AgentError if that went on too long."""
        why = self._misfit(turn)
        if not why:
            return turn
        if self._is_last_turn:
            raise AgentError(f"the answer of {self._work.name} in its last turn cannot count: {why}; raise max_iter")
        earlier = self.history.turns[1 - GIVEN_UP_AFTER :]
        if len(earlier) == GIVEN_UP_AFTER - 1 and all(one.follow_up for one in earlier):
            raise AgentError(f"{self._work.name} gave {GIVEN_UP_AFTER} answers in a row that cannot count: {why}")
        return msgspec.structs.replace(turn, follow_up=why)

    def _misfit(self, turn: Turn) -> str:
        if turn.message.tool_calls:
            return ""
        if not turn.text.strip():
            return EMPTY
        if self._work.form is None:
            return ""
        try:
            read_form(turn.text, self._work.form)
        except ValueError as error:
            return misfit_prompt(str(error))
        return ""

    # -- condense ----------------------------------------------------------------------------------------------------

    def _can_shorten(self, execution: Execution) -> bool:
        """Whether a conversation that does not fit can be put shorter; tells of it."""
        policy = self._work.on_overflow
        can = policy != "fail" and bool(self.history.to_condense()[1])
        self._run.tell(
            LLMContextOverflowEvent,
            call_id=self._call_id(execution),
            model=self._model.name,
            action=policy if can else "fail",
        )
        return can

    async def _condense(self, execution: Execution) -> Condensed:
        turns, said = self.history.to_condense()
        if self._work.on_overflow == "truncate":
            return Condensed(turns, LEFT_OUT)
        messages: list[Message] = [UserMessage(f"{SUMMARISE}\n\n{transcript(said)}")]
        reply = await self._ask.ask(self._call_id(execution), messages, (), ModelSettings())
        return Condensed(turns, f"[What happened so far, in short]\n{reply.text}", reply.usage)

    # -- act ---------------------------------------------------------------------------------------------------------

    async def _act(self, execution: Execution, call: ToolCall) -> ToolMessage:
        result = await self._tools.call(call, self._host)
        self._used[execution.key] = result
        about = {"tool_name": call.name, "call_id": call.id}
        if result.outcome == "unknown":
            self._run.tell(ToolSelectionErrorEvent, **about, error=result.error)
        elif result.outcome == "invalid":
            self._run.tell(ToolValidateInputErrorEvent, **about, tool_args=call.arguments, error=result.error)
        elif result.outcome == "limit":
            tool = self._tools.get(call.name)
            self._run.tell(ToolUsageLimitReachedEvent, **about, limit=(tool and tool.max_usage_count) or 0)
        return ToolMessage(call.id, call.name, result.text, result.is_error)

    # -- what is told ------------------------------------------------------------------------------------------------

    def event(self, fact: Fact, result: Any, error: BaseException | None) -> tuple[type[BaseEvent], dict[str, Any]]:
        assert isinstance(fact, Started | Completed | Failed | Cancelled | Waiting)
        about = {"step": fact.step, "execution": fact.number}
        tell = self._tool_event if fact.step == "act" else self._model_event
        event_type, more = tell(fact, result, error)
        return event_type, about | more

    def _model_event(
        self, fact: Fact, result: Any, error: BaseException | None
    ) -> tuple[type[BaseEvent], dict[str, Any]]:
        if isinstance(fact, Waiting):
            return LLMCallPausedEvent, _question(error)
        about: dict[str, Any] = {"call_id": f"{self._run.id}/{fact.step}#{fact.number}", "model": self._model.name}  # type: ignore[union-attr]
        if isinstance(fact, Started):
            self._answered = None
            said = self.history.messages()
            told = dump_messages(self.history.unsaid())
            names = [spec.name for spec in self._specs]
            return LLMCallStartedEvent, about | {"new_messages": told, "message_count": len(said), "tools": names}
        if isinstance(fact, Completed):
            return LLMCallCompletedEvent, about | _told_reply(fact, result)
        if isinstance(fact, Failed):
            about |= {"error": str(error), "error_type": type(error).__name__}
            return LLMCallFailedEvent, about | _told_usage(self._answered)
        return LLMCallCancelledEvent, about | {"reason": self._run.end_reason}

    def _tool_event(
        self, fact: Fact, result: Any, error: BaseException | None
    ) -> tuple[type[BaseEvent], dict[str, Any]]:
        if isinstance(fact, Started):
            call: ToolCall = result
            return ToolUsageStartedEvent, {
                "tool_name": call.name,
                "call_id": call.id,
                "tool_args": _read(call.arguments),
            }
        if isinstance(fact, Waiting):
            return ToolUsagePausedEvent, {"message": _question(error)["message"]}
        if isinstance(fact, Failed):  # not what a tool did wrong: that is a result. No fact, so it is done again
            told = {"error": str(error), "error_type": type(error).__name__}
            return ToolUsageErrorEvent, {"step": "", "tool_name": "", **told}
        if not isinstance(fact, Completed):
            return ToolUsageCancelledEvent, {"tool_name": "", "reason": self._run.end_reason}
        said: ToolMessage = result
        used = self._used.pop(f"{fact.step}#{fact.number}", ToolResult(said.name, said.text))
        about: dict[str, Any] = {
            "tool_name": said.name,
            "call_id": said.call_id,
            "tool_args": used.arguments,
            "use": used.use,
        }
        if said.is_error:
            return ToolUsageErrorEvent, about | {"error": said.text, "error_type": used.error_type}
        about |= {"text": said.text, "output": used.output, "from_cache": used.from_cache}
        return ToolUsageFinishedEvent, about

    def _call_id(self, execution: Execution) -> str:
        return f"{self._run.id}/{execution.key}"


def _told_reply(fact: Completed, result: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"response": result, "route": fact.route, "items": fact.items}
    finish = result.finish if isinstance(result, Turn) else ""
    return told | {"finish_reason": finish} | _told_usage(result.usage)


def _told_usage(usage: Usage | None) -> dict[str, Any]:
    return {"usage": usage.tokens(), "cost_usd": usage.cost_usd} if usage is not None else {}


def _read(arguments: str) -> dict[str, Any]:
    """A tool's arguments as far as they can be read."""
    try:
        read = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return {"?": arguments}
    return read if isinstance(read, dict) else {"?": arguments}


def _question(error: BaseException | None) -> dict[str, str]:
    """What is waited for: the first question, and its id."""
    requests: Any = error.requests if isinstance(error, AnswerPendingError) else ()
    return {"request_id": requests[0].id, "message": requests[0].message} if requests else {"message": ""}
