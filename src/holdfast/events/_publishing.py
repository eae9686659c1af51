"""From `emit` to the queue: finding the emitter's run, stamping, recording, queueing."""

from __future__ import annotations

import threading
import time
from collections import deque

from msgspec.structs import force_setattr

from holdfast.clock import Clock
from holdfast.context import OUTSIDE, Forks, Position, at, stand_at
from holdfast.errors import BusClosedError, EventReusedError, HoldfastError, RunEndedError
from holdfast.events._base import BaseEvent, Envelope
from holdfast.events._calling import Barrier, HandlerCalls, Held, Item
from holdfast.events._delivery import Outlet, Tree, unheard
from holdfast.events._handlers import NOTHING, HandlerTable, Plan, joined
from holdfast.events._mailbox import in_handler
from holdfast.events._recording import Recording
from holdfast.events._stamping import EventSource, describe, place
from holdfast.events._state import RuntimeState
from holdfast.ids import IdFactory
from holdfast.logs import get_logger
from holdfast.threads import LoopThread

log = get_logger("events")
_is_in_handler = in_handler.get
stamp = force_setattr  # the one place, but for the decoder, that writes to an event
CROWDED = 1_000  # events waiting in one tree at which threads that only emit are slowed down


class Publisher:
    """The inside of a bus: its runs' outlets, its handlers, and the one lock that gives events their order."""

    def __init__(self, clock: Clock, ids: IdFactory, loop_thread: LoopThread) -> None:
        self.time_ns = clock.time_ns
        self.new_id = ids
        self.closed = False
        self.version = 0
        self.calls = HandlerCalls(loop_thread, self.tell)
        self.start_afresh()
        self._begin_process()

    def start_afresh(self) -> None:
        """Handlers, recording and counts as on the first day."""
        self.table = HandlerTable()
        self.recording = Recording()
        self.calls.start_counting()
        self.listening_changed()

    def _begin_process(self) -> None:
        """What a forked child must not share with its parent: locks, runs, whoever was delivering."""
        self.generation = Forks.generation
        self.lock = self.calls.lock = threading.RLock()
        self.stamping = False
        """Whether an event is being stamped, by the thread that has the lock."""
        self.deferred: deque[tuple[object, BaseEvent, Position]] = deque()
        self.cascades = 0
        """How many events were emitted from inside handlers."""
        self.outside = Outlet(None, Tree(self.calls, None, None, 0), None, None, None)
        self._inherited = frozenset(getattr(self, "outlets", ()))
        """Runs of the process this one was forked from: here they are outside."""
        self.recording.state = None
        self.calls.lanes_at_work, self.calls.boxes_closing, self.calls.drainers = set(), [], set()
        self.outlets: dict[str | None, Outlet] = {None: self.outside}
        """By run id; None stands for everything outside runs."""

    def check_process(self) -> None:
        """Begin anew if this process was forked since."""
        if self.generation != Forks.generation:
            self._begin_process()

    def listening_changed(self) -> None:
        """Handlers or recording changed: let no run rely on what it knows of them."""
        self._known: dict[type[BaseEvent], Plan] = {}
        self._quiet: set[type[BaseEvent]] = set()
        self.version += 1

    def outlet_at(self, here: Position) -> Outlet:
        """The outlet of the run that code at `here` belongs to. Raises RunEndedError if that run is over."""
        outlet = self.outlets.get(here.run_id)
        if outlet is None:
            if here.run_id in self._inherited:
                return self.outside
            raise RunEndedError(
                f"run {here.run_id} takes no more events: it has ended, or belongs to another Runtime; "
                f"emit before it ends, or from outside it"
            )
        if outlet.refused and here.step_id in outlet.refused:
            raise RunEndedError(f"step {here.step_id} of run {here.run_id} was given up; its late events are refused")
        return outlet

    def plan(self, outlet: Outlet, event_type: type[BaseEvent]) -> Plan:
        """What is to be done with an event of a run: for the bus's handlers first, then for the run's own and its ancestors'."""
        if outlet.version != self.version:
            self._look_again(outlet)
        return outlet.known.get(event_type) or self._find_plan(outlet, event_type)

    def _find_plan(self, outlet: Outlet, event_type: type[BaseEvent]) -> Plan:
        with self.lock:  # tables do not change meanwhile, nor what is known of them
            if outlet.version != self.version:
                self._look_again(outlet)
            plan = joined([table.plan(event_type) for table in (self.table, *outlet.tables())])
            outlet.known[event_type] = plan
            log = outlet.log if outlet.has_only_log and not self.recording.armed else None
            if plan is NOTHING and event_type.durable and log is not None:
                outlet.unheard[event_type] = unheard(event_type, log)
        return plan

    def _look_again(self, outlet: Outlet) -> None:
        """Forget what a run knew of handlers. What is true of all runs that only the bus's handlers hear is found out once."""
        with self.lock:  # else a run whose first handler comes just now would share what it finds with all others
            alone = outlet.is_recorded or outlet.tables()
            outlet.known, outlet.quiet = ({}, set()) if alone else (self._known, self._quiet)
            outlet.unheard, outlet.version = {}, self.version

    def wants(self, outlet: Outlet, event_type: type[BaseEvent]) -> bool:
        """Whether anybody would see an event of this type. Remembers what nobody would."""
        if outlet.version != self.version:
            self._look_again(outlet)
        quiet = outlet.quiet
        if event_type in quiet:
            return False
        if event_type.durable and (outlet.is_recorded or self.recording.armed):
            return True
        if self.plan(outlet, event_type) is not NOTHING:
            return True
        quiet.add(event_type)
        return False

    def publish(self, outlet: Outlet, source: object, event: BaseEvent, here: Position) -> None:
        """Stamp, record and deliver one event. The emitter then stands where the event leaves it."""
        tree, my_turn = outlet.tree, False
        try:
            with self.lock:
                if self.stamping:  # a finaliser or signal handler emits inside this very block: it is next
                    self.deferred.append((source, event, here))
                    return
                try:
                    self.stamping = True
                    after, state = self._stamp(outlet, source, event, here)
                    kind = type(event)
                    plan = outlet.known.get(kind) if outlet.version == self.version else None
                    if plan is None:
                        plan = self.plan(outlet, kind)
                    if plan is not NOTHING:
                        if self.calls.drainers or _is_in_handler():
                            self.cascades += self.calls.in_handler()
                        my_turn = tree.put(Item(source, event, plan, state, after))
                finally:
                    self.stamping = False
            if after is not here:
                stand_at(after)
            if my_turn:
                tree.drain()
                my_turn = False
            elif tree.queue and len(tree.queue) > CROWDED and not self.calls.in_handler():
                time.sleep(0.0005)  # this thread outruns the one that delivers for it
        finally:  # also when an interrupt comes between any two of the lines above
            if my_turn:
                tree.give_up_turn()
        if self.deferred:
            self.publish_deferred()

    def stage(self, outlet: Outlet, source: object, event: BaseEvent, here: Position) -> tuple[Position, Staged | None]:
        """Stamp and record one event, but do not deliver it yet, nor what comes after it. Returns where its emitter then stands."""
        with self.lock:
            self.stamping = True
            try:
                after, state = self._stamp(outlet, source, event, here)
                plan = self.plan(outlet, type(event))
                if plan is NOTHING:
                    return after, None
                return after, Staged(self, outlet.tree, Item(source, event, plan, state, after))
            finally:
                self.stamping = False

    def publish_deferred(self) -> None:
        while True:
            try:
                source, event, here = self.deferred.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                with at(here):
                    self.publish(self.outlet_at(here), source, event, here)
            except HoldfastError:  # it is not this emitter's event, and its own emitter is long gone
                log.exception("an event emitted by a finaliser was refused")

    def _stamp(
        self, outlet: Outlet, source: object, event: BaseEvent, here: Position
    ) -> tuple[Position, RuntimeState | None]:
        """Stamp and record one event, under the lock. Returns where its emitter stands afterwards, and the record."""
        if event.env is not None:
            raise EventReusedError(
                f"this {type(event).__name__} was emitted before, as {event.event_id}; build a new event for a new fact"
            )
        if self.closed or not outlet.is_open:
            self._refuse_late(outlet)
        new_id, time_ns = self.new_id, self.time_ns  # called as they are: quicker
        event_id, tree, subject = new_id(), outlet.tree, here.subject
        after, parent, started = place(here, event.opens, event.closes, event_id)
        tree.sequence = number = tree.sequence + 1
        before, tree.last_event_id = tree.last_event_id, event_id
        about = getattr(source, "event_source", None)
        if type(about) is not EventSource:
            about = describe(source)
        envelope = Envelope(
            event_id, time_ns() // 1000, number, outlet.run_id, tree.root_run_id, parent,
            before, here.triggered_by, started, about.type, about.id, about.name,
            subject.task_id, subject.task_name, subject.agent_id, subject.agent_role,
        )  # fmt: skip
        stamp(event, "env", envelope)
        if event.durable:
            if outlet.log is not None:
                outlet.log.record(event)
            for state in outlet.states:
                state.record(event)
        return after, self.recording.keep(outlet, event) if self.recording.armed else outlet.state

    def _refuse_late(self, outlet: Outlet) -> None:
        self.refuse_if_closed("emit")
        raise RunEndedError(f"run {outlet.run_id} has ended; its late events are refused")

    def enqueue(self, tree: Tree, item: Item | Barrier, place: Held | None = None) -> None:
        """Put something into a tree's queue, where a place was kept if there is one, that is stamped already, or needs no stamp."""
        my_turn = False
        try:
            with self.lock:
                my_turn = tree.put(item) if place is None else tree.fill(place, item)
            if my_turn:
                tree.drain()
        finally:
            if my_turn:
                tree.give_up_turn()

    def tell(self, where: Position, event: BaseEvent, source: object = "event bus") -> None:
        """Emit an event of the bus itself: in the run it concerns while that lives, else outside all runs."""
        outlet = self.outlets.get(where.run_id, self.outside)
        here = where if outlet.run_id else OUTSIDE
        if not self.closed:
            with at(here):
                self.publish(outlet, source, event, here)

    def note_outside(self, event: BaseEvent) -> None:
        """Count an event that belongs to no run, and say so the first time."""
        with self.lock:
            self.calls.statistics.outside_runs += 1
            first = self.calls.statistics.outside_runs == 1
        if first:
            log.warning(
                "a %s was emitted outside any run: bus-wide handlers see it, no run's stream does. If it belongs to a run, "
                "wrap the thread's function in holdfast.bind(). (Said once; statistics().outside_runs counts them.)",
                type(event).__name__,
            )

    def refuse_if_closed(self, what: str) -> None:
        if self.closed:
            raise BusClosedError(f"cannot {what}: this event bus was shut down; use the bus of a Runtime that is open")

    def trees(self) -> list[Tree]:
        """The tree of every run that lives, and the one outside all runs."""
        with self.lock:
            trees = [outlet.tree for outlet in self.outlets.values()]
            trees += [lane.tree for lane in self.calls.lanes_at_work]  # also of runs that ended without waiting
            return list({id(tree): tree for tree in trees}.values())


class Staged:
    """An event that is stamped and recorded. Those after it wait until it is told, or dropped. Made under the lock."""

    def __init__(self, inside: Publisher, tree: Tree, item: Item) -> None:
        self._inside = inside
        self._tree = tree
        self._item = item
        self._place: Held | None = tree.hold()

    def tell(self) -> None:
        """Deliver it."""
        self._fill(self._item)

    def drop(self) -> None:
        """Let those after it pass, if it was not told."""
        self._fill(Barrier())  # which nobody waits for

    def _fill(self, item: Item | Barrier) -> None:
        place, self._place = self._place, None
        if place is not None:
            self._inside.enqueue(self._tree, item, place)
