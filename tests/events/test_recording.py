from __future__ import annotations

import gc
import logging
import threading
import weakref
from dataclasses import dataclass

import pytest
from tests.events.samples import NumberEvent, PayloadEvent, emitted, python, thread

import holdfast
from holdfast import Run, Runtime, RuntimeState
from holdfast.events import BaseEvent, RunStartedEvent
from holdfast.testing import isolated_runtime


def plain(runtime: Runtime) -> None:
    runtime.run(lambda run: run.emit(PayloadEvent(data="x" * 1024)))


def recording(runtime: Runtime) -> RuntimeState:
    state = runtime.event_bus.runtime_state
    assert state is not None
    return state


def holds_state(runtime: Runtime) -> bool:
    """Whether the bus holds a state."""
    return runtime.event_bus.runtime_state is not None


@dataclass
class Shop:
    entity_id: str
    entity_type: str = "shop"


def test_s0_1_five_plain_runs_leave_no_state_behind(runtime: Runtime) -> None:
    for _ in range(5):
        plain(runtime)
    assert runtime.event_bus.runtime_state is None
    assert not runtime.event_bus.is_recording
    gc.collect()
    assert [o for o in gc.get_objects() if isinstance(o, PayloadEvent)] == []


def test_s0_2_an_armed_bus_records_one_entity_and_its_events_until_reset(runtime: Runtime) -> None:
    bus = runtime.event_bus
    bus.enable_recording()
    bus.enable_recording()
    assert not holds_state(runtime)  # nothing was emitted yet
    run_id = runtime.run(lambda run: run.id)
    state = recording(runtime)
    (entity,) = state.root
    assert entity.entity_id == run_id
    assert state.event_record.nodes
    assert bus.runtime_state is state
    bus.reset_runtime_state()
    assert runtime.event_bus.is_recording
    assert not holds_state(runtime)


async def test_s0_2_a_run_with_one_step_is_one_entity(runtime: Runtime) -> None:
    runtime.event_bus.enable_recording()

    async def body(run: Run) -> None:
        await run.spawn(lambda: run.emit(NumberEvent()), name="only step")

    await runtime.arun(body)
    assert len(recording(runtime).root) == 1
    types = [node.event.type for node in recording(runtime).event_record]
    assert types == ["run_started", "step_started", "sample_number", "step_completed", "run_completed"]


def test_s0_2_set_runtime_state_records_into_that_state(runtime: Runtime) -> None:
    state = RuntimeState(branch="side")
    runtime.event_bus.set_runtime_state(state)
    event = emitted(runtime, NumberEvent())
    assert runtime.event_bus.runtime_state is state
    assert event.event_id in state.event_record
    assert state.branch == "side"


def test_s0_2_run_scope_records_that_tree_and_no_plain_run_beside_it(runtime: Runtime) -> None:
    bus, inside, child, beside = runtime.event_bus, NumberEvent(), NumberEvent(), NumberEvent()

    def body(run: Run) -> None:
        run.emit(inside)
        runtime.run(lambda inner: inner.emit(child))
        with thread(lambda: runtime.run(lambda other: other.emit(beside))):
            pass
        state = run.runtime_state
        assert state is not None
        assert inside.event_id in state.event_record
        assert child.event_id in state.event_record
        assert beside.event_id not in state.event_record
        assert [e.entity_id for e in state.root] == [run.id, child.run_id]
        assert bus.runtime_state is None

    runtime.run(body, record=True)


def test_s0_2_the_third_argument_is_the_state_that_records_or_none(runtime: Runtime) -> None:
    bus, states = runtime.event_bus, []

    def note(source: object, event: BaseEvent, state: RuntimeState | None) -> None:
        states.append(state)

    async def anote(source: object, event: BaseEvent, state: RuntimeState | None) -> None:
        states.append(state)

    bus.on(NumberEvent)(note)
    bus.on(NumberEvent)(anote)
    bus.on(NumberEvent, background=True)(lambda source, event, state: states.append(state))

    def body(run: Run) -> RuntimeState | None:
        run.emit(NumberEvent())
        bus.flush()
        return run.runtime_state

    assert runtime.run(body) is None
    assert states == [None] * 3
    states.clear()
    own = runtime.run(body, record=True)
    assert own is not None
    assert states == [own] * 3
    states.clear()
    bus.enable_recording()
    runtime.run(body)
    assert states == [recording(runtime)] * 3
    states.clear()
    own = runtime.run(body, record=True)  # both record it; the run's own is shown
    assert states == [own] * 3
    assert own is not recording(runtime)
    states.clear()
    bus.disable_recording()
    assert bus.runtime_state is None
    runtime.run(body)
    assert states == [None] * 3


def test_s0_2_an_entity_is_registered_once_by_its_own_id(runtime: Runtime) -> None:
    runtime.event_bus.enable_recording()
    runtime.run(lambda run: run.emit(NumberEvent()), entity=Shop("s1"))
    runtime.run(lambda run: run.emit(NumberEvent()), entity=Shop("s1"))
    runtime.run(lambda run: run.emit(NumberEvent()), entity=Shop("s2"))
    assert [e.entity_id for e in recording(runtime).root] == ["s1", "s2"]


def test_s0_3_reset_is_safe_with_nothing_attached(runtime: Runtime) -> None:
    runtime.event_bus.reset_runtime_state()
    assert not runtime.event_bus.is_recording
    assert runtime.event_bus.runtime_state is None


def test_s0_3_reset_is_safe_while_another_thread_emits(runtime: Runtime) -> None:
    bus, called, states = runtime.event_bus, [], []
    bus.enable_recording()

    def note(source: object, event: NumberEvent, state: RuntimeState | None) -> None:
        called.append(event.n)
        states.append(state)

    bus.on(NumberEvent)(note)
    done = threading.Event()

    def emit(run: Run) -> None:
        for n in range(3000):
            run.emit(NumberEvent(n=n))
        done.set()

    resets = 0
    with thread(lambda: runtime.run(emit)):
        while not done.is_set():
            bus.reset_runtime_state()
            resets += 1
    assert resets > 1
    assert called == list(range(3000))
    assert None not in states
    bus.reset_runtime_state()
    plain(runtime)
    assert len(recording(runtime).root) == 1


def test_s0_3_reset_drops_the_entities_and_leaves_a_runs_own_record_alone(runtime: Runtime) -> None:
    bus = runtime.event_bus
    bus.enable_recording()

    def body(run: Run) -> weakref.ref[RuntimeState]:
        run.emit(NumberEvent())
        dropped = weakref.ref(recording(runtime))
        bus.reset_runtime_state()
        own = run.runtime_state
        assert own is not None
        assert len(own.event_record) == 2
        run.emit(NumberEvent())
        assert len(own.event_record) == 3
        assert len(recording(runtime).event_record) == 1
        return dropped

    dropped = runtime.run(body, record=True)
    gc.collect()
    assert dropped() is None


def test_s0_6_a_test_helper_isolates_all_runtime_state_for_one_test() -> None:
    outer: list[object] = []
    holdfast.event_bus.on(NumberEvent)(note := lambda source, event: outer.append(event))
    try:
        with isolated_runtime() as runtime:
            assert runtime is holdfast.default_runtime()
            assert runtime.event_bus.registrations() == []
            runtime.event_bus.enable_recording()
            plain(runtime)
            runtime.run(lambda run: run.emit(NumberEvent()))
            assert recording(runtime).root
        assert outer == []
        assert holdfast.event_bus.runtime_state is None
        assert not holdfast.event_bus.is_recording
        assert holdfast.event_bus.registrations() == [(NumberEvent, note)]
    finally:
        holdfast.event_bus.off(NumberEvent, note)


def test_s0_6_inside_a_run_the_helper_stands_outside_it(runtime: Runtime) -> None:
    def body(run: Run) -> str | None:
        with isolated_runtime():
            inside = holdfast.current_run_id()
        assert holdfast.current_run_id() == run.id
        return inside

    assert runtime.run(body) is None


def test_s0_6_the_helper_puts_back_a_bus_that_the_test_shut_down() -> None:
    # "afterwards everything is as it was before, whatever the block did"; else every later test fails
    told = python("""
import holdfast
from holdfast.testing import isolated_runtime
from tests.events.samples import NumberEvent
with isolated_runtime() as runtime:
    runtime.event_bus.shutdown()
holdfast.event_bus.emit(None, NumberEvent())
print("fine")
""")
    assert told.stdout == "fine\n", told.stderr


def test_s0_7_in_run_scope_the_record_is_freed_with_its_run(runtime: Runtime) -> None:
    def body(run: Run) -> tuple[weakref.ref[RuntimeState], weakref.ref[BaseEvent], Run]:
        run.emit(event := NumberEvent())
        assert run.runtime_state is not None
        return weakref.ref(run.runtime_state), weakref.ref(event), run

    state, event, run = runtime.run(body, record=True)
    assert run.runtime_state is None
    gc.collect()
    assert state() is None
    assert event() is None


def test_s0_7_in_bus_scope_the_oldest_finished_tree_is_evicted_counted_and_warned_about_once(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    bus, state = runtime.event_bus, RuntimeState(max_events=9)
    bus.set_runtime_state(state)

    def body(run: Run) -> str:
        run.emit(NumberEvent())
        return run.id

    with caplog.at_level(logging.WARNING, "holdfast"):
        ids = [runtime.run(body) for _ in range(3)]  # three events each
        assert state.event_record.evicted == 0
        assert caplog.records == []
        ids += [runtime.run(body) for _ in range(3)]
    assert [e.entity_id for e in state.root] == ids[3:]
    assert {node.event.run_id for node in state.event_record} == set(ids[3:])
    assert state.event_record.evicted == 9
    (warning,) = caplog.records
    assert "full at 9 events" in warning.getMessage()


def test_s0_7_a_tree_that_still_runs_is_not_evicted_for_one_that_is_over(runtime: Runtime) -> None:
    bus, state = runtime.event_bus, RuntimeState(max_events=9)
    bus.set_runtime_state(state)

    def long(run: Run) -> None:
        run.emit(NumberEvent())
        for _ in range(10):
            with thread(lambda: plain(runtime)):
                pass
        assert run.id in [e.entity_id for e in state.root]
        assert len([n for n in state.event_record if n.event.run_id == run.id]) == 2

    runtime.run(long)
    assert len(state.event_record) <= 9
    assert len(state.root) <= 4


def test_s0_7_one_endless_run_stays_bounded_and_keeps_its_entity(runtime: Runtime) -> None:
    bus, state = runtime.event_bus, RuntimeState(max_events=20)
    bus.set_runtime_state(state)

    def endless(run: Run) -> None:
        for n in range(200):
            run.emit(NumberEvent(n=n))
        assert len(state.event_record) == 20
        assert [e.entity_id for e in state.root] == [run.id]

    runtime.run(endless)
    assert state.event_record.evicted == 182


def test_a_state_never_keeps_a_run_alive(runtime: Runtime) -> None:
    runtime.event_bus.enable_recording()
    run = runtime.run(weakref.ref)
    gc.collect()
    assert recording(runtime).root
    assert run() is None


def test_arming_in_the_middle_of_a_run_records_the_rest_of_it(runtime: Runtime) -> None:
    bus, before, after = runtime.event_bus, NumberEvent(), NumberEvent()

    def body(run: Run) -> None:
        run.emit(before)
        bus.enable_recording()
        run.emit(after)

    runtime.run(body)
    record = recording(runtime).event_record
    assert before.event_id not in record
    assert after.event_id in record
    assert len(recording(runtime).root) == 1
    assert not [n for n in record if isinstance(n.event, RunStartedEvent)]
