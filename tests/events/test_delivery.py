from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.events.samples import LONG, EchoEvent, NumberEvent, emit, thread, together

from holdfast import Depends, Run, Runtime, bind
from holdfast.errors import EventReusedError
from holdfast.events import BaseEvent


class Orders:
    """Sees every event with a sync, an async and a background handler, and notes the sequence numbers of each."""

    def __init__(self, runtime: Runtime) -> None:
        self.sync: list[int] = []
        self.awaited: list[int] = []
        self.background: list[int] = []
        bus = runtime.event_bus
        bus.on(NumberEvent)(lambda source, event: self.sync.append(event.emission_sequence))
        bus.on(NumberEvent)(self._await)
        bus.on(NumberEvent, background=True, overflow="block", capacity=16)(
            lambda source, event: self.background.append(event.emission_sequence)
        )

    async def _await(self, source: object, event: NumberEvent) -> None:
        if event.emission_sequence % 3 == 0:
            await asyncio.sleep(0)
        self.awaited.append(event.emission_sequence)

    def assert_in_order(self, count: int) -> None:
        for seen in (self.sync, self.awaited, self.background):
            assert len(seen) == count
            assert seen == sorted(set(seen))


def emit_many(runtime: Runtime, times: int) -> Callable[[], None]:
    def work() -> None:
        for n in range(times):
            runtime.event_bus.emit(None, NumberEvent(n=n))

    return work


def test_eight_threads_emitting_in_one_run_are_seen_in_order_by_each_handler(runtime: Runtime) -> None:
    orders = Orders(runtime)
    runtime.run(lambda run: together(*[bind(emit_many(runtime, 100))] * 8))
    runtime.event_bus.flush()
    orders.assert_in_order(800)


async def test_order_holds_on_the_loop_of_the_run_with_threads_and_tasks_together(runtime: Runtime) -> None:
    orders = Orders(runtime)

    async def emit_between_awaits() -> None:
        for n in range(100):
            runtime.event_bus.emit(None, NumberEvent(n=n))
            await asyncio.sleep(0)

    async def body(run: Run) -> None:
        threads = [asyncio.to_thread(emit_many(runtime, 100)) for _ in range(3)]
        await asyncio.gather(*threads, *(emit_between_awaits() for _ in range(3)))

    await runtime.arun(body)
    await runtime.event_bus.aflush()
    orders.assert_in_order(600)


def test_events_of_child_runs_share_the_order_of_their_root(runtime: Runtime) -> None:
    orders = Orders(runtime)

    def child(run: Run) -> None:
        emit_many(runtime, 50)()

    runtime.run(lambda run: together(*[bind(lambda: runtime.run(child))] * 4))
    runtime.event_bus.flush()
    orders.assert_in_order(200)


def test_events_of_separate_runs_are_numbered_apart(runtime: Runtime) -> None:
    seen: dict[str, list[int]] = {}
    runtime.event_bus.on(NumberEvent)(lambda s, e: seen.setdefault(e.run_id, []).append(e.emission_sequence))

    def body(run: Run) -> None:
        emit_many(runtime, 50)()

    together(*[lambda: runtime.run(body)] * 4)
    assert len(seen) == 4
    for numbers in seen.values():
        assert numbers == list(range(numbers[0], numbers[0] + 50))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=5))
def test_reentrant_emits_reach_every_handler_in_the_order_they_were_stamped(plan: list[list[int]]) -> None:
    # each number n makes a handler emit that many more, so emits nest inside handlers of several depths
    with Runtime() as runtime:
        orders, bus = Orders(runtime), runtime.event_bus

        def breed(source: object, event: NumberEvent) -> None:
            for _ in range(event.n):
                bus.emit(None, NumberEvent(n=event.n - 1))

        async def breed_later(source: object, event: NumberEvent) -> None:
            if event.n == 2:
                bus.emit(None, NumberEvent(n=0))

        bus.on(NumberEvent)(breed)
        bus.on(NumberEvent)(breed_later)
        bus.on(NumberEvent, background=True)(lambda s, e: bus.emit(None, NumberEvent()) if e.n == 3 else None)

        def body(run: Run) -> None:
            batches = [[NumberEvent(n=n) for n in mine] for mine in plan]
            together(*(bind(functools.partial(emit, runtime, *batch)) for batch in batches))
            bus.flush()

        runtime.run(body)
        orders.assert_in_order(len(orders.sync))
        offspring = {0: 1, 1: 2, 2: 6, 3: 20}  # itself, what it breeds, one more for each 2 and each 3
        assert len(orders.sync) == sum(offspring[n] for mine in plan for n in mine)


def test_no_handler_is_entered_twice_at_a_time_by_one_run(runtime: Runtime) -> None:
    inside, worst, lock = 0, 0, threading.Lock()

    def enter(source: object, event: object) -> None:
        nonlocal inside, worst
        with lock:
            inside += 1
            worst = max(worst, inside)
        threading.Event().wait(0)
        with lock:
            inside -= 1

    runtime.event_bus.on(NumberEvent)(enter)
    runtime.run(lambda run: together(*[bind(emit_many(runtime, 200))] * 4))
    assert worst == 1


# -- handlers that depend on one another -------------------------------------------------------------------------------


def handler(called: list[str], name: str, *, awaits: bool) -> Callable[[object, BaseEvent], Any]:
    """A handler that notes when it begins and when it is done; an async one lets others run in between."""

    def sync(source: object, event: BaseEvent) -> None:
        called.extend((f"{name}+", f"{name}-"))

    async def awaited(source: object, event: BaseEvent) -> None:
        called.append(f"{name}+")
        for _ in range(3):
            await asyncio.sleep(0)
        called.append(f"{name}-")

    return awaited if awaits else sync


@pytest.mark.parametrize("kinds", ["ssss", "aaaa", "sasa", "asas", "assa", "saas", "sssa", "asss"])
@pytest.mark.parametrize("order", ["abcd", "dcba", "cadb"])
def test_a_diamond_of_sync_and_async_handlers_goes_level_by_level(kinds: str, order: str, runtime: Runtime) -> None:
    called: list[str] = []
    made = {name: handler(called, name, awaits=kind == "a") for name, kind in zip("abcd", kinds, strict=True)}
    needs: dict[str, list[Any]] = {
        "a": [],
        "b": [made["a"]],
        "c": [Depends(made["a"])],
        "d": [made["b"], Depends(made["c"])],
    }
    for name in order:
        runtime.event_bus.on(NumberEvent, depends_on=needs[name])(made[name])
    runtime.event_bus.validate_dependencies()

    for _ in range(2):
        runtime.run(lambda run: runtime.event_bus.emit(None, NumberEvent()))
        runtime.event_bus.flush()
        assert sorted(called) == sorted(f"{name}{end}" for name in "abcd" for end in "+-")
        for before, after in ("ab", "ac", "bd", "cd"):
            assert called.index(f"{before}-") < called.index(f"{after}+")
        called.clear()


def test_a_sync_handler_after_an_async_one_keeps_the_order_of_events(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []

    async def first(source: object, event: NumberEvent) -> None:
        await asyncio.sleep(0)

    bus.on(NumberEvent)(first)
    # for EchoEvent it has nobody to wait for; it must wait all the same, or it would see these before the numbers
    bus.on(NumberEvent, EchoEvent, depends_on=first)(lambda source, event: seen.append(event.emission_sequence))

    def body(run: Run) -> None:
        for n in range(30):
            bus.emit(None, NumberEvent() if n % 2 else EchoEvent())

    runtime.run(body)
    bus.flush()
    assert len(seen) == 30
    assert seen == sorted(seen)


def test_taking_an_async_dependency_away_does_not_let_later_events_overtake(runtime: Runtime) -> None:
    bus, seen, go = runtime.event_bus, [], threading.Event()

    async def first(source: object, event: NumberEvent) -> None:
        await asyncio.to_thread(go.wait, LONG)

    bus.on(NumberEvent)(first)
    bus.on(NumberEvent, depends_on=first)(lambda source, event: seen.append(event.n))
    bus.emit(None, NumberEvent(n=1))
    bus.off(NumberEvent, first)
    bus.emit(None, NumberEvent(n=2))
    go.set()
    bus.flush()
    assert seen == [1, 2]


async def test_an_async_handler_of_a_run_is_called_on_the_loop_of_that_run(runtime: Runtime) -> None:
    loops: list[object] = []

    async def note(source: object, event: object) -> None:
        loops.append(asyncio.get_running_loop())

    runtime.event_bus.on(NumberEvent)(note)

    async def body(run: Run) -> None:
        await runtime.event_bus.aemit(None, NumberEvent())
        await asyncio.to_thread(runtime.event_bus.emit, None, NumberEvent())
        await runtime.event_bus.aflush()

    await runtime.arun(body)
    assert loops == [asyncio.get_running_loop()] * 2


def test_events_queued_when_the_loop_of_their_run_shuts_down_still_arrive(runtime: Runtime) -> None:
    # asyncio.run cancels every task when it leaves; the one that would call the handler had not begun
    bus, seen = runtime.event_bus, []

    async def note(source: object, event: NumberEvent) -> None:
        seen.append(event.n)

    bus.on(NumberEvent)(note)

    async def main() -> None:
        async def body(run: Run) -> None:
            stop.set()
            await asyncio.sleep(0)  # from here on the loop has one round left
            bus.emit(None, NumberEvent(n=1))
            await asyncio.Event().wait()

        stop = asyncio.Event()
        runtime.start(body)
        await stop.wait()

    asyncio.run(main())
    assert seen == [1]


def test_an_emit_that_is_refused_does_not_disturb_the_order_of_another_thread(runtime: Runtime) -> None:
    bus, seen, stop, used = runtime.event_bus, [], threading.Event(), EchoEvent()
    bus.on(NumberEvent)(lambda source, event: seen.append(event.n))
    bus.emit(None, used)
    interval = sys.getswitchinterval()

    def be_refused() -> None:
        while not stop.is_set():
            with pytest.raises(EventReusedError):
                bus.emit(None, used)

    def body(run: Run) -> None:
        with thread(bind(be_refused)):
            emit(runtime, *(NumberEvent(n=n) for n in range(5000)))
            stop.set()

    sys.setswitchinterval(1e-6)
    try:
        runtime.run(body)
    finally:
        sys.setswitchinterval(interval)
    assert seen == list(range(5000))
