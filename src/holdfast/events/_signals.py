"""Signals of the operating system as events."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar, cast

from holdfast.context import Forks
from holdfast.errors import HoldfastError, UsageError
from holdfast.events._bus import EventBus
from holdfast.events._handlers import HandlerFunction
from holdfast.events.families.signal import (
    SigContEvent,
    SigHupEvent,
    SigIntEvent,
    SignalEvent,
    SigTermEvent,
    SigTstpEvent,
)
from holdfast.logs import get_logger
from holdfast.ports import DefaultRuntime

log = get_logger("events")
F = TypeVar("F", bound=HandlerFunction)
EVENTS: dict[int, type[SignalEvent]] = {
    signal.SIGTERM: SigTermEvent,
    signal.SIGINT: SigIntEvent,
    signal.SIGHUP: SigHupEvent,
    signal.SIGTSTP: SigTstpEvent,
    signal.SIGCONT: SigContEvent,
}


def on_signal(function: F, bus: EventBus | None = None) -> F:
    """Decorator: call the function for every signal event. Signals become events only inside `watch_signals()`."""
    return (bus or cast(EventBus, DefaultRuntime.get().event_bus)).on(SignalEvent)(function)


class _Watcher:
    """Turns signals into events on a thread of its own.

    The interpreter runs a signal's Python handler in the middle of whatever the main thread was doing, perhaps inside the
    bus. So that handler only passes the number on. The thread emits and waits for the handlers, then sends the
    signal once more, and the second time it has the effect it had before it was watched.
    """

    def __init__(self, bus: EventBus, wanted: tuple[int, ...], patience: float) -> None:
        self._bus = bus
        self._patience = patience
        self._generation = Forks.generation
        self._arrived: queue.SimpleQueue[int | None] = queue.SimpleQueue()  # safe inside a signal handler
        self._noticed: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._announced: set[int] = set()
        self._thread = threading.Thread(target=self._work, name="holdfast-signals", daemon=True)
        self._thread.start()
        self._before: dict[int, Any] = {number: signal.signal(number, self._caught) for number in wanted}

    def _caught(self, number: int, frame: FrameType | None) -> None:
        first = number not in self._announced and self._generation == Forks.generation  # a forked child has no watcher
        if first:
            self._announced.add(number)
            self._arrived.put(number)
        else:  # announced, or somebody is impatient
            self._announced.discard(number)
            self._noticed.put(number)
            self._take_effect(number, frame)

    def _take_effect(self, number: int, frame: FrameType | None) -> None:
        before = self._before.get(number)
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            if number in (signal.SIGTSTP, signal.SIGCONT):
                signal.signal(number, self._caught)

    def _work(self) -> None:
        while (number := self._arrived.get()) is not None:
            teller = threading.Thread(target=self._tell, args=(number,), name="holdfast-signal", daemon=True)
            teller.start()
            teller.join(self._patience)
            if teller.is_alive():
                log.warning("handlers of %s were still at work after %s s", signal.Signals(number).name, self._patience)
            self._send_on(number)

    def _send_on(self, number: int) -> None:
        """Send a signal once more, so that it takes effect: to the main thread, which alone runs signal handlers.

        One that arrives as that thread is about to fall asleep does not wake it; so it is sent until it is noticed.
        """
        while not self._noticed.empty():
            self._noticed.get()  # of one that somebody impatient sent
        while number in self._announced:
            signal.pthread_kill(threading.main_thread().ident or 0, number)
            with suppress(queue.Empty):
                self._noticed.get(timeout=0.2)
                return

    def _tell(self, number: int) -> None:
        try:
            self._bus.tell_outside("operating system", EVENTS[number](signum=number))
            self._bus.flush(self._patience)
        except (HoldfastError, SystemExit) as error:
            log.warning("signal %s could not be told of: %s", signal.Signals(number).name, error)

    def stop(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._arrived.put(None)
        self._thread.join(0.2)  # it may be waiting for a handler that is stuck


@contextmanager
def watch_signals(*signals: int, bus: EventBus | None = None, patience: float = 5.0) -> Iterator[None]:
    """Within the block, emit an event for each of these signals (by default all of `EVENTS`), then let it take effect.

    Handlers get `patience` seconds before it does; a second signal of the same number does not wait. Only the main
    thread can watch signals; anywhere else it raises UsageError.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("signals can only be watched from the main thread")
    unknown = [number for number in signals if number not in EVENTS]
    if unknown:
        raise UsageError(
            f"no event for signal {unknown[0]}; watch some of {', '.join(signal.Signals(n).name for n in EVENTS)}"
        )
    watcher = _Watcher(bus or cast(EventBus, DefaultRuntime.get().event_bus), signals or tuple(EVENTS), patience)
    try:
        yield
    finally:
        watcher.stop()
