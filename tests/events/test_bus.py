from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections import defaultdict

import pytest
from tests.events.samples import (
    EchoEvent,
    NumberEvent,
    emit,
    emitted,
    holdfast_threads,
    python,
    thread,
    together,
    wait_for,
)

from holdfast import EventBus, Run, Runtime, bind
from holdfast.context import Position, at
from holdfast.errors import BusClosedError, ClosedError, RunEndedError
from holdfast.events import HandlerFailedEvent
from holdfast.events._delivery import Outlet
from holdfast.events._handlers import HandlerTable

# -- ending ------------------------------------------------------------------------------------------------------------


async def awaited(source: object, event: object) -> None: ...


def test_shutdown_delivers_what_was_emitted_and_ends_every_thread() -> None:
    before, bus, seen = holdfast_threads(), EventBus(), []

    async def anote(source: object, event: NumberEvent) -> None:
        await asyncio.sleep(0)
        seen.append(("async", event.n))

    bus.on(NumberEvent)(anote)
    bus.on(NumberEvent, background=True)(lambda source, event: seen.append(("background", event.n)))
    for n in range(20):
        bus.emit(None, NumberEvent(n=n))
    bus.shutdown()
    assert sorted(seen) == sorted((kind, n) for kind in ("async", "background") for n in range(20))
    assert holdfast_threads() - before == set()


async def test_everything_after_shutdown_is_refused_with_an_error_of_its_own(runtime: Runtime) -> None:
    bus, old = runtime.event_bus, emitted(runtime, NumberEvent())
    bus.shutdown()
    with pytest.raises(BusClosedError, match="cannot emit"):
        bus.emit(None, NumberEvent())
    with pytest.raises(BusClosedError, match="cannot emit"):
        await bus.aemit(None, NumberEvent())
    with pytest.raises(BusClosedError, match="cannot listen"):
        bus.on(NumberEvent)(lambda source, event: None)
    with pytest.raises(BusClosedError, match="cannot replay"):
        bus.replay(None, old)
    assert issubclass(BusClosedError, ClosedError)


def test_shutdown_twice_is_fine_and_so_is_removing_a_handler_afterwards(runtime: Runtime) -> None:
    bus = runtime.event_bus
    bus.on(NumberEvent, background=True)(note := lambda source, event: None)
    bus.shutdown()
    bus.shutdown()
    assert bus.off(NumberEvent, note)


def test_no_thread_is_started_until_a_handler_needs_one() -> None:
    told = python("""
import asyncio, threading
import holdfast
from holdfast import Runtime
from tests.events.samples import NumberEvent, EchoEvent, ChunkEvent

def names():
    return sorted(t.name for t in threading.enumerate())

runtime = Runtime()
bus = runtime.event_bus
bus.enable_recording()
bus.on(NumberEvent)(lambda source, event: None)
bus.on(EchoEvent, background=True)(lambda source, event: None)
async def awaited(source, event): ...
bus.on(ChunkEvent)(awaited)
runtime.run(lambda run: bus.emit(None, NumberEvent()))
async def body(run):
    bus.emit(None, NumberEvent())
asyncio.run(runtime.arun(body))
bus.flush()
assert names() == ["MainThread"], names()
bus.emit(None, EchoEvent())
bus.flush()
assert names() == ["MainThread", "holdfast-<lambda>"], names()
bus.emit(None, ChunkEvent())
bus.flush()
assert names() == ["MainThread", "holdfast-<lambda>", "holdfast-loop"], names()
runtime.close()
assert names() == ["MainThread"], names()
print("fine")
""")
    assert told.stdout == "fine\n", told.stderr


def test_a_background_thread_does_not_keep_the_interpreter_alive() -> None:
    told = python("""
import threading
from holdfast import event_bus
from tests.events.samples import NumberEvent
event_bus.on(NumberEvent, background=True)(lambda source, event: print("seen", event.n, flush=True))
event_bus.emit(None, NumberEvent(n=1))
""")
    assert (told.returncode, told.stdout) == (0, "seen 1\n"), told.stderr


# -- blocks ------------------------------------------------------------------------------------------------------------


def test_scoped_handlers_hear_alone_and_go_and_the_others_come_back(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []
    bus.on(NumberEvent)(lambda source, event: seen.append("outer"))

    def use_and_fail() -> None:
        with bus.scoped_handlers():
            bus.on(NumberEvent)(lambda source, event: seen.append("inner"))
            bus.emit(None, NumberEvent())
            with bus.scoped_handlers():
                bus.emit(None, NumberEvent())
                assert bus.registrations() == []
            bus.emit(None, NumberEvent())
            raise LookupError

    with pytest.raises(LookupError):
        use_and_fail()
    bus.emit(None, NumberEvent())
    assert seen == ["inner", "inner", "outer"]


def test_isolated_is_a_new_bus_and_leaves_the_old_one_as_it_was(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []
    bus.on(NumberEvent)(lambda source, event: seen.append(event.n))
    bus.enable_recording()
    bus.emit(None, NumberEvent(n=1))
    state, counts = bus.runtime_state, bus.statistics()
    with bus.isolated():
        assert bus.registrations() == []
        assert (bus.is_recording, bus.runtime_state) == (False, None)
        assert bus.statistics().outside_runs == 0
        bus.enable_recording()
        bus.emit(None, NumberEvent(n=2))
        assert bus.runtime_state is not state
    assert seen == [1]
    assert bus.runtime_state is state
    assert bus.statistics() == counts
    bus.emit(None, NumberEvent(n=3))
    assert seen == [1, 3]
    assert state is not None
    assert len(state.event_record) == 2


# -- outside runs, and in runs that ended ------------------------------------------------------------------------------


def test_s2_4_an_event_outside_any_run_is_counted_warned_about_once_and_seen_by_the_bus_only(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    bus, everywhere, own, children = runtime.event_bus, [], [], []
    bus.on(NumberEvent)(lambda source, event: everywhere.append((event.n, event.run_id)))

    def body(run: Run) -> str:
        run.on(NumberEvent)(lambda source, event: own.append(event.n))
        with thread(lambda: emit(runtime, *(NumberEvent(n=n) for n in range(3)))):  # not bound
            pass
        bus.emit(None, NumberEvent(n=7))
        runtime.run(
            lambda child: child.on(NumberEvent)(lambda s, e: children.append(e.n)) and child.emit(NumberEvent(n=8))
        )
        return run.id

    with caplog.at_level(logging.WARNING, "holdfast"):
        run_id = runtime.run(body)
    assert [n for n, _ in everywhere] == [0, 1, 2, 7, 8]
    assert everywhere[:4] == [(0, None), (1, None), (2, None), (7, run_id)]
    assert own == [7, 8]
    assert children == [8]
    assert bus.statistics().outside_runs == 3
    warnings = [r.getMessage() for r in caplog.records if "outside any run" in r.getMessage()]
    assert len(warnings) == 1
    assert "NumberEvent" in warnings[0]
    assert "bind" in warnings[0]


def test_s2_4_the_count_is_exact_when_several_threads_emit_outside(runtime: Runtime) -> None:
    bus = runtime.event_bus
    together(*[lambda: emit(runtime, *(NumberEvent() for _ in range(500)))] * 4)
    assert bus.statistics().outside_runs == 2000


def test_s2_4_an_event_that_was_refused_is_not_counted(runtime: Runtime) -> None:
    bus, event = runtime.event_bus, NumberEvent()
    bus.emit(None, event)
    with pytest.raises(Exception, match="emitted before"):
        bus.emit(None, event)
    assert bus.statistics().outside_runs == 1


def test_an_emit_in_a_run_that_has_ended_is_refused(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []
    bus.on(NumberEvent)(lambda source, event: seen.append(event))
    late = runtime.run(lambda run: bind(lambda: bus.emit(None, NumberEvent())))
    with pytest.raises(RunEndedError, match="it has ended"):
        late()
    assert seen == []
    assert bus.statistics().outside_runs == 0
    with pytest.raises(RunEndedError):
        runtime.run(lambda run: run).emit(NumberEvent())


def test_a_run_takes_its_handlers_along(runtime: Runtime) -> None:
    class Clerk:
        def note(self, source: object, event: object) -> None: ...

    def body(run: Run) -> weakref.ref[Clerk]:
        clerk = Clerk()
        run.on(NumberEvent)(clerk.note)
        run.emit(NumberEvent())
        return weakref.ref(clerk)

    gone = runtime.run(body)
    gc.collect()
    assert gone() is None
    with pytest.raises(RunEndedError):
        runtime.run(lambda run: run).on(NumberEvent)(lambda source, event: None)


# -- finalisers --------------------------------------------------------------------------------------------------------


class Finaliser:
    """Emits when it is collected, which may be in the middle of anything."""

    emitted = 0

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus
        self.me = self

    def __del__(self) -> None:
        type(self).emitted += 1
        self.bus.emit("finaliser", EchoEvent())


def test_what_a_run_finds_out_as_its_first_handler_comes_is_not_taken_for_true_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus, heard, threads = EventBus(), list[str | None](), list[threading.Thread]()
    one, other = bus.open_outlet("one"), bus.open_outlet("other")
    tables = Outlet.tables

    def note(source: object, event: NumberEvent) -> None:
        heard.append(event.run_id)

    changes = [  # the first makes it look a second time; its own handler comes during that
        lambda: bus.register_handler(EchoEvent, note),
        lambda: bus.on_run(one, [NumberEvent], note, None),
    ]

    def tables_beside_another(self: Outlet) -> list[HandlerTable]:
        found = tables(self)
        if self is one and changes:
            threads.append(threading.Thread(target=changes.pop(0)))
            threads[-1].start()
            threads[-1].join(0.05)
        return found

    monkeypatch.setattr(Outlet, "tables", tables_beside_another)
    for outlet in (one, one, other, one, other):
        with at(Position(outlet.run_id)):
            bus.wants(NumberEvent)
        for other_thread in threads:
            other_thread.join()
    for outlet in (one, other):
        with at(Position(outlet.run_id)):
            bus.emit(bus, NumberEvent(n=1))
    assert heard == ["one"]


def test_an_event_on_its_way_from_the_queue_to_a_lane_is_not_overlooked() -> None:
    bus = EventBus()
    outlet = bus.open_outlet("one")

    class Lanes(dict[object, object]):
        """Somebody delivers into them just as they have been looked at."""

        def __bool__(self) -> bool:
            before = len(self) > 0
            self["lane"], outlet.tree.drainer = "at work", None
            return before

    outlet.tree.lanes, outlet.tree.drainer = Lanes(), 1  # type: ignore[assignment]
    assert not bus.is_settled(outlet)


@pytest.mark.parametrize("recording", [False, True])
def test_a_finaliser_that_emits_in_the_middle_of_an_emit_neither_deadlocks_nor_is_lost(
    recording: bool, runtime: Runtime
) -> None:
    bus, Finaliser.emitted = runtime.event_bus, 0
    seen: dict[str | None, list[int]] = defaultdict(list)  # the collector may run in a thread that is outside the run
    if recording:
        bus.enable_recording()
    bus.on(EchoEvent, NumberEvent)(lambda source, event: seen[event.root_run_id].append(event.emission_sequence))
    bus.on(EchoEvent, NumberEvent)(awaited)
    bus.on(EchoEvent, background=True, overflow="block")(lambda source, event: None)
    done = threading.Event()

    def body(run: Run) -> None:
        for _ in range(300):
            Finaliser(bus)
            bus.emit(None, NumberEvent())
        gc.collect()
        if recording:
            assert bus.runtime_state is not None
            assert len(bus.runtime_state.root) == 1

    def work() -> None:
        threshold = gc.get_threshold()
        gc.set_threshold(3)
        try:
            runtime.run(body)
        finally:
            gc.set_threshold(*threshold)
        done.set()

    with thread(work):
        wait_for(done)
    bus.flush()
    assert Finaliser.emitted == 300
    assert sum(map(len, seen.values())) == 600
    assert all(numbers == sorted(numbers) for numbers in seen.values())


def test_a_finaliser_whose_event_is_refused_does_not_break_the_emitter_it_interrupted(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    bus, failures, used = runtime.event_bus, [], NumberEvent()
    bus.on(HandlerFailedEvent)(lambda source, event: failures.append(event))
    emitted(runtime, used)

    class Source:
        """Its name is asked for in the middle of a stamp; a second emit there stands for a finaliser's."""

        @property
        def name(self) -> str:
            bus.emit(None, used)
            return "source"

    runtime.run(lambda run: bus.emit(Source(), NumberEvent()))
    assert failures == []
    assert "refused" in caplog.text
