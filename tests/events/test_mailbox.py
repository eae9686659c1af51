from __future__ import annotations

import asyncio
import threading

import pytest
from tests.events.samples import (
    LONG,
    EchoEvent,
    NumberEvent,
    emit,
    holdfast_threads,
    python,
    thread,
    together,
    wait_for,
)

from holdfast import Run, Runtime
from holdfast.events import BaseEvent, HandlerOverflowEvent


class SlowReader:
    """A background handler that stands still at its first event until it is let go."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.entered = threading.Event()
        self.go = threading.Event()

    def __call__(self, source: object, event: NumberEvent) -> None:
        self.entered.set()
        wait_for(self.go)
        self.seen.append(event.n)


def fill(runtime: Runtime, reader: SlowReader, count: int) -> None:
    """Emit 0, wait until the reader stands still at it, then emit the rest: those find nobody reading."""
    runtime.event_bus.emit(None, NumberEvent(n=0))
    wait_for(reader.entered)
    for n in range(1, count):
        runtime.event_bus.emit(None, NumberEvent(n=n))


def test_a_full_box_drops_and_tells_exactly_how_many(runtime: Runtime) -> None:
    bus, reader, told = runtime.event_bus, SlowReader(), []
    bus.on(NumberEvent, background=True, capacity=3, overflow="drop")(reader)
    bus.on(HandlerOverflowEvent)(lambda source, event: told.append(event))
    fill(runtime, reader, 1 + 3 + 10)
    assert [event.dropped for event in told][:1] == [1]  # said at once, not only when all is over
    reader.go.set()
    bus.flush()
    assert reader.seen == [0, 1, 2, 3]
    assert sum(event.dropped for event in told) == 10 == bus.statistics().dropped
    assert {event.handler for event in told} == {"SlowReader"}


def test_drops_are_told_of_at_the_first_and_once_more_when_the_box_is_empty(runtime: Runtime) -> None:
    # one more event for each event dropped would double the load of whoever is too slow already
    bus, reader, told = runtime.event_bus, SlowReader(), []
    bus.on(NumberEvent, background=True, capacity=1, overflow="drop")(reader)
    bus.on(HandlerOverflowEvent)(lambda source, event: told.append(event.dropped))
    fill(runtime, reader, 1 + 1 + 50)
    reader.go.set()
    bus.flush()
    assert told == [1, 49]


def test_no_drop_is_lost_or_counted_twice_when_four_threads_overflow_one_box(runtime: Runtime) -> None:
    bus, reader, told = runtime.event_bus, SlowReader(), []
    bus.on(NumberEvent, background=True, capacity=5, overflow="drop")(reader)
    bus.on(HandlerOverflowEvent)(lambda source, event: told.append(event.dropped))
    fill(runtime, reader, 1)

    def flood(run: Run) -> None:
        emit(runtime, *(NumberEvent(n=n) for n in range(100)))

    together(*[lambda: runtime.run(flood)] * 4)
    reader.go.set()
    bus.flush()
    assert len(reader.seen) == 6
    assert sum(told) == 395 == bus.statistics().dropped


def test_a_box_that_hears_its_own_overflow_does_not_trap_the_emitter(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    # the report of a drop is an event too: if it is dropped in turn, telling of that must come to an end
    caplog.set_level("CRITICAL", "holdfast")
    bus, go = runtime.event_bus, threading.Event()
    bus.on(BaseEvent, background=True, capacity=1, overflow="drop")(lambda source, event: go.wait(LONG))
    emitter = threading.Thread(target=emit, args=(runtime, *(NumberEvent() for _ in range(5))), daemon=True)
    emitter.start()
    emitter.join(3)
    trapped = emitter.is_alive()
    go.set()
    emitter.join(LONG)
    bus.flush()
    assert not trapped


def test_a_full_box_that_blocks_makes_the_emitter_wait_and_loses_nothing(runtime: Runtime) -> None:
    bus, reader, told = runtime.event_bus, SlowReader(), []
    bus.on(NumberEvent, background=True, capacity=2, overflow="block")(reader)
    bus.on(HandlerOverflowEvent)(lambda source, event: told.append(event))
    passed: list[int] = []

    def go_on() -> None:
        fill(runtime, reader, 3)
        full.set()
        for n in range(3, 50):
            bus.emit(None, NumberEvent(n=n))
            passed.append(n)

    full = threading.Event()
    with thread(go_on) as emitter:
        wait_for(full)
        emitter.join(0.1)
        assert emitter.is_alive()
        assert passed == []
        reader.go.set()
    bus.flush()
    assert reader.seen == list(range(50))
    assert told == []


def test_other_threads_of_the_run_are_not_held_up_by_one_that_waits_for_room(runtime: Runtime) -> None:
    bus, reader, stuck = runtime.event_bus, SlowReader(), threading.Event()
    bus.on(NumberEvent)(lambda source, event: stuck.set() if event.n == 2 else None)
    bus.on(NumberEvent, background=True, capacity=1, overflow="block")(reader)
    with thread(lambda: fill(runtime, reader, 10)):
        wait_for(stuck)  # 0 is being read, 1 is in the box, 2 finds it full
        with thread(lambda: emit(runtime, *(NumberEvent(n=100 + n) for n in range(10)))):
            pass  # it ended, although the first thread delivers for both and stands still
        reader.go.set()
    bus.flush()
    assert sorted(reader.seen) == [*range(10), *range(100, 110)]


@pytest.mark.parametrize("overflow", ["block", "drop"])
def test_a_background_handler_that_emits_into_its_own_full_box_does_not_wait_for_itself(
    overflow: str, runtime: Runtime
) -> None:
    bus, seen = runtime.event_bus, []

    def breed(source: object, event: NumberEvent) -> None:
        seen.append(event.n)
        if event.n == 0:
            for n in range(1, 6):
                bus.emit(None, NumberEvent(n=n))

    bus.on(NumberEvent, background=True, capacity=1, overflow=overflow)(breed)  # type: ignore[arg-type]
    bus.emit(None, NumberEvent(n=0))
    bus.flush(timeout=LONG)
    if overflow == "block":
        assert seen == [0, 1, 2, 3, 4, 5]
    assert len(seen) + bus.statistics().dropped == 6


def test_two_background_handlers_that_fill_each_others_boxes_do_not_deadlock(runtime: Runtime) -> None:
    bus, echoes, numbers = runtime.event_bus, [], []

    def answer(source: object, event: NumberEvent) -> None:
        numbers.append(event.n)
        for _ in range(3):
            bus.emit(None, EchoEvent(n=event.n))

    def ask(source: object, event: EchoEvent) -> None:
        echoes.append(event.n)
        if event.n:
            bus.emit(None, NumberEvent(n=event.n - 1))

    bus.on(NumberEvent, background=True, capacity=1, overflow="block")(answer)
    bus.on(EchoEvent, background=True, capacity=1, overflow="block")(ask)
    bus.emit(None, NumberEvent(n=4))
    bus.flush(timeout=LONG)
    assert len(numbers) == 1 + 3 + 9 + 27 + 81
    assert len(echoes) == 3 * len(numbers)


async def test_a_box_is_bounded_for_handlers_that_emit_too(runtime: Runtime) -> None:
    # dropping makes nobody wait, so there is no reason to let an async handler fill memory
    bus, reader = runtime.event_bus, SlowReader()
    bus.on(NumberEvent, background=True, capacity=2, overflow="drop")(reader)

    async def flood(source: object, event: object) -> None:
        for n in range(100):
            bus.emit(None, NumberEvent(n=n))

    bus.on(EchoEvent)(flood)

    async def body(run: Run) -> None:
        bus.emit(None, EchoEvent())
        await asyncio.to_thread(wait_for, reader.entered)
        reader.go.set()
        await bus.aflush()

    await runtime.arun(body)
    assert len(reader.seen) + bus.statistics().dropped == 100
    assert bus.statistics().dropped > 0


def test_registering_a_background_handler_for_more_types_keeps_its_one_box(runtime: Runtime) -> None:
    # a second box would be a second thread: the handler would be entered twice at a time, and flush see one of them
    bus, reader, before = runtime.event_bus, SlowReader(), holdfast_threads()
    bus.on(NumberEvent, background=True)(reader)
    fill(runtime, reader, 2)
    bus.on(EchoEvent, background=True)(reader)
    bus.emit(None, EchoEvent(n=2))
    started = holdfast_threads() - before
    reader.go.set()
    bus.flush()
    assert len(started) == 1
    assert reader.seen == [0, 1, 2]


def test_a_handler_made_a_background_one_later_is_one(runtime: Runtime) -> None:
    bus, where = runtime.event_bus, []

    def note(source: object, event: object) -> None:
        where.append(threading.current_thread())

    bus.on(NumberEvent)(note)
    bus.on(NumberEvent, background=True)(note)
    bus.emit(None, NumberEvent())
    bus.flush()
    assert len(where) == 1
    assert where[0] is not threading.current_thread()


def test_off_ends_the_thread_once_what_is_queued_has_arrived(runtime: Runtime) -> None:
    bus, reader, before = runtime.event_bus, SlowReader(), holdfast_threads()
    bus.on(NumberEvent, background=True)(reader)
    fill(runtime, reader, 3)
    (worker,) = holdfast_threads() - before
    assert bus.off(NumberEvent, reader)
    reader.go.set()
    worker.join(LONG)
    assert not worker.is_alive()
    assert reader.seen == [0, 1, 2]


def test_flush_waits_for_what_a_removed_handler_still_has_to_do(runtime: Runtime) -> None:
    bus, reader = runtime.event_bus, SlowReader()
    bus.on(NumberEvent, background=True)(reader)
    fill(runtime, reader, 3)
    bus.off(NumberEvent, reader)
    flushed = threading.Event()

    def flush() -> None:
        bus.flush(timeout=LONG)
        flushed.set()

    with thread(flush) as flusher:
        flusher.join(0.1)
        early = flushed.is_set()
        reader.go.set()
    assert not early


def test_scoped_handlers_end_their_threads(runtime: Runtime) -> None:
    bus, seen, before = runtime.event_bus, [], holdfast_threads()
    with bus.scoped_handlers():
        bus.on(NumberEvent, background=True)(lambda source, event: seen.append(event.n))
        bus.emit(None, NumberEvent(n=1))
        assert holdfast_threads() - before
    assert seen == [1]
    assert not holdfast_threads() - before


def test_isolated_ends_the_threads_that_were_started_inside(runtime: Runtime) -> None:
    bus, seen, before = runtime.event_bus, [], holdfast_threads()
    with bus.isolated():
        bus.on(NumberEvent, background=True)(lambda source, event: seen.append(event.n))
        bus.emit(None, NumberEvent(n=1))
    assert seen == [1]
    assert not holdfast_threads() - before


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_background_handler_that_wants_to_exit_does_not_take_its_box_along(kind: type[BaseException]) -> None:
    told = python(EXITING.format(kind=kind.__name__))
    assert told.stdout == "[1, 2]\n", told.stderr


EXITING = """
import os, threading
from holdfast import Runtime
from tests.events.samples import NumberEvent

threading.excepthook = lambda args: None
bus, seen = Runtime().event_bus, []

def leave(source, event):
    seen.append(event.n)
    if event.n == 1:
        raise {kind}

bus.on(NumberEvent, background=True)(leave)
for n in (1, 2):
    bus.emit(None, NumberEvent(n=n))
try:
    bus.flush(timeout=3)
finally:
    print(seen, flush=True)
    os._exit(0)
"""
