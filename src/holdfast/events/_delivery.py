"""How an event reaches its handlers: in order for each handler and run tree, whoever emits from wherever.

Each run tree has one queue. The thread that finds nobody delivering delivers, until the queue is empty; a handler that emits,
and any other thread, only puts its event in. So no handler is entered twice at a time by one tree, and none sees two
events of a tree out of order. What must be awaited goes on to a lane: an ordered queue emptied by one task on the
tree's loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from holdfast.context import stand_at, standing
from holdfast.events._base import BaseEvent
from holdfast.events._calling import Barrier, HandlerCalls, Held, Item
from holdfast.events._handlers import HandlerFunction, HandlerTable, Lane, Plan, name_of
from holdfast.events._mailbox import in_handler
from holdfast.ports import Journal

if TYPE_CHECKING:
    from ._state import RuntimeState


Payload: TypeAlias = dict[str, Any]
Encoder: TypeAlias = Callable[[Payload], bytes]


class Unheard(Struct, frozen=True):
    """What must be known of a class of events to write one down that nobody hears. All in one place: it is asked for often."""

    tag: str
    size: int
    """how many fields it has"""
    opens: str | None
    closes: str | None
    encode: Encoder


def unheard(event_type: type[BaseEvent], log: Journal) -> Unheard:
    """Of a class, for a run with this log."""
    size = len(event_type.__struct_fields__) - 1  # without its envelope
    return Unheard(event_type.type, size, event_type.opens, event_type.closes, log.encoder(event_type))


class Tree:
    """The order of one run tree's events: numbers, the queue, who delivers, the lanes at work."""

    __slots__ = ("calls", "drainer", "lanes", "last_event_id", "loop", "queue", "root_run_id", "sequence")

    def __init__(
        self, calls: HandlerCalls, root_run_id: str | None, loop: asyncio.AbstractEventLoop | None, sequence: int
    ) -> None:
        self.calls = calls
        self.root_run_id = root_run_id
        self.loop = loop
        self.sequence = sequence
        self.last_event_id: str | None = None
        self.queue: deque[Item | Barrier | Held] = deque()
        self.drainer: int | None = None
        self.lanes: dict[HandlerFunction, LaneQueue] = {}

    def put(self, item: Item | Barrier) -> bool:
        """Queue something. True if nobody delivers, so that the caller must `drain`. Under the bus's lock."""
        self.queue.append(item)
        if self.drainer is not None:
            return False
        self.drainer = get_ident()
        return True

    def hold(self) -> Held:
        """Keep a place in the queue until `fill`. Under the bus's lock."""
        place = Held()
        self.queue.append(place)
        return place

    def fill(self, place: Held, item: Item | Barrier) -> bool:
        """Queue something where a place was kept. True as `put` has it. Under the bus's lock."""
        place.filled = item
        if self.drainer is not None:
            return False
        self.drainer = get_ident()
        return True

    def drain(self) -> None:
        """Deliver what is queued, up to a place that is held. `put` or `fill` has made the caller the one who delivers; it is
        nobody afterwards."""
        mine, me = standing(), get_ident()
        queue, drainers = self.queue, self.calls.drainers
        inside_another = me in drainers
        try:
            drainers.add(me)
            while self.drainer == me:
                while queue:
                    item = queue.popleft()
                    if isinstance(item, Held):
                        if item.filled is None:
                            queue.appendleft(item)
                            break
                        item = item.filled
                    self._deliver(item)
                self.drainer = None
                if queue:
                    self._take_turn()
        finally:
            if self.drainer == me:  # a handler let KeyboardInterrupt through: the next emit goes on from here
                self.drainer = None
            if not inside_another:
                drainers.discard(me)
            if standing() is not mine:
                stand_at(mine)

    def give_up_turn(self) -> None:
        """Deliver no more, whatever interrupted it: the next emit goes on from here."""
        if self.drainer == get_ident():
            self.drainer = None

    def _take_turn(self) -> None:
        """Something was queued between the last look and giving up the turn: deliver on, unless somebody else does."""
        with self.calls.lock:
            if self.drainer is None and self.queue:
                first = self.queue[0]
                if not isinstance(first, Held) or first.filled is not None:
                    self.drainer = get_ident()

    def _deliver(self, item: Item | Barrier) -> None:
        if isinstance(item, Barrier):
            for lane in list(self.lanes.values()):
                lane.post(item)
            item.pass_on()
            return
        call, place, plan = self.calls.call, item.place, item.plan
        for handler in plan.inline:
            if standing() is not place:
                stand_at(place)
            if self.lanes and (behind := self._lane_of(handler.function)) is not None:
                behind.post(
                    (item, Lane(handler.function, ((handler,),)))
                )  # it was awaited a moment ago: keep its order
            else:
                call(handler, item)
        for awaited in plan.lanes:
            self._lane(awaited).post((item, awaited))

    def _lane_of(self, function: HandlerFunction) -> LaneQueue | None:
        """The lane in which a handler still has something to do."""
        with self.calls.lock:
            return next((lane for lane in self.lanes.values() if function in lane.members), None)

    def _lane(self, lane: Lane) -> LaneQueue:
        with self.calls.lock:
            members = {handler.function for level in lane.levels for handler in level}
            queue = self.lanes.get(lane.key)
            if queue is None:
                queue = next((other for other in self.lanes.values() if members & other.members), None)
            if queue is None:
                queue = LaneQueue(self, lane.key, self.loop or self.calls.loop_thread.loop)
                self.lanes[lane.key] = queue
            return queue


class LaneQueue:
    """Events of one tree on their way to handlers that are awaited; gone from the tree when empty."""

    def __init__(self, tree: Tree, key: HandlerFunction, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.tree = tree
        self.members: set[HandlerFunction] = set()
        """Handlers that may have something to do here."""
        self._key = key
        self._items: deque[Barrier | tuple[Item, Lane]] = deque()
        self._task: asyncio.Task[None] | None = None

    def post(self, entry: Barrier | tuple[Item, Lane]) -> None:
        calls = self.tree.calls
        if isinstance(entry, Barrier):
            entry.hold()
        with calls.lock:
            self._items.append(entry)
            if not isinstance(entry, Barrier):
                self.members |= {handler.function for level in entry[1].levels for handler in level}
            self.tree.lanes[self._key] = self
            calls.lanes_at_work.add(self)
            if len(self._items) > 1 or self._task is not None:
                return
        try:
            self.loop.call_soon_threadsafe(self._start)
        except RuntimeError:  # the loop is closed: its run is over, and nobody can await these any more
            self._abandon("the event loop it would run on is closed")

    def _start(self) -> None:
        if self._task is None and self._items:
            self._task = self.loop.create_task(self._work(), name=f"holdfast-lane-{name_of(self._key)}")
            self._task.add_done_callback(self._start_again)

    def _start_again(self, task: asyncio.Task[None]) -> None:
        """A loop that shuts down cancels tasks that had no turn yet: what they were to deliver is still delivered."""
        if task is self._task:
            self._task = None
            self._start()

    async def _work(self) -> None:
        in_handler.set(True)
        while (entry := self._next()) is not None:
            if isinstance(entry, Barrier):
                entry.pass_on()
            else:
                await self._run(*entry)
            del entry

    def _next(self) -> Barrier | tuple[Item, Lane] | None:
        calls = self.tree.calls
        with calls.lock:
            if self._items:
                return self._items.popleft()
            self._forget()
            return None

    def _forget(self) -> None:
        self._task = None
        self.members = set()
        self.tree.lanes.pop(self._key, None)
        self.tree.calls.lanes_at_work.discard(self)

    async def _run(self, item: Item, lane: Lane) -> None:
        for level in lane.levels:
            stand_at(item.place)
            if len(level) == 1:
                await self.tree.calls.acall(level[0], item)
            else:
                await _all_done([asyncio.ensure_future(self.tree.calls.acall(handler, item)) for handler in level])

    def _abandon(self, why: str) -> None:
        with self.tree.calls.lock:
            entries = list(self._items)
            self._items.clear()
            self._forget()
        for entry in entries:
            if isinstance(entry, Barrier):
                entry.pass_on()
            else:
                self.tree.calls.report_failure(name_of(self._key), entry[0], RuntimeError(why))


async def _all_done(tasks: list[asyncio.Future[None]]) -> None:
    """Wait for handlers of one level, also when the lane's own task is cancelled by a loop that shuts down."""
    pending = set(tasks)
    while pending:
        try:
            _, pending = await asyncio.wait(pending)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()


class Outlet:
    """A run's way onto the bus: its tree, its own handlers, its recording. Made when the run starts, closed when it ends."""

    __slots__ = (
        "crowded",
        "entity",
        "has_only_log",
        "is_open",
        "is_recorded",
        "known",
        "log",
        "parent",
        "path",
        "quiet",
        "refused",
        "run_id",
        "state",
        "states",
        "table",
        "tree",
        "unheard",
        "version",
    )

    def __init__(
        self,
        run_id: str | None,
        tree: Tree,
        parent: Outlet | None,
        entity: Any,
        state: RuntimeState | None,
        name: str = "",
        log: Journal | None = None,
    ) -> None:
        self.run_id = run_id
        self.path: tuple[str, ...] = (*(parent.path if parent else ()), name or run_id or "")
        """The run's name, after the names of the runs around it."""
        self.crowded: Callable[[], Future[None] | None] | None = None
        """What says whether the reader of the run's stream is behind, if it has one."""
        self.tree = tree
        self.parent = parent
        self.entity = entity
        around = parent.states if parent else ()
        self.states: tuple[RuntimeState, ...] = around if state is None else (state, *around)
        """The recordings its events belong in: its own, and those of the runs around it."""
        self.state: RuntimeState | None = self.states[0] if self.states else None
        """What handlers are shown: the recording of this run, or of the nearest run around it."""
        self.log: Journal | None = log or (parent.log if parent else None)
        """Where every durable event of the tree is written down, if anywhere."""
        self.has_only_log = self.log is not None and self.states == (self.log.state,)
        """Whether nothing but its log keeps its events: of those that nobody hears, that needs no more than the payload."""
        self.is_recorded = self.state is not None or self.log is not None
        """Whether its events are kept, so that every durable one of them must be built."""
        self.table: HandlerTable | None = None
        self.is_open = True
        self.version = -1
        self.known: dict[type[BaseEvent], Plan] = {}
        """Plans by event type, good for one version of the bus's listeners."""
        self.quiet: set[type[BaseEvent]] = set()
        """Event types that nobody would see, in the same version."""
        self.unheard: dict[type[BaseEvent], Unheard] = {}
        """Event types that nothing but its log takes, in the same version."""
        self.refused: set[str] = set()
        """Steps that were disowned: what they emit late is refused."""

    def crowding(self) -> Future[None] | None:
        """What those who emit wait for while a reader of this run, or of a run around it, is behind; None if none is."""
        outlet: Outlet | None = self
        while outlet is not None:
            if outlet.crowded is not None and (room := outlet.crowded()) is not None:
                return room
            outlet = outlet.parent
        return None

    def tables(self) -> list[HandlerTable]:
        """The handlers of this run and of the runs around it."""
        found = []
        outlet: Outlet | None = self
        while outlet is not None:
            if outlet.table is not None:
                found.append(outlet.table)
            outlet = outlet.parent
        return found
