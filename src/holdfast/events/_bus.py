"""The event bus: one for each runtime. It stamps events, keeps their order, and takes them to whoever listens."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec.structs import replace

from holdfast.clock import Clock, SystemClock
from holdfast.context import OUTSIDE, Forks, Position, at, stand_at, standing
from holdfast.errors import FlushInHandlerError, FlushTimeoutError, HandlerSignatureError, SyncInAsyncError
from holdfast.events._base import BaseEvent
from holdfast.events._calling import Barrier, BusStatistics, Item
from holdfast.events._delivery import Outlet, Tree
from holdfast.events._handlers import NOTHING, DependsOn, HandlerFunction, HandlerTable, name_of
from holdfast.events._mailbox import Mailbox, Overflow
from holdfast.events._publishing import Publisher, Staged
from holdfast.events._recording import Recording
from holdfast.events._scribe import Scribe
from holdfast.events._stamping import place
from holdfast.events._state import RuntimeState
from holdfast.ids import IdFactory, new_id
from holdfast.ports import Entity, Journal, Recorded
from holdfast.threads import LoopThread, done_here

F = TypeVar("F", bound=HandlerFunction)


class EventBus:
    """Takes events from runs to handlers.

    Per handler, the events of one run tree arrive in the order they were emitted. `emit` may return before the
    handlers ran, when another thread is delivering for that tree; `flush` is the guarantee.
    """

    def __init__(
        self, *, clock: Clock | None = None, ids: IdFactory = new_id, loop_thread: LoopThread | None = None
    ) -> None:
        self._own_loop_thread = LoopThread() if loop_thread is None else None
        self._publisher = Publisher(clock or SystemClock(), ids, loop_thread or self._own_loop_thread or LoopThread())

    @property
    def _inside(self) -> Publisher:
        """What it is made of, fit for this process."""
        inside = self._publisher
        if inside.generation != Forks.generation:
            inside.check_process()
        return inside

    # -- listening -------------------------------------------------------------------------------------------------

    def on(
        self,
        *event_types: type[BaseEvent],
        depends_on: DependsOn = None,
        background: bool = False,
        capacity: int = 1024,
        overflow: Overflow = "drop",
        live_only: bool = False,
    ) -> Callable[[F], F]:
        """Decorator: call the function for each event of these classes and of their subclasses.

        It takes `(source, event)`, or `(source, event, state)` where the third is the RuntimeState, None when nothing
        records. Async functions run on the emitting run's loop, else on the runtime's. Sync ones run inline and must
        be short; `background=True` gives one a thread and a bounded mailbox, which when full drops
        (`overflow="drop"`, reported as HandlerOverflowEvent) or makes the emitter wait (`"block"`). `depends_on` names
        handlers that must be done first. `live_only` leaves out events that are replayed.
        """
        if not all(isinstance(event_type, type) for event_type in event_types):
            raise HandlerSignatureError("write @bus.on(EventClass) with the event classes to listen to")
        box = (capacity, overflow) if background else None

        def decorate(function: F) -> F:
            self._register(self._inside.table, event_types, function, depends_on, box, live_only)
            return function

        return decorate

    def register_handler(self, event_type: type[BaseEvent], handler: HandlerFunction, **options: Any) -> None:
        """`on` without the decorator; takes the same options."""
        self.on(event_type, **options)(handler)

    def on_run(
        self, outlet: Outlet, event_types: Iterable[type[BaseEvent]], function: HandlerFunction, depends_on: DependsOn
    ) -> None:
        """Register a handler that a run owns: it hears that run and the runs inside it, and goes when the run ends."""
        with self._inside.lock:
            self._inside.outlet_at(Position(outlet.run_id))  # refuses a run that has ended
            if outlet.table is None:
                outlet.table = HandlerTable()
            self._register(outlet.table, event_types, function, depends_on, None, False)

    def _register(
        self,
        table: HandlerTable,
        event_types: Iterable[type[BaseEvent]],
        function: HandlerFunction,
        depends_on: DependsOn,
        box: tuple[int, Overflow] | None,
        live_only: bool,
    ) -> None:
        calls = self._inside.calls
        with self._inside.lock:
            self._inside.refuse_if_closed("listen")
            mailbox = Mailbox(name_of(function), *box, calls.deliver_letter, calls.overflowed) if box else None
            table.add(event_types, function, depends_on, mailbox, live_only)
            self._inside.listening_changed()

    def off(self, event_type: type[BaseEvent], handler: HandlerFunction) -> bool:
        """Stop calling `handler` for `event_type`. Says whether it was registered; what is queued still arrives."""
        with self._inside.lock:
            was_there, gone = self._inside.table.remove(event_type, handler)
            self._inside.listening_changed()
        if gone is not None and gone.mailbox is not None:
            self._inside.calls.boxes_closing.append(gone.mailbox)
            gone.mailbox.close(0)
        return was_there

    def registrations(self) -> list[tuple[type[BaseEvent], HandlerFunction]]:
        """Every pair of an event class and a handler registered for it."""
        with self._inside.lock:
            return self._inside.table.registrations()

    def validate_dependencies(self) -> None:
        """Raise UnknownDependencyError if a handler waits for one that hears none of its events."""
        with self._inside.lock:
            self._inside.table.validate()

    @contextmanager
    def scoped_handlers(self) -> Iterator[None]:
        """Within the block the bus has only the handlers registered in it; after it, only those it had before."""
        inside = self._inside
        with inside.lock:
            before, inside.table = inside.table, HandlerTable()
            inside.listening_changed()
        try:
            yield
        finally:
            with inside.lock:
                scoped, inside.table = inside.table, before
                inside.listening_changed()
            _close_mailboxes(scoped)

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Within the block the bus is as new: no handlers, no recording, counts at zero. Afterwards all is as before."""
        inside = self._inside
        with inside.lock:
            before = inside.table, inside.recording, inside.calls.statistics, inside.closed
            inside.closed = False
            inside.start_afresh()
        try:
            yield
        finally:
            with inside.lock:
                scoped = inside.table
                inside.table, inside.recording, inside.calls.statistics, inside.closed = before
                inside.listening_changed()
            _close_mailboxes(scoped)

    # -- recording -------------------------------------------------------------------------------------------------

    @property
    def runtime_state(self) -> RuntimeState | None:
        """What the bus has recorded; None while it records nothing, and until the first event after arming."""
        return self._inside.recording.state

    @property
    def is_recording(self) -> bool:
        """Whether the bus records every run."""
        return self._inside.recording.armed

    def enable_recording(self) -> None:
        """Record every run from now on. Calling it again changes nothing."""
        with self._inside.lock:
            self._inside.recording.armed = True
            self._inside.listening_changed()

    def disable_recording(self) -> None:
        """Record no more, and drop what was recorded."""
        with self._inside.lock:
            self._inside.recording = Recording()
            self._inside.listening_changed()

    def set_runtime_state(self, state: RuntimeState) -> None:
        """Record every run from now on, into `state`."""
        with self._inside.lock:
            self._inside.recording.armed, self._inside.recording.state = True, state
            self._inside.listening_changed()

    def reset_runtime_state(self) -> None:
        """Drop what was recorded, events and entities. Recording stays armed; journals are not touched."""
        with self._inside.lock:
            self._inside.recording.state = None

    def keep_tree(self, root_run_id: str, tree: Recorded) -> None:
        """Let what the bus records be able to write a run tree into a file."""
        with self._inside.lock:
            recording = self._inside.recording
            if recording.armed:
                recording.state = recording.state or RuntimeState()
                recording.state.keep_tree(root_run_id, tree)

    # -- emitting --------------------------------------------------------------------------------------------------

    def emit(self, source: object, event: BaseEvent) -> None:
        """Stamp an event and take it to its handlers.

        Raises EventReusedError if it was emitted before, RunEndedError if the run this code belongs to has ended,
        BusClosedError after shutdown.
        """
        inside, here = self._publisher, standing()
        if inside.generation != Forks.generation or here.replaying:
            self._emit_afresh(source, event)
            return
        outlet = inside.outlets.get(here.run_id)
        if outlet is None or outlet.refused:
            outlet = inside.outlet_at(here)
        inside.publish(outlet, source, event, here)
        if outlet is inside.outside:
            inside.note_outside(event)

    def _emit_afresh(self, source: object, event: BaseEvent) -> None:
        """In a process that was just forked; or in a handler that is shown something old: what it emits is new."""
        self._inside.check_process()
        with at(replace(standing(), replaying=False)):
            self.emit(source, event)

    async def aemit(self, source: object, event: BaseEvent) -> None:
        """`emit`, then wait until the handlers of this run tree are done with it, async and background ones too.

        If the run is streamed and its reader is behind, it waits for that too.
        """
        self._refuse_inside_handler("aemit()", "emit()")
        outlet = self._inside.outlet_at(standing())
        self.emit(source, event)
        await self._await_passes([outlet.tree], None)
        await self.await_room(outlet)

    async def await_room(self, outlet: Outlet) -> None:
        """Wait while whoever reads a run's stream, or that of a run around it, is behind."""
        while (room := outlet.crowding()) is not None:
            await done_here(room)

    def emit_new(self, source: object, event_type: type[BaseEvent], /, **payload: Any) -> BaseEvent | None:
        """Build and emit an event, but only if somebody will see it. Scopes open and close all the same."""
        return self.announce(source, event_type, payload)

    def announce(self, source: object, event_type: type[BaseEvent], payload: dict[str, Any]) -> BaseEvent | None:
        """`emit_new` with the payload as a dict, for callers that have one."""
        inside, here = self._publisher, standing()
        outlet = inside.outlets.get(here.run_id)
        if outlet is None or outlet.refused or inside.generation != Forks.generation:
            outlet = self._inside.outlet_at(here)
        if (outlet.is_recorded and event_type.durable) or inside.wants(outlet, event_type):
            event = event_type(**payload)
            if here.replaying or outlet is inside.outside:
                self.emit(source, event)
            else:
                inside.publish(outlet, source, event, here)
            return event
        if event_type.opens is not None or event_type.closes is not None:
            after, _, _ = place(here, event_type.opens, event_type.closes, inside.new_id() if event_type.opens else "")
            stand_at(after)
        return None

    def note(self, source: object, event_type: type[BaseEvent], payload: dict[str, Any]) -> str | None:
        """`announce` for callers that want the event's id only."""
        event = self.announce(source, event_type, payload)
        return event.env.event_id if event is not None and event.env is not None else None

    def scribe(self, outlet: Outlet, source: object) -> Scribe | None:
        """The short way into a run's log for what `source` tells, if the run has a log."""
        return None if outlet.log is None else Scribe(self, self._inside, outlet, outlet.log, source)

    def tell_outside(self, source: object, *events: BaseEvent) -> None:
        """Emit events that belong to no run by their nature, such as a signal: they do not count as astray.

        Several follow from one another: a scope that one opens the next may close.
        """
        inside = self._inside
        with at(OUTSIDE):
            for event in () if inside.closed else events:
                inside.publish(inside.outside, source, event, standing())

    def stage(self, source: object, event_type: type[BaseEvent], payload: dict[str, Any]) -> Staged | None:
        """Like `announce`, but nobody sees the event, nor what the tree tells after it, until it is told: first it is made durable.

        None if nobody will. It has to be told, or dropped.
        """
        inside = self._inside
        here = standing()
        outlet = inside.outlet_at(here)
        if not inside.wants(outlet, event_type):
            self.announce(source, event_type, payload)
            return None
        after, staged = inside.stage(outlet, source, event_type(**payload), here)
        stand_at(after)
        return staged

    def wants(self, event_type: type[BaseEvent]) -> bool:
        """Whether anybody would see an event of this class emitted here and now."""
        inside, here = self._publisher, standing()
        outlet = inside.outlets.get(here.run_id)
        if outlet is None or outlet.refused or inside.generation != Forks.generation:
            outlet = self._inside.outlet_at(here)
        if event_type in outlet.quiet and outlet.version == inside.version:
            return False
        return inside.wants(outlet, event_type)

    @property
    def listeners(self) -> Publisher:
        """Whose `version` changes whenever what somebody wants may have changed."""
        return self._publisher

    def replay(self, source: object, event: BaseEvent) -> None:
        """Show a recorded event to the handlers again, with `is_replaying()` true: not stamped, recorded or numbered."""
        inside = self._inside
        inside.refuse_if_closed("replay")
        outlet = inside.outlets.get(event.run_id, inside.outside)
        plan = inside.plan(outlet, type(event))
        if plan is not NOTHING:
            shown = replace(standing(), run_id=outlet.run_id, replaying=True)
            state = outlet.state or inside.recording.state
            inside.enqueue(outlet.tree, Item(source, event, plan, state, shown))

    # -- waiting and ending ----------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = 30.0) -> bool:
        """Wait until every handler is done with all that was emitted so far, and with what handlers emitted meanwhile.

        Returns True. Raises FlushTimeoutError after `timeout` seconds, FlushInHandlerError inside a handler, and
        SyncInAsyncError in a coroutine whose loop the handlers need: `await aflush()` there.
        """
        self._refuse_inside_handler("flush()", "nothing: the bus delivers in order")
        deadline = None if timeout is None else time.monotonic() + timeout
        for barrier in self._passes(self._inside.trees()):
            self._refuse_if_blocking(barrier)
            try:
                barrier.done.result(None if deadline is None else max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise FlushTimeoutError(f"handlers were still at work after {timeout} seconds") from None
        return True

    async def aflush(self, timeout: float | None = 30.0) -> bool:
        """`flush` for coroutines."""
        self._refuse_inside_handler("aflush()", "nothing: the bus delivers in order")
        return await self._await_passes(self._inside.trees(), timeout)

    async def flush_run(self, outlet: Outlet, timeout: float | None) -> bool:
        """Wait until the handlers are done with one run tree's events."""
        if self.is_settled(outlet):
            return True
        return await self._await_passes([outlet.tree], timeout)

    def is_settled(self, outlet: Outlet) -> bool:
        """Whether no handler can be at work on one run tree's events."""
        tree = outlet.tree  # looked at in the order in which an event goes through it: it may move meanwhile
        return not (tree.queue or tree.drainer is not None or tree.lanes or self._mailboxes())

    async def _await_passes(self, trees: list[Tree], timeout: float | None) -> bool:
        try:
            async with asyncio.timeout(timeout):
                for barrier in self._passes(trees):
                    await done_here(barrier.done)
        except TimeoutError:
            raise FlushTimeoutError(f"handlers were still at work after {timeout} seconds") from None
        return True

    def _passes(self, trees: list[Tree]) -> Iterator[Barrier]:
        """Barriers to wait for in turn: through queues and lanes, then mailboxes, again if a handler emitted meanwhile."""
        inside = self._inside
        while True:
            before = inside.cascades
            through_queues = Barrier()
            for tree in trees:
                through_queues.hold()
                inside.enqueue(tree, through_queues)
            through_queues.pass_on()
            yield through_queues
            if boxes := self._mailboxes():
                through_boxes = Barrier()
                for box in boxes:
                    through_boxes.hold()
                    box.post(through_boxes, always=True)
                through_boxes.pass_on()
                yield through_boxes
            if inside.cascades == before:
                return

    def _mailboxes(self) -> list[Mailbox]:
        """Boxes with something in them; those of handlers that were removed included."""
        inside = self._inside
        with inside.lock:
            boxes = [h.mailbox for h in inside.table if h.mailbox is not None and not h.mailbox.is_idle]
            if inside.calls.boxes_closing:
                inside.calls.boxes_closing = [box for box in inside.calls.boxes_closing if not box.is_idle]
                boxes += inside.calls.boxes_closing
            return boxes

    def is_delivering(self) -> bool:
        """Whether this thread is inside a handler that runs inline: until it returns, its run tree's later events wait."""
        return threading.get_ident() in self._inside.calls.drainers

    def is_in_handler(self) -> bool:
        """Whether the code that asks runs inside a handler of this bus."""
        return self._inside.calls.in_handler()

    def _refuse_inside_handler(self, call: str, instead: str) -> None:
        if self.is_in_handler():
            raise FlushInHandlerError(f"{call} inside a handler would wait for itself; use {instead}")

    def _refuse_if_blocking(self, barrier: Barrier) -> None:
        """Waiting here for lanes of the loop we run on would never end."""
        running = asyncio._get_running_loop()
        if running is None or barrier.done.done():
            return
        lanes = [lane.loop for tree in self._inside.trees() for lane in list(tree.lanes.values())]
        if running in lanes or (self._inside.calls.loop_thread.is_current() and self._has_async_mail()):
            raise SyncInAsyncError("flush() would block the loop its handlers run on; use `await aflush()`")

    def _has_async_mail(self) -> bool:
        with self._inside.lock:
            return any(h.is_async and h.mailbox is not None and not h.mailbox.is_idle for h in self._inside.table)

    def shutdown(self, timeout: float | None = 30.0) -> None:
        """Deliver what was emitted, end the background threads, refuse what comes later. Twice is fine."""
        if self._inside.closed:
            return
        self.flush(timeout)
        self._inside.closed = True
        _close_mailboxes(self._inside.table, timeout)
        if self._own_loop_thread is not None:
            self._own_loop_thread.stop()

    def statistics(self) -> BusStatistics:
        """Counts so far."""
        with self._inside.lock:
            return replace(self._inside.calls.statistics)

    # -- runs ------------------------------------------------------------------------------------------------------

    def open_outlet(
        self,
        run_id: str,
        *,
        parent: Outlet | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        entity: Entity | None = None,
        state: RuntimeState | None = None,
        log: Journal | None = None,
        sequence: int = 0,
        name: str = "",
    ) -> Outlet:
        """Give a starting run its way onto the bus. Numbers go on from `sequence` when a run is resumed."""
        inside = self._inside
        tree = parent.tree if parent is not None else Tree(inside.calls, run_id, loop, sequence)
        outlet = Outlet(run_id, tree, parent, entity, state, name, log)
        if entity is not None:
            for recording in outlet.states:
                recording.register(entity, tree.root_run_id or "")
        with inside.lock:
            inside.refuse_if_closed("start a run")
            inside.outlets[run_id] = outlet
        return outlet

    def close_outlet(self, outlet: Outlet) -> None:
        """End a run's way onto the bus: late events are refused, its handlers and its recording are let go."""
        inside = self._inside
        with inside.lock:
            inside.outlets.pop(outlet.run_id, None)
            if outlet.parent is None and inside.recording.state is not None:
                inside.recording.state.finish_tree(outlet.run_id or "")
            outlet.table = outlet.state = outlet.log = outlet.crowded = None
            outlet.states, outlet.unheard = (), {}
            outlet.is_open = outlet.is_recorded = False

    def path_of(self, run_id: str | None) -> tuple[str, ...]:
        """The name of a run that lives, after the names of the runs around it; its id if it has ended."""
        outlet = self._publisher.outlets.get(run_id)
        return outlet.path if outlet is not None else (run_id or "",)


def _close_mailboxes(table: HandlerTable, timeout: float | None = None) -> None:
    for handler in table:
        if handler.mailbox is not None:
            handler.mailbox.close(timeout)
