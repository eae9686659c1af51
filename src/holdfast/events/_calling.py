"""Calling handlers: one handler, one event; what it raises is told, never passed on."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.context import OUTSIDE, Position, position
from holdfast.events._base import BaseEvent
from holdfast.events._handlers import Handler, Plan
from holdfast.events._mailbox import Mailbox, in_handler
from holdfast.events.families.bus import HandlerFailedEvent, HandlerOverflowEvent
from holdfast.logs import get_logger
from holdfast.threads import LoopThread

if TYPE_CHECKING:
    from holdfast.events._delivery import LaneQueue
    from holdfast.events._state import RuntimeState

log = get_logger("events")


class BusStatistics(Struct):
    """Counts since the bus was made."""

    outside_runs: int = 0
    """events emitted outside any run: seen by bus-wide handlers only"""
    handler_failures: int = 0
    """handlers that raised"""
    dropped: int = 0
    """events that a full background mailbox refused"""


class Item(Struct, frozen=True, eq=False, gc=False):
    """One event on its way to the handlers that were there when it was emitted."""

    source: object
    event: BaseEvent
    plan: Plan
    state: RuntimeState | None
    place: Position


class Barrier:
    """Goes through the queues behind the events it waits for; done when every queue has passed it on."""

    def __init__(self) -> None:
        self.done: Future[None] = Future()
        self._lock = threading.Lock()
        self._left = 1

    def hold(self) -> None:
        with self._lock:
            self._left += 1

    def pass_on(self) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last and not self.done.done():
            self.done.set_result(None)


class Held:
    """Keeps the place of an event that is stamped and not yet to be delivered: what comes after it waits until it is filled."""

    __slots__ = ("filled",)

    def __init__(self) -> None:
        self.filled: Item | Barrier | None = None


class HandlerCalls:
    """What the queues of all run trees share: the lock, the loop for async handlers, and how a handler is called."""

    def __init__(self, loop_thread: LoopThread, tell: Callable[[Position, BaseEvent], None]) -> None:
        self.loop_thread = loop_thread
        self.lock = threading.RLock()
        self.start_counting()
        self.lanes_at_work: set[LaneQueue] = set()
        self.drainers: set[int] = set()
        """Threads that are delivering."""
        self.boxes_closing: list[Mailbox] = []
        self._tell = tell

    def start_counting(self) -> None:
        self.statistics = BusStatistics()

    def in_handler(self) -> bool:
        """Whether the code that asks runs inside a handler."""
        return in_handler.get() or threading.get_ident() in self.drainers

    def call(self, handler: Handler, item: Item) -> None:
        """Let one handler see one event, now or through its mailbox. What it raises is reported, not passed on."""
        if handler.live_only and item.place.replaying:
            return
        if handler.mailbox is not None:
            handler.mailbox.post((handler, item))
            return
        try:
            function = handler.function
            if handler.takes_state:
                result = function(item.source, item.event, item.state)
            else:
                result = function(item.source, item.event)
            if result is not None:
                _refuse_coroutine(handler, result)
        except Exception as error:
            self.report_failure(handler.name, item, error)

    async def acall(self, handler: Handler, item: Item) -> None:
        """`call` in a lane, where async handlers are awaited. Cancelling a handler ends that call and nothing else."""
        if not handler.is_async or handler.mailbox is not None:
            self.call(handler, item)
        elif not (handler.live_only and item.place.replaying):
            await self._await_handler(handler, item)

    async def _await_handler(self, handler: Handler, item: Item) -> None:
        position.set(item.place)
        arguments = (item.source, item.event, item.state) if handler.takes_state else (item.source, item.event)
        try:
            await handler.function(*arguments)
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                task.uncancel()
            self.report_failure(handler.name, item, error)
        except Exception as error:
            self.report_failure(handler.name, item, error)

    def deliver_letter(self, letter: Barrier | tuple[Handler, Item]) -> None:
        """What a mailbox's thread does with one letter."""
        if isinstance(letter, Barrier):
            letter.pass_on()
            return
        handler, item = letter
        position.set(item.place)
        try:
            if handler.is_async:
                self.loop_thread.submit(self._await_handler(handler, item)).result()
            elif handler.takes_state:
                _refuse_coroutine(handler, handler.function(item.source, item.event, item.state))
            else:
                _refuse_coroutine(handler, handler.function(item.source, item.event))
        except BaseException as error:  # also SystemExit: here it would end nothing but the mailbox
            self.report_failure(handler.name, item, error)

    def report_failure(self, handler: str, item: Item, error: BaseException) -> None:
        """Tell of a handler that raised: a log line, a count, and an event unless that is what failed."""
        event = item.event
        log.error("handler %s failed on %s %s", handler, event.type, event.event_id, exc_info=error)
        with self.lock:
            self.statistics.handler_failures += 1
        if not isinstance(event, HandlerFailedEvent):
            self._tell(
                item.place,
                HandlerFailedEvent(
                    handler=handler,
                    failed_event_type=event.type,
                    failed_event_id=event.event_id,
                    error=_text(error),
                    error_type=type(error).__name__,
                ),
            )

    def overflowed(self, handler: str, dropped: int) -> None:
        with self.lock:
            self.statistics.dropped += dropped
        log.warning("handler %s is too slow: %d events dropped", handler, dropped)
        self._tell(OUTSIDE, HandlerOverflowEvent(handler=handler, dropped=dropped))


def _refuse_coroutine(handler: Handler, result: object) -> None:
    """What looks like a plain function may wrap an async one; what that returns would never be awaited."""
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(f"{handler.name} returned a coroutine that nobody would await; make the handler itself async")


def _text(error: BaseException) -> str:
    """What an error says, if it can say anything."""
    try:
        return str(error)
    except Exception:
        return "(an error that cannot be printed)"
