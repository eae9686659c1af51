from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.events.samples import LONG, EchoEvent, Gate, NumberEvent, register, thread, wait_for

from holdfast import Run, Runtime, bind
from holdfast.errors import FlushInHandlerError, FlushTimeoutError, HoldfastError, SyncInAsyncError


@pytest.mark.parametrize("kind", ["async", "background", "async background"])
def test_flush_returns_when_every_handler_is_done(kind: str, runtime: Runtime) -> None:
    bus, gate = runtime.event_bus, Gate()
    register(gate, kind, bus)
    for _ in range(3):
        bus.emit(None, NumberEvent())
    gate.assert_waited_for_by(bus.flush)
    assert len(gate.done) == 3


@pytest.mark.parametrize("kind", ["async", "background", "async background"])
@pytest.mark.parametrize("first", ["sync", "async", "background"])
def test_flush_waits_for_what_handlers_emit_meanwhile(first: str, kind: str, runtime: Runtime) -> None:
    bus, gate = runtime.event_bus, Gate()
    register(gate, kind, bus)

    def pass_on(source: object, event: EchoEvent) -> None:
        bus.emit(None, EchoEvent(n=event.n - 1) if event.n else NumberEvent())

    async def apass_on(source: object, event: EchoEvent) -> None:
        await asyncio.sleep(0)
        pass_on(source, event)

    bus.on(EchoEvent, background=first == "background")(apass_on if first == "async" else pass_on)
    bus.emit(None, EchoEvent(n=3))
    gate.assert_waited_for_by(bus.flush)
    assert gate.done == ["sample_number"]


def test_flush_waits_for_another_thread_that_delivers(runtime: Runtime) -> None:
    bus, gate = runtime.event_bus, Gate()
    bus.on(NumberEvent)(gate.sync)
    with thread(lambda: bus.emit(None, NumberEvent())):
        gate.assert_waited_for_by(bus.flush)


def test_flush_waits_for_what_a_handler_of_one_run_emits_into_another(runtime: Runtime) -> None:
    # the other run's queue was empty when the flush looked at it
    bus, gate, deliver = runtime.event_bus, Gate(), threading.Event()
    delivering = threading.Event()
    bus.on(NumberEvent)(gate.awaited)

    def first(one: Run) -> None:
        def second(other: Run) -> None:
            def cross(source: object, event: object) -> None:
                delivering.set()
                wait_for(deliver)
                one.emit(NumberEvent())

            bus.on(EchoEvent)(cross)
            with thread(bind(lambda: bus.emit(None, EchoEvent()))):
                wait_for(delivering)
                with thread(lambda: bus.flush(LONG)) as flusher:
                    flusher.join(0.05)
                    deliver.set()
                    wait_for(gate.entered)
                    flusher.join(0.05)
                    too_early.append(not flusher.is_alive())
                    gate.go.set()

        with thread(lambda: runtime.run(second)):
            pass

    too_early: list[bool] = []
    runtime.run(first)
    assert too_early == [False]


async def test_flush_returns_although_somebody_never_stops_emitting(runtime: Runtime) -> None:
    # it waits for what was emitted so far and for what handlers emit, not for the rest of time
    bus, stop = runtime.event_bus, asyncio.Event()
    bus.on(NumberEvent)(lambda source, event: None)

    async def emit(run: Run) -> None:
        while not stop.is_set():
            bus.emit(None, NumberEvent())
            await asyncio.sleep(0)

    run = runtime.start(emit)
    try:
        assert await bus.aflush(timeout=3)
    finally:
        stop.set()
        await run


def test_flush_waits_for_handlers_of_a_run_that_ended_without_them() -> None:
    # a run gives its handlers `grace` to catch up; one that needs longer is still at work afterwards
    with Runtime(grace=0.01) as runtime:
        bus, gate = runtime.event_bus, Gate()
        bus.on(NumberEvent)(gate.awaited)
        runtime.run(lambda run: bus.emit(None, NumberEvent()))
        gate.assert_waited_for_by(bus.flush)


def test_flush_gives_up_after_its_time(runtime: Runtime) -> None:
    bus, gate = runtime.event_bus, Gate()
    bus.on(NumberEvent, background=True)(gate.sync)
    bus.emit(None, NumberEvent())
    with pytest.raises(FlushTimeoutError, match=r"0\.01 seconds") as caught:
        bus.flush(timeout=0.01)
    assert isinstance(caught.value, TimeoutError)
    gate.go.set()
    assert bus.flush()
    assert gate.done == ["sample_number"]


async def test_aflush_gives_up_after_its_time(runtime: Runtime) -> None:
    bus, gate = runtime.event_bus, Gate()
    bus.on(NumberEvent)(gate.awaited)
    bus.emit(None, NumberEvent())
    with pytest.raises(FlushTimeoutError):
        await bus.aflush(timeout=0.01)
    gate.go.set()
    assert await bus.aflush()


@pytest.mark.parametrize("kind", ["sync", "async", "background", "async background"])
def test_flush_and_aemit_inside_a_handler_are_refused(kind: str, runtime: Runtime) -> None:
    bus, errors = runtime.event_bus, []

    def note(call: Callable[[], object]) -> None:
        try:
            call()
        except HoldfastError as error:
            errors.append(type(error))

    def sync(source: object, event: object) -> None:
        note(bus.flush)
        note(bus.shutdown)

    async def awaited(source: object, event: object) -> None:
        sync(source, event)
        for call in (bus.aflush(), bus.aemit(None, EchoEvent())):
            try:
                await call
            except HoldfastError as error:
                errors.append(type(error))

    bus.on(NumberEvent, background="background" in kind)(awaited if "async" in kind else sync)
    runtime.run(lambda run: bus.emit(None, NumberEvent()))
    bus.flush()
    assert errors == [FlushInHandlerError] * (4 if "async" in kind else 2)


async def test_flush_in_the_loop_whose_handlers_are_pending_is_refused(runtime: Runtime) -> None:
    bus, done = runtime.event_bus, []

    async def note(source: object, event: object) -> None:
        done.append(1)

    bus.on(NumberEvent)(note)

    async def body(run: Run) -> None:
        bus.emit(None, NumberEvent())
        with pytest.raises(SyncInAsyncError, match="aflush"):
            bus.flush()
        assert await bus.aflush()
        assert done == [1]
        assert bus.flush()  # nothing is pending now

    await runtime.arun(body)


async def test_flush_in_the_runtimes_own_loop_with_an_async_background_handler_is_refused(runtime: Runtime) -> None:
    bus, done = runtime.event_bus, []

    async def note(source: object, event: object) -> None:
        done.append(1)

    bus.on(NumberEvent, background=True)(note)

    async def body(run: Run) -> str:
        bus.emit(None, NumberEvent())
        try:
            bus.flush(timeout=1)
        except HoldfastError as error:
            return type(error).__name__
        return "done" if done else "early"

    assert runtime.run(body) == "SyncInAsyncError"  # in a running loop: it runs on the runtime's loop thread
