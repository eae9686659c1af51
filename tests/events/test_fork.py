from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.events.samples import EchoEvent, NumberEvent, in_forked_child, thread, wait_for

from holdfast import Run, Runtime, RuntimeState, on_behalf_of, watch_signals
from holdfast.events import BaseEvent


class Stuck:
    """A source whose name is asked for in the middle of a stamp, under the lock of the bus; it stands still there."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()

    @property
    def name(self) -> str:
        self.entered.set()
        wait_for(self.go)
        return "stuck"


def numbers(runtime: Runtime) -> dict[str, list[int]]:
    """What a sync, an async and a background handler see."""
    seen: dict[str, list[int]] = {"sync": [], "async": [], "background": []}

    async def note(source: object, event: NumberEvent) -> None:
        seen["async"].append(event.n)

    bus = runtime.event_bus
    bus.on(NumberEvent)(lambda source, event: seen["sync"].append(event.n))
    bus.on(NumberEvent)(note)
    bus.on(NumberEvent, background=True)(lambda source, event: seen["background"].append(event.n))
    return seen


def emit_in_child(runtime: Runtime, seen: dict[str, list[int]]) -> dict[str, list[int]]:
    for mine in seen.values():
        mine.clear()
    for n in range(3):
        runtime.event_bus.emit(None, NumberEvent(n=n))
    runtime.event_bus.flush(5)
    return seen


EXPECTED = {kind: [0, 1, 2] for kind in ("sync", "async", "background")}


def test_handlers_of_every_kind_work_in_a_forked_child(runtime: Runtime) -> None:
    seen = numbers(runtime)
    runtime.event_bus.emit(None, NumberEvent(n=9))
    runtime.event_bus.flush()  # so that the parent has its threads already
    assert in_forked_child(lambda: emit_in_child(runtime, seen)) == EXPECTED
    runtime.event_bus.emit(None, NumberEvent(n=8))
    runtime.event_bus.flush()
    assert seen == {kind: [9, 8] for kind in seen}


def test_runs_work_in_a_forked_child(runtime: Runtime) -> None:
    def body(run: Run) -> Any:
        async def child(inner: Run) -> int:
            await runtime.event_bus.aemit(None, NumberEvent())
            return int(await inner.spawn(lambda: 7))

        return in_forked_child(lambda: [asyncio.run(runtime.arun(child)), len(runtime.runs())])

    assert runtime.run(body) == [7, 0]


CALLS: dict[str, Callable[[Runtime], object]] = {
    "emit": lambda r: r.event_bus.emit(None, EchoEvent()),
    "aemit": lambda r: asyncio.run(r.event_bus.aemit(None, EchoEvent())),
    "emit_new": lambda r: r.event_bus.emit_new(None, NumberEvent),
    "on": lambda r: r.event_bus.on(EchoEvent)(lambda source, event: None),
    "off": lambda r: r.event_bus.off(EchoEvent, print),
    "flush": lambda r: r.event_bus.flush(5),
    "aflush": lambda r: asyncio.run(r.event_bus.aflush(5)),
    "statistics": lambda r: r.event_bus.statistics(),
    "registrations": lambda r: r.event_bus.registrations(),
    "validate": lambda r: r.event_bus.validate_dependencies(),
    "enable recording": lambda r: r.event_bus.enable_recording(),
    "reset": lambda r: r.event_bus.reset_runtime_state(),
    "scoped": lambda r: r.event_bus.scoped_handlers().__enter__(),
    "isolated": lambda r: r.event_bus.isolated().__enter__(),
    "run": lambda r: r.run(lambda run: run.emit(EchoEvent())),
    "shutdown": lambda r: r.event_bus.shutdown(5),
    "close": lambda r: r.close(),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_call_deadlocks_in_a_child_forked_while_another_thread_held_the_lock(call: str, runtime: Runtime) -> None:
    stuck = Stuck()
    with thread(lambda: runtime.event_bus.emit(stuck, NumberEvent())):
        wait_for(stuck.entered)
        try:
            assert in_forked_child(lambda: [CALLS[call](runtime)] != []) is True
        finally:
            stuck.go.set()


def test_a_child_forked_while_another_thread_delivered_delivers_its_own(runtime: Runtime) -> None:
    entered, go = threading.Event(), threading.Event()

    def hold(source: object, event: object) -> None:
        entered.set()
        wait_for(go)

    runtime.event_bus.on(EchoEvent)(hold)
    seen = numbers(runtime)
    with thread(lambda: runtime.event_bus.emit(None, EchoEvent())):
        wait_for(entered)
        try:
            assert in_forked_child(lambda: emit_in_child(runtime, seen)) == EXPECTED
        finally:
            go.set()


def test_a_child_forked_while_a_background_handler_was_at_work_has_one_of_its_own(runtime: Runtime) -> None:
    entered, go, seen = threading.Event(), threading.Event(), []

    def hold(source: object, event: NumberEvent) -> None:
        if event.n == 9:
            entered.set()
            wait_for(go)
        seen.append(event.n)

    runtime.event_bus.on(NumberEvent, background=True, capacity=1, overflow="block")(hold)
    runtime.event_bus.emit(None, NumberEvent(n=9))
    wait_for(entered)
    runtime.event_bus.emit(None, NumberEvent(n=8))  # in the box: the parent's, not the child's

    def in_child() -> list[int]:
        runtime.event_bus.emit(None, NumberEvent(n=1))
        runtime.event_bus.flush(5)
        return seen

    try:
        assert in_forked_child(in_child) == [1]
    finally:
        go.set()
    runtime.event_bus.flush()
    assert seen == [9, 8]


def test_a_child_can_record_although_another_thread_was_recording_when_it_was_forked(runtime: Runtime) -> None:
    entered, go = threading.Event(), threading.Event()

    class Entity:
        """Its id is asked for while the state is locked; it stands still there."""

        entity_type = "slow"
        asked = 0

        @property
        def entity_id(self) -> str:
            self.asked += 1
            if self.asked > 1:
                entered.set()
                wait_for(go)
            return "slow"

    runtime.event_bus.set_runtime_state(RuntimeState())

    def in_child() -> bool:
        runtime.run(lambda run: run.emit(NumberEvent()))
        return runtime.event_bus.runtime_state is not None

    with thread(lambda: runtime.run(lambda run: None, entity=Entity())):
        wait_for(entered)
        try:
            assert in_forked_child(in_child)
        finally:
            go.set()


def test_an_emit_in_a_child_forked_inside_a_run_counts_as_outside(runtime: Runtime) -> None:
    bus, seen = runtime.event_bus, []
    bus.on(NumberEvent)(lambda source, event: seen.append([event.run_id, event.parent_event_id]))

    def in_child() -> list[Any]:
        bus.emit(None, NumberEvent())
        return [seen, bus.statistics().outside_runs]

    assert runtime.run(lambda run: in_forked_child(in_child)) == [[[None, None]], 1]


def test_an_emit_after_the_block_in_which_the_child_was_forked_counts_as_outside_too(runtime: Runtime) -> None:
    # leaving a block puts back the place that was before it: the run's, which belongs to the parent
    bus = runtime.event_bus

    def body(run: Run) -> Any:
        block = on_behalf_of(task_id="t")
        block.__enter__()

        def in_child() -> int:
            block.__exit__(None, None, None)
            bus.emit(None, NumberEvent())
            return bus.statistics().outside_runs

        try:
            return in_forked_child(in_child)
        finally:
            block.__exit__(None, None, None)

    assert runtime.run(body) == 1


def test_a_child_forked_in_a_handler_goes_on(runtime: Runtime) -> None:
    bus, told = runtime.event_bus, []
    seen: list[str] = []

    def fork(source: object, event: BaseEvent) -> None:
        def in_child() -> list[str]:
            bus.emit(None, EchoEvent())
            return seen

        told.append(in_forked_child(in_child))

    bus.on(NumberEvent)(fork)
    bus.on(EchoEvent)(lambda source, event: seen.append(event.type))
    runtime.run(lambda run: run.emit(NumberEvent()))
    assert told == [["sample_echo"]]
    assert seen == []


def test_a_child_can_run_through_its_interpreters_exit(runtime: Runtime) -> None:
    # multiprocessing forks, runs, and leaves by the usual way out
    context = multiprocessing.get_context("fork")
    process = context.Process(target=emit_in_child, args=(runtime, numbers(runtime)))
    process.start()
    process.join(10)
    assert process.exitcode == 0


def test_a_signal_ends_a_child_forked_while_signals_were_watched(runtime: Runtime) -> None:
    # the thread that passes signals on is the parent's; Process.terminate() sends one SIGTERM and no second
    with watch_signals(signal.SIGTERM, bus=runtime.event_bus):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)
            os.write(writing, b"x")
            while True:
                signal.pause()
        os.read(reading, 1)
        os.close(reading)
        os.close(writing)
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
