from __future__ import annotations

import pytest
from tests.events.samples import ClosedEvent, EchoEvent, NumberEvent, OpenedEvent, ToolOpenedEvent, emit, thread

from holdfast import BaseEvent, Run, Runtime, bind, on_behalf_of
from holdfast.context import triggered_by
from holdfast.events import RunCompletedEvent, RunStartedEvent


def run_of(runtime: Runtime) -> tuple[list[BaseEvent], list[BaseEvent]]:
    """Lists that fill with the openers and closers of runs."""
    started: list[BaseEvent] = []
    ended: list[BaseEvent] = []
    runtime.event_bus.on(RunStartedEvent)(lambda source, event: started.append(event))
    runtime.event_bus.on(RunCompletedEvent)(lambda source, event: ended.append(event))
    return started, ended


def test_an_event_knows_its_run_and_its_place_in_it(runtime: Runtime) -> None:
    started, ended = run_of(runtime)
    opener, inside, closer, after = OpenedEvent(), NumberEvent(), ClosedEvent(), NumberEvent()

    def body(run: Run) -> Run:
        emit(runtime, opener, inside, closer, after)
        return run

    run = runtime.run(body)
    (begin,), (end,) = started, ended
    line = [begin, opener, inside, closer, after, end]
    assert [e.emission_sequence for e in line] == [1, 2, 3, 4, 5, 6]
    assert {e.run_id for e in line} == {e.root_run_id for e in line} == {run.id}
    assert [e.previous_event_id for e in line] == [None, *(e.event_id for e in line[:-1])]
    assert [e.parent_event_id for e in line] == [
        None, begin.event_id, opener.event_id, begin.event_id, begin.event_id, None,
    ]  # fmt: skip
    assert [e.started_event_id for e in line] == [None, None, None, opener.event_id, None, begin.event_id]
    assert len({e.event_id for e in line}) == 6


def test_a_closer_without_an_opener_closes_nothing(runtime: Runtime) -> None:
    started, ended = run_of(runtime)
    closer, tool, after = ClosedEvent(), ToolOpenedEvent(), ClosedEvent()
    runtime.run(lambda run: emit(runtime, closer, tool, after))
    assert closer.started_event_id is None
    assert closer.parent_event_id == started[0].event_id
    assert after.started_event_id is None
    assert after.parent_event_id == tool.event_id
    assert ended[0].started_event_id == started[0].event_id


def test_a_closer_closes_the_nearest_opener_of_its_kind_and_what_was_left_open_inside(runtime: Runtime) -> None:
    outer, inner, tool, closer, after = OpenedEvent(), OpenedEvent(), ToolOpenedEvent(), ClosedEvent(), NumberEvent()
    runtime.run(lambda run: emit(runtime, outer, inner, tool, closer, after))
    assert closer.started_event_id == inner.event_id
    assert closer.parent_event_id == outer.event_id
    assert after.parent_event_id == outer.event_id


def test_a_closer_in_a_child_run_never_closes_a_scope_of_its_parent(runtime: Runtime) -> None:
    opener, foreign, own, after = OpenedEvent(), ClosedEvent(), ClosedEvent(), NumberEvent()

    def body(run: Run) -> None:
        emit(runtime, opener)
        runtime.run(lambda child: emit(runtime, foreign))
        emit(runtime, after, own)

    runtime.run(body)
    assert foreign.started_event_id is None
    assert after.parent_event_id == opener.event_id
    assert own.started_event_id == opener.event_id


def test_a_child_run_hangs_under_the_scope_it_was_started_in_and_shares_the_numbers(runtime: Runtime) -> None:
    started, _ = run_of(runtime)
    opener, inside = OpenedEvent(), NumberEvent()

    def body(run: Run) -> None:
        emit(runtime, opener)
        runtime.run(lambda child: emit(runtime, inside))

    runtime.run(body)
    outer, inner = started
    assert inner.parent_event_id == opener.event_id
    assert inside.parent_event_id == inner.event_id
    assert inside.run_id == inner.run_id != outer.run_id
    assert inside.root_run_id == outer.run_id
    assert [e.emission_sequence for e in (outer, opener, inner, inside)] == [1, 2, 3, 4]


@pytest.mark.parametrize("listen", [True, False], ids=["seen", "unseen"])
def test_children_and_closers_are_linked_to_an_opener_that_nobody_saw(listen: bool, runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []
    openers: list[BaseEvent] = []
    if listen:
        bus.on(OpenedEvent)(lambda source, event: openers.append(event))
    bus.on(NumberEvent)(lambda source, event: seen.append(event))
    bus.on(ClosedEvent)(lambda source, event: seen.append(event))

    def body(run: Run) -> None:
        bus.emit_new(None, OpenedEvent)
        bus.emit_new(None, NumberEvent, n=1)
        bus.emit_new(None, ClosedEvent)
        bus.emit_new(None, NumberEvent, n=2)

    runtime.run(body)
    child, closer, after = seen
    assert child.parent_event_id == closer.started_event_id is not None
    assert after.parent_event_id == closer.parent_event_id != child.parent_event_id
    if listen:
        assert closer.started_event_id == openers[0].event_id


def test_an_unseen_closer_closes_all_the_same(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []
    bus.on(NumberEvent)(lambda source, event: seen.append(event.parent_event_id))

    def body(run: Run) -> None:
        bus.emit_new(None, NumberEvent)
        bus.emit_new(None, OpenedEvent)
        bus.emit_new(None, ClosedEvent)
        bus.emit_new(None, NumberEvent)

    runtime.run(body)
    assert seen[0] == seen[1] is not None


def test_emit_new_builds_no_event_that_nobody_would_see(runtime: Runtime) -> None:
    bus = runtime.event_bus
    built: list[int] = []

    class CostlyEvent(BaseEvent):
        def __post_init__(self) -> None:
            built.append(1)

    runtime.run(lambda run: bus.emit_new(None, CostlyEvent))
    assert built == []
    assert not bus.wants(CostlyEvent)
    bus.on(BaseEvent)(lambda source, event: None)
    assert bus.wants(CostlyEvent)
    runtime.run(lambda run: bus.emit_new(None, CostlyEvent))
    assert built == [1]


def test_wants_follows_handlers_and_recording_as_they_come_and_go(runtime: Runtime) -> None:
    bus = runtime.event_bus

    def note(source: object, event: object) -> None: ...

    def body(run: Run) -> list[bool]:
        wanted = [bus.wants(NumberEvent)]
        bus.on(NumberEvent)(note)
        wanted.append(bus.wants(NumberEvent))
        bus.off(NumberEvent, note)
        wanted.append(bus.wants(NumberEvent))
        run.on(NumberEvent)(note)
        wanted += [bus.wants(NumberEvent), bus.wants(EchoEvent)]
        with bus.isolated():
            wanted.append(bus.wants(EchoEvent))
            bus.enable_recording()
            wanted.append(bus.wants(EchoEvent))
        return [*wanted, bus.wants(EchoEvent)]

    assert runtime.run(body) == [False, True, False, True, False, False, True, False]


def test_an_opener_left_open_by_a_handler_does_not_leak_into_the_emitter(runtime: Runtime) -> None:
    bus, started = runtime.event_bus, run_of(runtime)[0]
    first, second, seen = NumberEvent(), NumberEvent(), []

    def leave_open(source: object, event: NumberEvent) -> None:
        bus.emit(None, OpenedEvent())

    bus.on(NumberEvent)(leave_open)
    bus.on(NumberEvent)(lambda source, event: bus.emit(None, EchoEvent()))
    bus.on(EchoEvent)(lambda source, event: seen.append(event.parent_event_id))
    runtime.run(lambda run: emit(runtime, first, second))
    assert first.parent_event_id == second.parent_event_id == started[0].event_id
    assert seen == [started[0].event_id] * 2  # nor into the next handler


def test_a_closer_emitted_by_a_handler_does_not_close_a_scope_of_the_emitter(runtime: Runtime) -> None:
    bus, opener, inside = runtime.event_bus, OpenedEvent(), NumberEvent()
    bus.on(OpenedEvent)(lambda source, event: bus.emit(None, ClosedEvent()))
    runtime.run(lambda run: emit(runtime, opener, inside))
    assert inside.parent_event_id == opener.event_id


def test_a_scope_opened_in_a_bound_thread_stays_there(runtime: Runtime) -> None:
    opener, inside, beside, after = OpenedEvent(), NumberEvent(), OpenedEvent(), NumberEvent()

    def body(run: Run) -> None:
        emit(runtime, opener)
        with thread(bind(lambda: emit(runtime, beside, inside))):
            pass
        emit(runtime, after)

    runtime.run(body)
    assert beside.parent_event_id == opener.event_id
    assert inside.parent_event_id == beside.event_id
    assert after.parent_event_id == opener.event_id


def test_events_are_stamped_with_their_cause_inside_the_block_only(runtime: Runtime) -> None:
    cause, effect, nested, after = NumberEvent(), NumberEvent(), NumberEvent(), NumberEvent()

    def body(run: Run) -> None:
        emit(runtime, cause)
        with triggered_by(cause.event_id):
            emit(runtime, effect)
            with triggered_by(effect.event_id):
                emit(runtime, nested)
        emit(runtime, after)

    runtime.run(body)
    causes = [e.triggered_by_event_id for e in (cause, effect, nested, after)]
    assert causes == [None, cause.event_id, effect.event_id, None]


def test_s1_11_events_carry_the_task_and_the_agent_they_are_emitted_for(runtime: Runtime) -> None:
    before, task, agent, child, after = (NumberEvent() for _ in range(5))

    def body(run: Run) -> None:
        emit(runtime, before)
        with on_behalf_of(task_id="t1", task_name="write"):
            emit(runtime, task)
            with on_behalf_of(agent_id="a1", agent_role="author"):
                emit(runtime, agent)
                runtime.run(lambda inner: emit(runtime, child))
        emit(runtime, after)

    runtime.run(body)
    said = [(e.task_id, e.task_name, e.agent_id, e.agent_role) for e in (before, task, agent, child, after)]
    nobody, full = (None, None, None, None), ("t1", "write", "a1", "author")
    assert said == [nobody, ("t1", "write", None, None), full, full, nobody]


def test_events_of_a_handler_hang_under_the_scope_of_the_event_it_handles(runtime: Runtime) -> None:
    bus, opener, closer, answers = runtime.event_bus, OpenedEvent(), ClosedEvent(), []
    started, _ = run_of(runtime)
    bus.on(OpenedEvent, ClosedEvent)(lambda source, event: bus.emit(None, EchoEvent()))
    bus.on(EchoEvent)(lambda source, event: answers.append(event.parent_event_id))
    runtime.run(lambda run: emit(runtime, opener, closer))
    assert answers == [opener.event_id, started[0].event_id]
