"""Random flows, their journals cut at every row: what is left of one is taken up and ends as an uninterrupted run could."""

from __future__ import annotations

import asyncio
import hashlib
import operator
import types
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from holdfast import CheckpointConfig, Flow, FlowState, Runtime, and_, current_step_key, listen, or_, router, start
from holdfast.checkpoints import fold_upto, locate
from holdfast.checkpoints._facts import fact_of
from holdfast.checkpoints._rows import event_of
from holdfast.errors import FlowDefinitionError, StepFailedError
from holdfast.events import FlowStartedEvent, MethodExecutionFinishedEvent
from holdfast.graph import Began, Fact, GraphState, fold
from holdfast.ports import Batch, Row
from holdfast.stores import MemoryStore

ROUTES = ("left", "right", "again")
NOBODY = "nobody listens"


class Notes(FlowState):
    total: Annotated[int, operator.add] = 0
    lines: list[str] = []  # noqa: RUF012 - pydantic copies it
    luck: dict[str, int] = {}  # noqa: RUF012


class Spec(Struct, frozen=True):
    """One step of a random flow."""

    name: str
    trigger: Any = None
    """None for a start"""
    is_router: bool = False
    is_async: bool = False
    nests: bool = False


def key_here() -> str:
    return str(current_step_key()).partition("/")[2]


def luck_of(text: str) -> int:
    return hashlib.sha256(text.encode()).digest()[0]


class Inner(Flow[dict[str, Any]]):
    def __init__(self, outer: Random, **options: Any) -> None:
        super().__init__(**options)
        self.outer = outer

    @start()
    def first(self) -> str:
        self.outer.calls.append(f"{self.state['caller']}>{key_here()}")
        self.state["seen"] = 1
        return "first"

    @listen(first)
    async def second(self) -> str:
        self.outer.calls.append(f"{self.state['caller']}>{key_here()}")
        await asyncio.sleep(0)
        return f"inner of {self.state['caller']} {self.state['seen']}"


class Random(Flow[Notes]):
    """What the steps of every random flow do: it follows from their keys alone."""

    max_method_calls = 50
    """More than any can have: routers take a route once only. How often a step is triggered may depend on who is first."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[str] = []
        self.is_broken = False

    def note(self) -> str:
        key = key_here()
        self.calls.append(key)
        self.state.total += 1
        self.state.lines.append(key)
        self.state.luck[key] = luck_of(key)
        if self.is_broken and luck_of(f"{key} breaks") < 60:
            raise ConnectionError(key)
        return key

    @staticmethod
    def route(key: str) -> str:
        again = key.endswith("#1")  # so that loops end
        return ROUTES[luck_of(key) % 3] if again else NOBODY


def method_of(spec: Spec) -> Any:
    def blocking(self: Random) -> Any:
        key = self.note()
        if spec.nests:
            return Inner(self).kickoff({"caller": key})
        return self.route(key) if spec.is_router else key

    async def awaited(self: Random) -> Any:
        key = self.note()
        for _ in range(luck_of(key) % 4):
            await asyncio.sleep(0)
        if spec.nests:
            return await Inner(self).akickoff({"caller": key})
        return self.route(key) if spec.is_router else key

    method = awaited if spec.is_async else blocking
    method.__name__ = spec.name
    if spec.trigger is None:
        return start()(method)
    return (router if spec.is_router else listen)(spec.trigger)(method)


def class_of(specs: list[Spec]) -> type[Random]:
    methods = {spec.name: method_of(spec) for spec in specs}
    return types.new_class("RandomFlow", (Random,), exec_body=lambda body: body.update(methods))


def triggers(labels: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.sampled_from(labels),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: and_(*parts)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: or_(*parts)),
        ),
        max_leaves=3,
    )


@st.composite
def flows(draw: st.DrawFn) -> type[Random]:
    """Up to six steps, one or two of them starts; the others listen to steps before them, or to routes."""
    names = [f"s{number}" for number in range(draw(st.integers(2, 6)))]
    starts = draw(st.integers(1, 2))
    specs = []
    for index, name in enumerate(names):
        trigger = draw(triggers((*names[:index], *ROUTES))) if index >= starts else None
        is_router = trigger is not None and draw(st.booleans())
        nests = not is_router and draw(st.integers(0, 3)) == 0
        specs.append(Spec(name, trigger, is_router, draw(st.booleans()), nests))
    return class_of(specs)


class Journal(Struct):
    """What a store tells of its only run."""

    rows: list[Row]
    facts: list[Fact]
    """of the root run"""
    completed: list[str]
    """keys of the root's steps"""
    inside: list[str]
    """keys of the steps of runs inside it"""
    state: dict[str, Any]
    standing: GraphState


async def read_journal(store: MemoryStore, flow: type[Random]) -> Journal:
    [info] = await store.runs()
    root = info.root_run_id
    rows = [row async for row in store.read(root)]
    end = await fold_upto(store, await locate(store, root), flow.graph())
    journal = Journal(rows, [], [], [], end.root.state, end.root.standing)
    callers: dict[str, str] = {}
    for row in rows:
        event = event_of(row, root, None)
        if isinstance(event, FlowStartedEvent) and event.called_as:
            callers[row.run_id] = event.called_as.partition(" ")[2].rpartition("/")[0]
        if isinstance(event, MethodExecutionFinishedEvent):
            key = f"{event.method_name}#{event.execution}"
            into = journal.completed if row.run_id == root else journal.inside
            into.append(key if row.run_id == root else f"{callers[row.run_id]}>{key}")
        if row.run_id == root and (fact := fact_of(event)) is not None:
            journal.facts.append(fact)
    return journal


async def cut(store: MemoryStore, rows: list[Row]) -> MemoryStore:
    """A store with these rows of a run that was killed then."""
    [info] = await store.runs()
    shorter = MemoryStore()
    session = await shorter.open(replace(info, status="running"), owner="cutter", now_us=1, hold_until_us=2)
    if rows:
        await shorter.append(Batch(session, tuple(rows)))
    await shorter.close_session(session)
    return shorter


def ends(flow: type[Random], facts: list[Fact]) -> tuple[object, ...]:
    """What a run amounts to, had nothing interrupted it."""
    first = next((fact for fact in facts if isinstance(fact, Began)), Began())
    state = fold(flow.graph(), [first, *(fact for fact in facts if not isinstance(fact, Began))])
    return state.counts, state.last, state.won, state.arrived


def check(flow: Random, result: Any, journal: Journal) -> None:
    """That the run is what its completed steps make it: no write of theirs is lost, and no other's is there."""
    done = sorted(journal.completed)
    assert sorted(set(done)) == done
    assert flow.state.total == len(done)
    assert sorted(flow.state.lines) == done
    assert flow.state.luck == {key: luck_of(key) for key in done}
    assert journal.state == flow.state.model_dump()
    assert len(flow.method_outputs) == len(done)
    assert result == flow.method_outputs[journal.completed.index(str(journal.standing.last))]


def check_uninterrupted(flow: Random, journal: Journal) -> None:
    """That a run without the interruption would stand where this one does."""
    standing = journal.standing
    counted = (standing.counts, standing.last, standing.won, standing.arrived)
    assert counted == ends(type(flow), journal.facts)


@pytest.fixture(scope="module")
def host() -> Iterator[Runtime]:
    with Runtime(grace=2.0) as runtime:
        yield runtime


@settings(max_examples=15, deadline=None)
@given(kind=flows())
def test_s1_18_whatever_is_left_of_a_journal_ends_as_an_uninterrupted_run_and_nothing_recorded_runs_again(
    kind: type[Random], host: Runtime
) -> None:
    store = MemoryStore()
    try:
        flow = kind(checkpoint=CheckpointConfig(store), runtime=host)
        result = flow.kickoff()
    except FlowDefinitionError:  # it could never run
        assume(False)
    whole = asyncio.run(read_journal(store, kind))
    check(flow, result, whole)
    check_uninterrupted(flow, whole)
    for end in range(len(whole.rows)):
        flow, journal = go_on(kind, store, whole.rows[:end], host)
        check_uninterrupted(flow, journal)


@settings(max_examples=10, deadline=None)
@given(kind=flows())
def test_s1_18_whatever_is_left_of_a_failed_run_ends_once_its_fault_is_gone(kind: type[Random], host: Runtime) -> None:
    store = MemoryStore()
    try:
        flow = kind(checkpoint=CheckpointConfig(store), runtime=host)
        flow.is_broken = True
        flow.kickoff()
        rows = []
    except (ConnectionError, ExceptionGroup):
        rows = asyncio.run(read_journal(store, kind)).rows
    except FlowDefinitionError:
        rows = []
    assume(rows)
    for end in range(len(rows)):
        with suppress(StepFailedError):  # of a competitor that had failed before the cut, when no other wins
            go_on(kind, store, rows[:end], host)


def go_on(kind: type[Random], store: MemoryStore, rows: list[Row], host: Runtime) -> tuple[Random, Journal]:
    """Take up what is left of a run, and see that it ends as it should."""
    left = asyncio.run(cut(store, rows))
    before = asyncio.run(read_journal(left, kind))
    flow = kind(checkpoint=CheckpointConfig(left), runtime=host)
    [run] = asyncio.run(left.runs())
    result = flow.kickoff(from_checkpoint=run.root_run_id)
    journal = asyncio.run(read_journal(left, kind))
    check(flow, result, journal)
    assert not set(flow.calls) & {*before.completed, *before.inside}
    return flow, journal
