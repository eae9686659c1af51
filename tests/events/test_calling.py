from __future__ import annotations

import asyncio

import pytest
from tests.events.samples import LONG, NumberEvent, python

from holdfast import Run, Runtime
from holdfast.events import BaseEvent, HandlerFailedEvent


@pytest.mark.parametrize("kind", ["sync", "async", "background"])
def test_a_handler_that_raises_is_told_of_and_the_others_are_called(kind: str, runtime: Runtime) -> None:
    bus, failures, called = runtime.event_bus, [], []

    def fail(source: object, event: object) -> None:
        raise ValueError("no")

    async def afail(source: object, event: object) -> None:
        raise ValueError("no")

    broken = afail if kind == "async" else fail
    bus.on(HandlerFailedEvent)(lambda source, event: failures.append(event))
    bus.on(NumberEvent, background=kind == "background")(broken)
    bus.on(NumberEvent)(lambda source, event: called.append("sync"))

    async def after(source: object, event: object) -> None:
        called.append("async")

    bus.on(NumberEvent, depends_on=None if kind == "background" else broken)(after)
    event = NumberEvent()

    def body(run: Run) -> str:
        bus.emit(None, event)
        bus.flush()
        return run.id

    run_id = runtime.run(body)
    assert sorted(called) == ["async", "sync"]
    (failure,) = failures
    assert failure.failed_event_id == event.event_id
    assert failure.failed_event_type == "sample_number"
    assert failure.handler.endswith("fail")
    assert (failure.error, failure.error_type) == ("no", "ValueError")
    assert failure.run_id == run_id
    assert bus.statistics().handler_failures == 1


UNPRINTABLE = """
import os, sys
from holdfast import Runtime
from holdfast.events import HandlerFailedEvent
from tests.events.samples import NumberEvent

class Unprintable(Exception):
    def __str__(self):
        raise ValueError("not even a message")

def sync(source, event):
    raise Unprintable

async def awaited(source, event):
    raise Unprintable

bus, seen, failures = Runtime().event_bus, [], []
bus.on(NumberEvent, background=sys.argv[1] == "background")(awaited if sys.argv[1] == "async" else sync)
bus.on(NumberEvent)(lambda source, event: seen.append(event.n))
bus.on(HandlerFailedEvent)(lambda source, event: failures.append(event.error_type))
for n in range(2):
    bus.emit(None, NumberEvent(n=n))
    bus.flush(timeout=5)
print(seen, failures, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("kind", ["sync", "async", "background"])
def test_an_error_that_cannot_be_printed_breaks_neither_the_emitter_nor_the_handler(kind: str) -> None:
    told = python(UNPRINTABLE, kind)
    assert told.stdout == "[0, 1] ['Unprintable', 'Unprintable']\n", told.stderr


def test_a_handler_of_failures_that_fails_is_not_told_of_again(runtime: Runtime) -> None:
    bus, calls = runtime.event_bus, []

    def fail(source: object, event: BaseEvent) -> None:
        calls.append(event.type)
        raise ValueError

    bus.on(NumberEvent, HandlerFailedEvent)(fail)
    bus.emit(None, NumberEvent())
    assert calls == ["sample_number", "handler_failed"]
    assert bus.statistics().handler_failures == 2


def test_a_handler_cancelled_from_inside_is_told_of_and_those_that_depend_on_it_are_called(runtime: Runtime) -> None:
    bus, failures, called = runtime.event_bus, [], []

    async def first(source: object, event: object) -> None:
        raise asyncio.CancelledError

    bus.on(HandlerFailedEvent)(lambda source, event: failures.append(event.error_type))
    bus.on(NumberEvent)(first)
    bus.on(NumberEvent, depends_on=first)(lambda source, event: called.append(event.n))
    for n in range(2):
        bus.emit(None, NumberEvent(n=n))
    bus.flush()
    assert failures == ["CancelledError", "CancelledError"]
    assert called == [0, 1]


async def test_a_cancelled_handler_does_not_let_its_neighbour_be_entered_twice(runtime: Runtime) -> None:
    bus, entered, go = runtime.event_bus, [], asyncio.Event()

    async def root(source: object, event: object) -> None: ...

    async def cancelled(source: object, event: object) -> None:
        raise asyncio.CancelledError

    async def neighbour(source: object, event: NumberEvent) -> None:
        entered.append(event.n)
        await go.wait()
        entered.append(event.n)

    bus.on(NumberEvent)(root)
    bus.on(NumberEvent, depends_on=root)(neighbour)
    bus.on(NumberEvent, depends_on=root)(cancelled)

    async def body(run: Run) -> None:
        bus.emit(None, NumberEvent(n=1))
        bus.emit(None, NumberEvent(n=2))
        for _ in range(20):
            await asyncio.sleep(0)
        go.set()
        await bus.aflush()

    await runtime.arun(body)
    assert entered == [1, 1, 2, 2]


def test_keyboard_interrupt_in_a_handler_goes_through_and_the_bus_works_afterwards(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []

    def interrupted(source: object, event: NumberEvent) -> None:
        if event.n == 1:
            bus.emit(None, NumberEvent(n=2))  # in the queue when the interrupt comes
            raise KeyboardInterrupt

    bus.on(NumberEvent)(interrupted)
    bus.on(NumberEvent)(lambda source, event: seen.append(event.n))
    with pytest.raises(KeyboardInterrupt):
        bus.emit(None, NumberEvent(n=1))
    bus.emit(None, NumberEvent(n=3))
    assert seen == [2, 3]
    assert bus.flush(timeout=LONG)


INTERRUPTED_ANYWHERE = """
import random, signal, sys, threading
from holdfast import Runtime
from tests.events.samples import NumberEvent

def interrupt(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
random.seed(1)
bus, seen = Runtime().event_bus, set()
bus.on(NumberEvent)(lambda source, event: seen.add(event.n))
for n in range(1, 2000):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 3e-4))
        while True:
            bus.emit(None, NumberEvent())
            if n % 2:
                bus.flush(5)
    except KeyboardInterrupt:
        pass
    bus.emit(None, NumberEvent(n=n))
    if n not in seen:
        sys.exit(f"after interrupt {n} nothing is delivered any more")
    if n % 100 == 0:
        other = threading.Thread(target=lambda: bus.emit(None, NumberEvent(n=-n)), daemon=True)
        other.start()
        other.join(5)
        if -n not in seen:
            sys.exit(f"after {n} interrupts another thread cannot emit")
print("fine")
"""


def test_an_interrupt_at_any_moment_of_an_emit_leaves_the_bus_working() -> None:
    told = python(INTERRUPTED_ANYWHERE, timeout=50)
    assert told.stdout == "fine\n", told.stderr
