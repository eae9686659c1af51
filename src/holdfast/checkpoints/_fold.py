"""What a journal amounts to: the same fold that runs live, over what was recorded of a run and the runs inside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from holdfast.checkpoints._facts import Finisher, Opener, fact_of, result_of
from holdfast.checkpoints._rows import event_of
from holdfast.deltas import Delta, apply, decode_plain, encode_plain
from holdfast.errors import StorageError
from holdfast.events._base import BaseEvent
from holdfast.events.families.agent import AgentExecutionCompletedEvent
from holdfast.events.families.checkpoint import CheckpointRestoredEvent
from holdfast.events.families.flow import FlowInputReceivedEvent, FlowInputRequestedEvent
from holdfast.events.families.human import (
    HumanFeedbackReceivedEvent,
    HumanFeedbackRequestedEvent,
    HumanRequestTimedOutEvent,
)
from holdfast.events.families.job import JobStartedEvent
from holdfast.events.families.llm import LLMCallCompletedEvent, LLMCallFailedEvent, LLMCallPausedEvent
from holdfast.events.families.state import StateConflictEvent
from holdfast.events.families.tool import ToolUsageErrorEvent, ToolUsageFinishedEvent
from holdfast.graph import (
    Completed,
    Fact,
    Failed,
    Graph,
    GraphState,
    StepFailure,
    evolve,
    failure_key,
    failure_label,
    name_all,
    results_needed,
)
from holdfast.graph._cell import Changes
from holdfast.ports import Row, Usage

_KEPT = 64  # results are looked through once there are so many

Spender = LLMCallCompletedEvent | LLMCallFailedEvent | AgentExecutionCompletedEvent
"""Events that tell what was used: of each call, or of an agent program's whole turn."""


class Asked(Struct, frozen=True):
    """A question that was put to a person and is not answered yet."""

    event_id: str
    event: dict[str, Any]
    """the event that told of it, plain"""


class AgentUse(Struct):
    """What one agent has used in a tree."""

    role: str = ""
    usage: Usage = Usage()
    tools: dict[str, int] = {}
    """how often each of its tools was used, by whomever, when it last used it"""


class Unmerged(Struct, frozen=True):
    """What an execution returned and changed that could not be merged."""

    result: Any
    changes: Changes


class Progress(Struct):
    """How far one run of a tree has come."""

    graph: Graph
    """what it was started with"""
    standing: GraphState = GraphState()
    state: dict[str, Any] = {}
    """plain"""
    results: dict[str, Any] = {}
    """by execution key, as long as a step may still be given them"""
    event_ids: dict[str, str] = {}
    """of the events that told of these results"""
    answers: dict[str, Any] = {}
    """of people, by the id of the request, as long as the step that asked is not done"""
    asked: dict[str, Asked] = {}
    conflicts: dict[str, Unmerged] = {}
    """by execution key"""
    children: dict[str, str] = {}
    """the runs that steps in flight have started: `step#number/ordinal` to run id"""
    opened_by: str = ""
    """the event that told of its start; empty if nothing of it was written down"""
    is_finished: bool = False
    parent: str = ""
    """the run whose step started it; empty for the root"""
    usage: Usage = Usage()
    """of all model calls in it and in the runs inside it"""
    agents: dict[str, AgentUse] = {}
    """what each agent used in it, by id"""

    def use_of(self, event: BaseEvent) -> AgentUse:
        """What the agent has used that an event tells of."""
        return self.agents.setdefault(event.agent_id or "", AgentUse(event.agent_role or ""))


class Fold:
    """Folds rows of one root run, in order. Memory holds where the tree stands, not how it came there."""

    format: ClassVar[int] = 1

    def __init__(self, root_run_id: str, graph: Graph) -> None:
        self.root_run_id = root_run_id
        self.seq = 0
        self.last_event_id: str | None = None
        self.runs: dict[str, Progress] = {root_run_id: Progress(graph)}

    @property
    def root(self) -> Progress:
        return self.runs[self.root_run_id]

    def take(self, row: Row) -> None:
        """Take the next row into account."""
        event = event_of(row, self.root_run_id, self.last_event_id)
        self.last_event_id, self.seq = row.event_id, row.seq
        if isinstance(event, Opener) and row.run_id not in self.runs:
            self._admit(row.run_id, event)
        if isinstance(event, Spender) and event.usage:
            self._count(row.run_id, event)
        elif isinstance(event, ToolUsageFinishedEvent | ToolUsageErrorEvent) and event.use:
            for around in self._around(row.run_id):
                tools = around.use_of(event).tools
                tools[event.tool_name] = max(event.use, tools.get(event.tool_name, 0))
        run = self.runs.get(row.run_id)
        if run is None:  # inside a step that has completed, or nothing that could be taken up again
            return
        if row.delta is not None:
            run.state = apply(run.state, Delta.decode(row.delta))
        if isinstance(event, Opener) and run.opened_by:  # of something inside a step that has no run of its own
            return
        if (fact := fact_of(event)) is not None:
            run.standing = evolve(run.graph, run.standing, fact)
        self._note(run, event, fact)

    def _count(self, run_id: str, event: Spender) -> None:
        """What a call used counts for its run and for every run around it."""
        used = Usage.of_event(event.usage, event.cost_usd)
        for run in self._around(run_id):
            run.usage += used
            run.use_of(event).usage += used

    def _around(self, run_id: str) -> Iterator[Progress]:
        """A run and the runs around it."""
        run = self.runs.get(run_id, self.root)
        yield run
        while run.parent:
            run = self.runs[run.parent]
            yield run

    def _admit(self, run_id: str, event: Opener) -> None:
        """Follow a run that a step of a followed run has started."""
        parent_id, _, key = event.called_as.partition(" ")
        if (parent := self.runs.get(parent_id)) is not None and event.graph:
            parent.children[key] = run_id
            self.runs[run_id] = Progress(msgspec.convert(event.graph, Graph), parent=parent_id)
            if isinstance(event, JobStartedEvent) and event.progress:
                _go_on_from(self.runs[run_id], event.progress)

    def _note(self, run: Progress, event: BaseEvent, fact: Fact | None) -> None:
        if isinstance(event, Opener):
            run.opened_by = event.event_id
        elif isinstance(fact, Completed):
            self._complete(run, f"{fact.step}#{fact.number}", event)
        elif isinstance(fact, Failed):
            self._fail(run, fact, event)
        elif isinstance(event, HumanFeedbackRequestedEvent | FlowInputRequestedEvent):
            run.asked[event.request_id] = Asked(event.event_id, {"type": event.type, **msgspec.structs.asdict(event)})
            run.asked[event.request_id].event.pop("env")
        elif isinstance(event, HumanFeedbackReceivedEvent):
            self._answer(run, event.request_id, event.feedback)
        elif isinstance(event, FlowInputReceivedEvent):
            self._answer(run, event.request_id, event.response)
        elif isinstance(event, HumanRequestTimedOutEvent):
            self._answer(run, event.request_id, None)
        elif isinstance(event, LLMCallPausedEvent) and event.request_id:
            secret = {"type": event.type, "message": event.message}
            self.root.asked[event.request_id] = Asked(event.event_id, secret)
        elif isinstance(event, CheckpointRestoredEvent):
            self._take_up(run)
        elif isinstance(event, StateConflictEvent):
            self._keep(run, event)
        elif isinstance(event, Finisher) and event.started_event_id in (None, "", run.opened_by):
            run.is_finished = True

    def _take_up(self, run: Progress) -> None:
        run.is_finished = False
        if run is self.root:  # keys that are still missing are told of again
            run.asked = {known: one for known, one in run.asked.items() if one.event["type"] != "llm_call_paused"}

    @staticmethod
    def _answer(run: Progress, request_id: str, answer: Any) -> None:
        run.answers[request_id] = answer
        run.asked.pop(request_id, None)

    @staticmethod
    def _keep(run: Progress, event: StateConflictEvent) -> None:
        """Keep what could not be merged. Changes that held a secret are not there, and their step runs again."""
        run.conflicts.pop(event.execution, None)
        if event.changes:
            changes = msgspec.convert(event.changes, Changes)
            changes.read()  # else what cannot be read would be noticed only when it is merged
            run.conflicts[event.execution] = Unmerged(event.result, changes)

    @staticmethod
    def _fail(run: Progress, fact: Failed, event: BaseEvent) -> None:
        """Keep how a step failed for those that may be given that."""
        key = f"{fact.step}#{fact.number}"
        if run.graph.wiring:  # a rule may let others take that it failed
            run.results[key], run.event_ids[key] = result_of(event), event.event_id
        elif failure_label(fact.step) in run.graph.listeners:
            error_type, _, error = fact.error.partition(": ")
            told = StepFailure(fact.step, error, error_type)
            key = failure_key(key)
            run.results[key], run.event_ids[key] = msgspec.to_builtins(told), event.event_id

    def _complete(self, run: Progress, key: str, event: BaseEvent) -> None:
        run.results[key], run.event_ids[key] = result_of(event), event.event_id
        run.conflicts.pop(key, None)
        for call in [call for call in run.children if call.rpartition("/")[0] == key]:
            self._forget(run.children.pop(call))
        for request_id in [known for known in (*run.answers, *run.asked) if step_of(known) == key]:
            run.answers.pop(request_id, None)
            run.asked.pop(request_id, None)
        if len(run.results) >= _KEPT and not run.graph.keeps_results:
            needed = results_needed(run.standing)
            run.results = {key: result for key, result in run.results.items() if key in needed}
            run.event_ids = {key: event_id for key, event_id in run.event_ids.items() if key in needed}

    def _forget(self, run_id: str) -> None:
        gone = self.runs.pop(run_id, None)
        for child in gone.children.values() if gone is not None else ():
            self._forget(child)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """All of it, so that the rows need not be read again."""
        runs = {run_id: _plain_progress(run) for run_id, run in self.runs.items()}
        told = {"format": self.format, "seq": self.seq, "last_event_id": self.last_event_id, "runs": runs}
        return encode_plain(told)

    @classmethod
    def decode(cls, root_run_id: str, graph: Graph, data: bytes) -> Fold:
        """What `encode` wrote; the root goes on with this graph. Raises StorageError for a later format."""
        told = decode_plain(data)
        if told.get("format") != cls.format:
            raise StorageError(
                f"a snapshot of run {root_run_id} has format {told.get('format')}, and this version reads {cls.format}: "
                f"resume it with the version that wrote it, or a later one"
            )
        fold = cls(root_run_id, graph)
        fold.seq, fold.last_event_id = told["seq"], told["last_event_id"]
        fold.runs = msgspec.convert(told["runs"], dict[str, Progress])
        for run in fold.runs.values():
            name_all(run.standing)
        fold.root.graph = graph
        return fold


def _go_on_from(run: Progress, told: dict[str, Any]) -> None:
    """Have a run begin where another one was."""
    run.standing = name_all(msgspec.convert(told["standing"], GraphState))
    run.results, run.event_ids = dict(told["results"]), dict(told["event_ids"])


def step_of(request_id: str) -> str:
    """The execution key that a request's id names: `run step#number/ordinal`."""
    return request_id.partition(" ")[2].rpartition("/")[0]


def _plain_progress(run: Progress) -> dict[str, Any]:
    asked = {request_id: msgspec.structs.asdict(one) for request_id, one in run.asked.items()}
    structural = {name: msgspec.to_builtins(getattr(run, name)) for name in ("graph", "standing", "usage", "agents")}
    conflicts = {
        key: {"result": told.result, "changes": msgspec.to_builtins(told.changes)}
        for key, told in run.conflicts.items()
    }
    return msgspec.structs.asdict(run) | structural | {"asked": asked, "conflicts": conflicts}
