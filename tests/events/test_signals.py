from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress

import pytest
from tests.events.programs import program
from tests.events.samples import thread, wait_for

from holdfast import Runtime, on_signal, watch_signals
from holdfast.errors import UsageError
from holdfast.events import SigHupEvent, SignalEvent


def test_a_handler_sees_sigterm_and_then_the_process_dies_of_it() -> None:
    with program("""
@bus.on(SigTermEvent)
def note(source, event):
    say("handler", event.type, event.signum)

with watch_signals(signal.SIGTERM, bus=bus):
    say("ready")
    idle()
""") as child:
        child.expect("ready")
        child.send(signal.SIGTERM)
        assert child.ended() == (-signal.SIGTERM, "handler sig_term 15\n")


def test_async_and_background_handlers_are_waited_for_before_the_signal_takes_effect() -> None:
    with program("""
async def awaited(source, event):
    say("async")

bus.on(SignalEvent)(awaited)
bus.on(SignalEvent, background=True)(lambda source, event: say("background"))
with watch_signals(bus=bus):
    say("ready")
    idle()
""") as child:
        child.expect("ready")
        child.send(signal.SIGHUP)
        code, said = child.ended()
        assert code == -signal.SIGHUP
        assert sorted(said.split()) == ["async", "background"]


def test_on_signal_listens_on_the_default_bus_and_sigint_is_a_keyboard_interrupt_after_the_handlers() -> None:
    with program("""
@on_signal
def note(source, event):
    say("handler", type(event).__name__)

with watch_signals():
    say("ready")
    try:
        idle()
    except KeyboardInterrupt:
        say("interrupted")
say("after", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
""") as child:
        child.expect("ready")
        child.send(signal.SIGINT)
        assert child.ended() == (0, "handler SigIntEvent\ninterrupted\nafter True\n")


def test_a_signal_handler_that_was_there_before_is_called_after_ours_and_put_back() -> None:
    with program("""
done = threading.Event()

def before(number, frame):
    say("before", number)
    done.set()

signal.signal(signal.SIGHUP, before)
bus.on(SignalEvent)(lambda source, event: say("ours"))
with watch_signals(signal.SIGHUP, bus=bus):
    for _ in range(2):
        done.clear()
        say("ready")
        done.wait(10)
say("after", signal.getsignal(signal.SIGHUP) is before)
""") as child:
        for _ in range(2):
            child.expect("ready")
            child.send(signal.SIGHUP)
            child.expect("ours")
            child.expect("before 1")
        assert child.ended() == (0, "after True\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_is_not_delayed_by_a_stuck_handler(number: signal.Signals) -> None:
    with program("""
@bus.on(SignalEvent)
def stuck(source, event):
    say("stuck")
    threading.Event().wait()

with watch_signals(bus=bus, patience=60):
    say("ready")
    idle()
""") as child:
        child.expect("ready")
        child.send(number)
        child.expect("stuck")
        child.send(number)
        code, said = child.ended()
        # an unhandled KeyboardInterrupt ends Python as the signal would
        assert (code, said) == (-number, "")


@pytest.mark.parametrize("kind", ["sync", "async", "background"])
def test_handlers_get_their_patience_and_no_more(kind: str) -> None:
    with program(f"""
def stuck(source, event):
    say("stuck")
    threading.Event().wait()

async def astuck(source, event):
    import asyncio
    say("stuck")
    await asyncio.Event().wait()

bus.on(SignalEvent, background={kind == "background"})({"astuck" if kind == "async" else "stuck"})
with watch_signals(bus=bus, patience=0.2):
    say("ready")
    idle()
""") as child:
        child.expect("ready")
        child.send(signal.SIGTERM)
        child.expect("stuck")
        assert child.ended() == (-signal.SIGTERM, "")


def test_a_handler_that_calls_sys_exit_does_not_swallow_the_signal() -> None:
    with program("""
@bus.on(SignalEvent)
def leave(source, event):
    say("leave")
    sys.exit(0)

with watch_signals(bus=bus):
    say("ready")
    idle()
""") as child:
        child.expect("ready")
        child.send(signal.SIGTERM)
        child.expect("leave")
        assert child.ended()[0] in (0, -signal.SIGTERM)


def test_a_handler_that_raises_does_not_swallow_the_signal() -> None:
    with program("""
@bus.on(SignalEvent)
def fail(source, event):
    raise ValueError

with watch_signals(bus=bus):
    say("ready")
    idle()
""") as child:
        child.expect("ready")
        child.send(signal.SIGTERM)
        assert child.ended()[0] == -signal.SIGTERM


def test_a_signal_still_ends_the_process_after_the_bus_was_shut_down() -> None:
    with program("""
with watch_signals(bus=bus):
    bus.shutdown()
    say("ready")
    idle()
""") as child:
        child.expect("ready")
        child.send(signal.SIGTERM)
        assert child.ended()[0] == -signal.SIGTERM


def test_a_signal_in_the_middle_of_an_emit_neither_deadlocks_nor_is_lost() -> None:
    with program("""
from tests.events.samples import NumberEvent
seen = []
bus.on(SignalEvent)(lambda source, event: seen.append(event.signum))
bus.on(NumberEvent)(lambda source, event: None)
count = [0]

def before(number, frame):
    count[0] += 1

signal.signal(signal.SIGHUP, before)
with watch_signals(signal.SIGHUP, bus=bus):
    say("ready")
    for n in range(1, 51):
        os.kill(os.getpid(), signal.SIGHUP)
        while count[0] < n:
            bus.emit(None, NumberEvent())
say(len(seen), count[0])
""") as child:
        child.expect("ready")
        assert child.ended() == (0, "50 50\n")


def test_every_signal_takes_effect_although_the_main_thread_sleeps_until_it_does() -> None:
    # a signal that is sent on while the main thread is on its way back into its wait must not be left lying
    with program("""
done = threading.Event()
signal.signal(signal.SIGHUP, lambda number, frame: done.set())
bus.on(SignalEvent)(lambda source, event: None)
say("ready")
with watch_signals(signal.SIGHUP, bus=bus):
    for n in range(100):
        done.clear()
        os.kill(os.getpid(), signal.SIGHUP)
        if not done.wait(3):
            say("signal", n, "had no effect")
            os._exit(1)
say("fine")
""") as child:
        child.expect("ready")
        assert child.ended(timeout=30) == (0, "fine\n")


def test_signals_can_only_be_watched_from_the_main_thread(runtime: Runtime) -> None:
    def watch() -> None:
        with pytest.raises(UsageError, match="main thread"), watch_signals(bus=runtime.event_bus):
            pass

    with thread(watch):
        pass


def test_a_signal_without_an_event_is_refused(runtime: Runtime) -> None:
    with pytest.raises(UsageError, match="SIGTERM"), watch_signals(signal.SIGUSR1, bus=runtime.event_bus):
        pass


def test_watching_puts_everything_back_and_ends_its_thread(runtime: Runtime) -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(n) for n in numbers]
    with suppress(LookupError), watch_signals(*numbers, bus=runtime.event_bus):
        assert [signal.getsignal(n) for n in numbers] != before
        assert [t for t in threading.enumerate() if t.name == "holdfast-signals"]
        raise LookupError
    assert [signal.getsignal(n) for n in numbers] == before
    assert not [t for t in threading.enumerate() if t.name == "holdfast-signals"]


def test_a_signal_event_says_where_it_came_from_and_belongs_to_no_run(runtime: Runtime) -> None:
    bus, seen, arrived = runtime.event_bus, [], threading.Event()
    bus.on(SignalEvent)(lambda source, event: seen.append(event))
    old = signal.signal(signal.SIGHUP, lambda number, frame: arrived.set())
    try:
        with watch_signals(signal.SIGHUP, bus=bus):
            os.kill(os.getpid(), signal.SIGHUP)
            wait_for(arrived)
    finally:
        signal.signal(signal.SIGHUP, old)
    (event,) = seen
    assert isinstance(event, SigHupEvent)
    assert event.signum == signal.SIGHUP
    assert event.run_id is None
    assert event.source_name == "operating system"


def test_on_signal_gives_the_function_back_and_takes_a_bus(runtime: Runtime) -> None:
    def note(source: object, event: SignalEvent) -> None: ...

    assert on_signal(note, bus=runtime.event_bus) is note
    assert runtime.event_bus.registrations() == [(SignalEvent, note)]


def test_a_signal_may_wait_for_something_the_main_thread_does(runtime: Runtime) -> None:
    # handlers run on a thread of their own: the main thread is free to answer them
    bus, asked, answered, over = runtime.event_bus, threading.Event(), threading.Event(), threading.Event()

    def ask(source: object, event: object) -> None:
        asked.set()
        wait_for(answered)

    bus.on(SignalEvent)(ask)
    old = signal.signal(signal.SIGHUP, lambda number, frame: over.set())
    try:
        with watch_signals(signal.SIGHUP, bus=bus):
            os.kill(os.getpid(), signal.SIGHUP)
            wait_for(asked)
            assert not over.is_set()
            answered.set()
            wait_for(over)
    finally:
        signal.signal(signal.SIGHUP, old)
