"""Flows: what triggers what, parameters, states, parallel starts, failures, nesting."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from holdfast import Runtime, event_bus
from holdfast.errors import FlowDefinitionError, FlowInputError, StepFailedError, SyncInAsyncError
from holdfast.events import BaseEvent, FlowFinishedEvent, FlowStartedEvent, MethodExecutionFinishedEvent
from holdfast.flow import Flow, FlowState, and_, listen, or_, router, start


class Count(FlowState):
    n: int = 0


class Chain(Flow[Count]):
    @start()
    def first(self) -> str:
        self.state.n += 1
        return "one"

    @listen(first)
    async def second(self, given: str) -> str:
        self.state.n += 1
        return given + " two"

    @listen("second")
    def third(self, given: str) -> str:
        self.state.n += 1
        return given + " three"


def test_a_chain_hands_results_on_and_returns_the_last() -> None:
    flow = Chain()
    assert flow.kickoff() == "one two three"
    assert flow.state.n == 3
    assert flow.method_outputs == ["one", "one two", "one two three"]


async def test_the_same_in_a_loop() -> None:
    flow = Chain()
    assert await flow.akickoff({"n": 5}) == "one two three"
    assert flow.state.n == 8


async def test_kickoff_in_a_running_loop_outside_any_run_works() -> None:
    assert Chain().kickoff() == "one two three"


def test_s1_17_a_second_kickoff_starts_afresh() -> None:
    flow = Chain()
    flow.kickoff()
    first_id = flow.state.id
    assert flow.kickoff() == "one two three"
    assert flow.state.n == 3
    assert flow.state.id != first_id


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def test_routes_are_strings_enums_or_literals() -> None:
    class Routed(Flow[Count]):
        @start()
        def begin(self) -> str:
            return "thing"

        @router(begin)
        def paint(self) -> Colour:
            return Colour.BLUE

        @listen(Colour.RED)
        def red(self) -> str:
            return "red"

        @listen(Colour.BLUE)
        def blue(self, given: str) -> str:
            return f"blue {given}"

        @router(blue)
        def size(self) -> Literal["big", "small"]:
            return "small"

        @listen("small")
        def small(self, given: str) -> str:
            return f"small {given}"

    assert Routed().kickoff() == "small blue thing"


def test_a_loop_through_a_router_ends_when_it_takes_another_route() -> None:
    class Loop(Flow[Count]):
        @start()
        def begin(self) -> None:
            pass

        @listen(or_(begin, "again"))
        def work(self) -> int:
            self.state.n += 1
            return self.state.n

        @router(work)
        def check(self) -> Literal["again", "done"]:
            return "again" if self.state.n < 5 else "done"

        @listen("done")
        def end(self, given: int) -> int:
            return given

    assert Loop().kickoff() == 5


def test_a_loop_that_never_ends_is_stopped_by_max_method_calls() -> None:
    class Endless(Flow[Count]):
        max_method_calls = 7

        @start()
        def begin(self) -> None:
            pass

        @router(or_(begin, "again"))
        def work(self) -> Literal["again"]:
            self.state.n += 1
            return "again"

    flow = Endless()
    with pytest.raises(StepFailedError, match="max_method_calls"):
        flow.kickoff()
    assert flow.state.n == 7


def test_several_starts_run_in_parallel_and_and_waits_for_all() -> None:
    meeting = threading.Barrier(2, timeout=10)

    class Parallel(Flow[Count]):
        @start()
        def left(self) -> str:
            meeting.wait()
            return "left"

        @start()
        def right(self) -> str:
            meeting.wait()
            return "right"

        @listen(and_(left, right))
        def both(self, given: str) -> str:
            return f"both after {given}"

    assert Parallel().kickoff() in ("both after left", "both after right")


async def test_async_siblings_overlap_on_the_loop() -> None:
    met = asyncio.Event()

    class Parallel(Flow[Count]):
        @start()
        async def left(self) -> None:
            await met.wait()

        @start()
        async def right(self) -> None:
            met.set()

        @listen(and_(left, right))
        async def both(self) -> str:
            return "both"

    assert await Parallel().akickoff() == "both"


async def test_or_fires_once_and_the_loser_is_cancelled() -> None:
    cancelled = asyncio.Event()
    fired: list[str] = []

    class Race(Flow[Count]):
        @start()
        async def fast(self) -> str:
            return "fast"

        @start()
        async def slow(self) -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return "slow"

        @listen(or_(fast, slow))
        async def won(self, given: str) -> str:
            fired.append(given)
            return given

    assert await Race().akickoff() == "fast"
    await cancelled.wait()
    assert fired == ["fast"]


async def test_one_racer_may_fail_and_if_all_fail_the_flow_fails_with_all_errors() -> None:
    class Race(Flow[Count]):
        broken: tuple[str, ...] = ("a",)

        @start()
        async def a(self) -> str:
            raise KeyError("a")

        @start()
        async def b(self) -> str:
            await asyncio.sleep(0)
            if "b" in self.broken:
                raise ValueError("b")
            return "b"

        @listen(or_(a, b))
        async def won(self, given: str) -> str:
            return given

    flow = Race()
    assert await flow.akickoff() == "b"
    flow.broken = ("a", "b")
    with pytest.raises(ExceptionGroup) as caught:
        await flow.akickoff()
    assert {type(error) for error in caught.value.exceptions} == {KeyError, ValueError}


async def test_a_failing_step_raises_its_own_error_and_its_siblings_are_cancelled_and_awaited() -> None:
    stopped = asyncio.Event()

    class Broken(Flow[Count]):
        @start()
        async def bad(self) -> None:
            await asyncio.sleep(0)
            raise LookupError("nothing there")

        @start()
        async def good(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

    with pytest.raises(LookupError, match="nothing there"):
        await Broken().akickoff()
    assert stopped.is_set()


def test_a_blocking_step_runs_outside_the_loop_so_asyncio_run_works_in_it() -> None:
    async def inner() -> int:
        return 7

    class Blocking(Flow[Count]):
        @start()
        async def first(self) -> None:
            await asyncio.sleep(0)

        @listen(first)
        def second(self) -> int:
            return asyncio.run(inner())

    assert Blocking().kickoff() == 7
    assert asyncio.run(Blocking().akickoff()) == 7


def test_a_flow_inside_a_blocking_step_is_a_child_run(runtime: Runtime) -> None:
    roots: set[str | None] = set()
    names: list[str] = []

    class Inner(Flow[Count]):
        @start()
        async def only(self) -> str:
            return "inner"

    class Outer(Flow[Count]):
        @start()
        def call(self) -> Any:
            return Inner(runtime=runtime).kickoff()

        @listen(call)
        async def call_again(self, given: str) -> str:
            return given + str(await Inner(runtime=runtime).akickoff())

    @runtime.event_bus.on(FlowStartedEvent)
    def note(source: Flow[Any], event: FlowStartedEvent) -> None:
        roots.add(event.root_run_id)
        names.append(event.flow_name)

    assert Outer(runtime=runtime).kickoff() == "innerinner"
    assert names == ["Outer", "Inner", "Inner"]
    assert len(roots) == 1


async def test_kickoff_inside_an_async_step_is_an_error_that_names_akickoff() -> None:
    class Wrong(Flow[Count]):
        @start()
        async def call(self) -> Any:
            return Chain().kickoff()

    with pytest.raises(SyncInAsyncError, match="akickoff"):
        await Wrong().akickoff()


async def test_one_object_kicked_off_twice_at_once_has_two_states() -> None:
    gate = asyncio.Event()
    seen: list[tuple[int, int]] = []

    class Shared(Flow[Count]):
        @start()
        async def begin(self) -> None:
            before = self.state.n
            self.state.n += 1
            if before == 10:
                gate.set()
            await gate.wait()
            seen.append((before, self.state.n))

    flow = Shared()
    await asyncio.gather(flow.akickoff({"n": 1}), flow.akickoff({"n": 10}))
    assert sorted(seen) == [(1, 2), (10, 11)]


@dataclass
class Basket:
    id: str = ""
    apples: int = 0


class Plain(BaseModel):
    apples: int = 0


@pytest.mark.parametrize("kind", [Basket, Plain, Basket(apples=4), {"apples": 4}, None])
def test_every_kind_of_state_has_an_id(kind: Any) -> None:
    class Picking(Flow[Any]):
        initial_state = kind

        @start()
        def pick(self) -> Any:
            return self.state

    state = Picking().kickoff({"apples": 9})
    values = state if isinstance(state, dict) else vars(state)
    assert values["apples"] == 9
    assert len(values["id"]) == 36


@dataclass(frozen=True)
class Frozen:
    id: str = ""


def test_a_state_that_cannot_be_changed_is_refused_in_words() -> None:
    """It was a FrozenInstanceError about a field that the flow had tried to set."""

    class Stands(Flow[Frozen]):
        @start()
        def look(self) -> str:
            return self.state.id

    with pytest.raises(FlowInputError, match="Frozen cannot be the state of a flow: its id cannot be set"):
        Stands().kickoff()


def test_inputs_that_do_not_fit_are_refused_in_words() -> None:
    with pytest.raises(FlowInputError, match="n"):
        Chain().kickoff({"n": "many"})


def test_the_state_of_an_example_is_copied_not_shared() -> None:
    class Kept(Flow[Any]):
        initial_state = {"items": []}  # noqa: RUF012 - the point

        @start()
        def add(self) -> list[int]:
            self.state["items"].append(1)
            return list(self.state["items"])

    assert Kept().kickoff() == [1]
    assert Kept().kickoff() == [1]


def test_a_subclass_overrides_a_method_and_keeps_its_trigger() -> None:
    class Louder(Chain):
        def third(self, given: str) -> str:
            return given.upper()

    assert Louder().kickoff() == "ONE TWO"


def test_a_flow_without_a_start_is_refused() -> None:
    class Empty(Flow[Count]):
        pass

    with pytest.raises(FlowDefinitionError, match="@start"):
        Empty().kickoff()


@pytest.mark.parametrize(
    ("trigger", "message"),
    [("frist", "did you mean 'first'"), (42, "cannot trigger")],
)
def test_a_flow_that_can_never_run_as_written_is_refused(trigger: Any, message: str) -> None:
    def define() -> None:
        class Wrong(Flow[Count]):
            @start()
            def first(self) -> None: ...

            @listen(trigger)
            def second(self) -> None: ...

        Wrong().kickoff()

    with pytest.raises(FlowDefinitionError, match=message):
        define()


def test_start_without_parentheses_is_refused() -> None:
    with pytest.raises(FlowDefinitionError, match="parentheses"):

        class Wrong(Flow[Count]):
            @start
            def first(self) -> None: ...  # type: ignore[misc]


def test_events_tell_of_the_flow_and_its_methods(runtime: Runtime) -> None:
    told: list[tuple[str, str | None]] = []

    @runtime.event_bus.on(BaseEvent)
    def note(source: object, event: BaseEvent) -> None:
        told.append((event.type, event.source_type))

    Chain(runtime=runtime).kickoff()
    assert [t for t, _ in told] == [
        "run_started",
        "flow_started",
        *["method_execution_started", "method_execution_finished"] * 3,
        "flow_finished",
        "run_completed",
    ]
    assert {source for _, source in told} == {"flow"}


def test_what_triggered_a_method_is_on_its_events(runtime: Runtime) -> None:
    finished: dict[str, MethodExecutionFinishedEvent] = {}

    @runtime.event_bus.on(MethodExecutionFinishedEvent)
    def note(source: object, event: MethodExecutionFinishedEvent) -> None:
        finished[event.method_name] = event

    Chain(runtime=runtime).kickoff()
    assert finished["first"].triggered_by_event_id is None
    assert finished["second"].triggered_by_event_id == finished["first"].event_id
    assert finished["third"].triggered_by_event_id == finished["second"].event_id


def test_s0_1_five_plain_kickoffs_leave_nothing_behind() -> None:
    for _ in range(5):
        Chain().kickoff()
    assert event_bus.runtime_state is None


def test_s0_2_an_armed_bus_records_one_entity_and_its_events(runtime: Runtime) -> None:
    runtime.event_bus.enable_recording()

    class One(Flow[Count]):
        @start()
        def only(self) -> None: ...

    flow = One(runtime=runtime)
    flow.kickoff()
    state = runtime.event_bus.runtime_state
    assert state is not None
    assert state.root == [flow]
    assert any(isinstance(node.event, FlowFinishedEvent) for node in state.event_record.all_nodes())
