from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
from tests.events.samples import LONG, Gate, NumberEvent, register, wait_for

from holdfast import Run, Runtime, bind
from holdfast.clock import SystemClock
from holdfast.events import RunCompletedEvent


@pytest.mark.parametrize("kind", ["async", "background", "async background"])
async def test_aemit_waits_until_the_handlers_are_done(kind: str, runtime: Runtime) -> None:
    bus, gate = runtime.event_bus, Gate()
    register(gate, kind, bus)

    async def body(run: Run) -> None:
        emitting = asyncio.create_task(bus.aemit(None, NumberEvent()))
        await asyncio.to_thread(wait_for, gate.entered)
        assert not emitting.done()
        gate.go.set()
        await emitting
        assert gate.done == ["sample_number"]

    await runtime.arun(body)


async def test_aemit_does_not_wait_for_other_runs(runtime: Runtime) -> None:
    bus, held, go = runtime.event_bus, asyncio.Event(), asyncio.Event()

    async def hold(source: object, event: NumberEvent) -> None:
        if event.n:
            held.set()
            await go.wait()

    bus.on(NumberEvent)(hold)

    async def slow(run: Run) -> None:
        bus.emit(None, NumberEvent(n=1))

    async def fast(run: Run) -> None:
        await held.wait()
        await bus.aemit(None, NumberEvent(n=0))
        go.set()

    await asyncio.gather(runtime.arun(slow), runtime.arun(fast))


async def test_a_run_ends_only_when_the_handlers_of_its_last_event_are_done(runtime: Runtime) -> None:
    bus, gate = runtime.event_bus, Gate()
    bus.on(RunCompletedEvent)(gate.awaited)

    async def body(run: Run) -> None: ...

    run = runtime.start(body)
    await asyncio.to_thread(wait_for, gate.entered)
    waiting = asyncio.ensure_future(run.ended())
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.go.set()
    await waiting
    assert gate.done == ["run_completed"]


class HaltingClock(SystemClock):
    """Calls a function the next time somebody looks at the clock."""

    then: Callable[[], None] | None = None

    def monotonic(self) -> float:
        then, self.then = self.then, None
        if then is not None:
            then()
        return time.monotonic()


async def test_a_run_does_not_end_while_another_thread_delivers_its_last_event() -> None:
    clock, gate, hold = HaltingClock(), Gate(), threading.Event()
    async with Runtime(clock=clock, grace=LONG) as runtime:
        bus, held = runtime.event_bus, threading.Event()

        def hold_back(source: object, event: object) -> None:
            held.set()
            wait_for(hold)

        def let_it_take_the_end() -> None:
            hold.set()
            wait_for(gate.entered)

        bus.on(NumberEvent)(hold_back)
        bus.on(RunCompletedEvent)(gate.sync)
        helper: list[threading.Thread] = []

        async def body(run: Run) -> None:
            helper.append(threading.Thread(target=bind(bus.emit), args=(None, NumberEvent()), daemon=True))
            helper[0].start()
            await asyncio.to_thread(wait_for, held)
            # the end of the run is queued behind what the helper delivers; the helper takes it up, and only then does
            # the run look whether its handlers are done: nothing is queued, but one is at work
            clock.then = let_it_take_the_end

        run = runtime.start(body)
        ending = asyncio.ensure_future(run.ended())
        await asyncio.to_thread(wait_for, gate.entered)
        for _ in range(20):
            await asyncio.sleep(0)
        early = ending.done()
        gate.go.set()
        await ending
        helper[0].join(LONG)
        assert not early
