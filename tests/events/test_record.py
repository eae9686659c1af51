from __future__ import annotations

import threading

import pytest
from tests.events.samples import ChunkEvent, ClosedEvent, EchoEvent, NumberEvent, OpenedEvent, emit, emitted, thread

from holdfast import EventRecord, Run, Runtime
from holdfast.context import triggered_by
from holdfast.events import BaseEvent, Edge


def stamped(runtime: Runtime, count: int) -> list[BaseEvent]:
    """Events of one run."""
    made: list[BaseEvent] = [NumberEvent(n=n) for n in range(count)]
    runtime.run(lambda run: emit(runtime, *made))
    return made


def recorded(runtime: Runtime) -> tuple[EventRecord, dict[str, BaseEvent]]:
    """A record of one run: cause, opener, child, nested opener, grandchild, closer, effect."""
    made: dict[str, BaseEvent] = {
        "cause": NumberEvent(), "opener": OpenedEvent(), "child": NumberEvent(), "nested": OpenedEvent(),
        "grandchild": NumberEvent(), "inner end": ClosedEvent(), "closer": ClosedEvent(), "effect": EchoEvent(),
    }  # fmt: skip

    def body(run: Run) -> EventRecord:
        for event in list(made.values())[:-1]:
            runtime.event_bus.emit(None, event)
        with triggered_by(made["cause"].event_id):
            runtime.event_bus.emit(None, made["effect"])
        assert run.runtime_state is not None
        return run.runtime_state.event_record

    return runtime.run(body, record=True), made


def test_the_eight_kinds_of_edges(runtime: Runtime) -> None:
    record, made = recorded(runtime)
    names = {event.event_id: name for name, event in made.items()}

    def at(name: str, edge: Edge) -> list[str]:
        node = record.get(made[name].event_id)
        assert node is not None
        return [names[other] for other in node.neighbors(edge) if other in names]

    assert len(Edge) == 8
    assert at("child", Edge.PARENT) == ["opener"]
    assert at("opener", Edge.CHILD) == ["child", "nested", "inner end"]
    assert at("effect", Edge.TRIGGERED_BY) == ["cause"]
    assert at("cause", Edge.TRIGGER) == ["effect"]
    assert at("child", Edge.PREVIOUS) == ["opener"]
    assert at("child", Edge.NEXT) == ["nested"]
    assert at("closer", Edge.STARTED) == ["opener"]
    assert at("opener", Edge.COMPLETED_BY) == ["closer"]
    assert at("nested", Edge.COMPLETED_BY) == ["inner end"]
    assert at("cause", Edge.COMPLETED_BY) == []
    assert [at(name, Edge.NEXT) for name in made] == [[name] for name in list(made)[1:]] + [[]]


def test_a_node_holds_the_event_itself(runtime: Runtime) -> None:
    record, made = recorded(runtime)
    for event in made.values():
        node = record.get(event.event_id)
        assert node is not None
        assert node.event is event
    assert record.get("nobody") is None


def test_descendants_are_everything_below_a_scope_nearest_first(runtime: Runtime) -> None:
    record, made = recorded(runtime)
    below = [node.event for node in record.descendants(made["opener"].event_id)]
    assert below == [made[name] for name in ("child", "nested", "inner end", "grandchild")]
    assert record.descendants(made["child"].event_id) == []
    assert record.descendants("nobody") == []


def test_roots_are_the_events_with_no_recorded_parent(runtime: Runtime) -> None:
    record, _ = recorded(runtime)
    assert [node.event.type for node in record.roots()] == ["run_started", "run_completed"]
    orphans = EventRecord()
    made = stamped(runtime, 3)  # their run's opener is not in this record
    for event in made:
        orphans.add(event)
    assert [node.event for node in orphans.roots()] == made


def test_len_contains_iteration_and_nodes_agree(runtime: Runtime) -> None:
    record, made = recorded(runtime)
    assert len(record) == len(made) + 2  # the start and the end of the run too
    assert all(event.event_id in record for event in made.values())
    assert "nobody" not in record
    assert None not in record
    assert list(record) == record.all_nodes() == list(record.nodes.values())
    assert [node.event.emission_sequence for node in record] == list(range(1, len(record) + 1))


def test_clear_forgets_everything_and_the_record_goes_on(runtime: Runtime) -> None:
    record, made = recorded(runtime)
    record.clear()
    assert len(record) == 0
    assert record.all_nodes() == record.roots() == []
    record.add(made["child"])
    assert [node.event for node in record.roots()] == [made["child"]]


def test_adding_an_event_twice_changes_nothing(runtime: Runtime) -> None:
    record, made = recorded(runtime)
    before = len(record)
    record.add(made["child"])
    assert len(record) == before
    opener = record.get(made["opener"].event_id)
    assert opener is not None
    assert opener.neighbors(Edge.CHILD).count(made["child"].event_id) == 1


def test_an_event_that_was_not_emitted_cannot_be_recorded() -> None:
    with pytest.raises(ValueError, match="not emitted"):
        EventRecord().add(NumberEvent())


def test_what_a_caller_does_with_neighbours_or_nodes_does_not_change_the_record(runtime: Runtime) -> None:
    record, made = recorded(runtime)
    node = record.get(made["opener"].event_id)
    assert node is not None
    node.neighbors(Edge.CHILD).clear()
    record.nodes.clear()
    assert node.neighbors(Edge.CHILD)
    assert len(record)


def test_one_endless_run_keeps_its_newest_events(runtime: Runtime) -> None:
    record = EventRecord(max_events=10)
    made = stamped(runtime, 100)
    for event in made:
        assert record.add(event) == []
        assert len(record) <= 10
    assert [node.event for node in record] == made[-10:]
    assert record.evicted == 90
    assert [node.event for node in record.roots()] == made[-10:]


def test_the_oldest_finished_tree_goes_first_and_as_a_whole(runtime: Runtime) -> None:
    record = EventRecord(max_events=10)
    trees = [stamped(runtime, 4) for _ in range(4)]
    roots = [tree[0].run_id or "" for tree in trees]
    for event in trees[0] + trees[1]:
        record.add(event)
    record.finish_tree(roots[1])
    record.finish_tree("never seen")
    assert [record.add(event) for event in trees[2]] == [[], [], [roots[1]], []]  # the first still runs
    assert record.evicted == 4
    assert [node.event for node in record] == trees[0] + trees[2]
    record.finish_tree(roots[2])
    record.finish_tree(roots[0])
    assert [record.add(event) for event in trees[3]] == [[], [], [roots[2]], []]
    assert [node.event for node in record] == trees[0] + trees[3]
    assert record.evicted == 8


def test_edges_to_an_evicted_event_stay_but_lead_nowhere(runtime: Runtime) -> None:
    record = EventRecord(max_events=1)
    first, second = stamped(runtime, 2)
    record.add(first)
    record.add(second)
    node = record.get(second.event_id)
    assert node is not None
    assert node.neighbors(Edge.PREVIOUS) == [first.event_id]
    assert record.get(first.event_id) is None


def test_a_record_is_read_safely_while_a_run_writes_it(runtime: Runtime) -> None:
    record = EventRecord(max_events=50)
    made, done = stamped(runtime, 3000), threading.Event()

    def write() -> None:
        for event in made:
            record.add(event)
        done.set()

    with thread(write):
        while not done.is_set():
            for node in record.all_nodes():
                node.neighbors(Edge.NEXT)
            record.descendants(made[0].event_id)
            assert len(record.roots()) <= 50
    assert len(record) == 50


def test_events_that_are_only_worth_seeing_live_are_not_recorded(runtime: Runtime) -> None:
    runtime.event_bus.enable_recording()
    chunk, number = emitted(runtime, ChunkEvent()), emitted(runtime, NumberEvent())
    state = runtime.event_bus.runtime_state
    assert state is not None
    assert chunk.event_id not in state.event_record
    assert number.event_id in state.event_record
