"""How an event reaches its handlers: in order for each handler and run tree, whoever emits from wherever.

Each run tree has one queue. The thread that finds nobody delivering delivers, until the queue is empty; a handler that emits,
and any other thread, only puts its event in. So no handler is entered twice at a time by one tree, and none sees two
events of a tree out of order. What must be awaited goes on to a lane: an ordered queue emptied by one task on the
tree's loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from holdfast.context import position
from holdfast.events._base import BaseEvent
from holdfast.events._calling import Barrier, HandlerCalls, Item
from holdfast.events._handlers import HandlerFunction, HandlerTable, Lane, Plan, name_of
from holdfast.events._mailbox import in_handler

if TYPE_CHECKING:
    from ._state import RuntimeState


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
        self.queue: deque[Item | Barrier] = deque()
        self.drainer: int | None = None
        self.lanes: dict[HandlerFunction, LaneQueue] = {}

    def put(self, item: Item | Barrier) -> Item | Barrier | None:
        """Queue something. If nobody delivers, the caller must: it gets what to `drain` first. Under the bus's lock."""
        if self.drainer is not None:
            self.queue.append(item)
            return None
        self.drainer = threading.get_ident()
        if not self.queue:
            return item
        self.queue.append(item)  # left by a handler that let KeyboardInterrupt through
        return self.queue.popleft()

    def drain(self, item: Item | Barrier | None) -> None:
        """Deliver what `put` returned, and everything queued after it."""
        mine = position.get()
        try:
            while item is not None:
                self._deliver(item)
                item = self.queue.popleft() if self.queue else self._give_up_turn()
        finally:
            if item is not None:  # a handler let KeyboardInterrupt through: the next emit goes on from here
                self.drainer = None
            if position.get() is not mine:
                position.set(mine)

    def _give_up_turn(self) -> Item | Barrier | None:
        """Stop delivering, unless something came in after the last look and nobody else took it up."""
        self.drainer = None
        if not self.queue:
            return None
        with self.calls.lock:
            return self._take_turn()

    def _take_turn(self) -> Item | Barrier | None:
        if self.drainer is not None or not self.queue:
            return None
        self.drainer = threading.get_ident()
        return self.queue.popleft()

    def _deliver(self, item: Item | Barrier) -> None:
        if isinstance(item, Barrier):
            for lane in list(self.lanes.values()):
                lane.post(item)
            item.pass_on()
            return
        call, place = self.calls.call, item.place
        for plan in item.plans:
            for handler in plan.inline:
                if position.get() is not place:
                    position.set(place)
                call(handler, item)
            for lane_plan in plan.lanes:
                self._lane(lane_plan).post((item, lane_plan))

    def _lane(self, lane: Lane) -> LaneQueue:
        with self.calls.lock:
            queue = self.lanes.get(lane.key)
            if queue is None:
                queue = self.lanes[lane.key] = LaneQueue(self, lane.key, self.loop or self.calls.loop_thread.loop)
            return queue


class LaneQueue:
    """Events of one tree on their way to handlers that are awaited; gone from the tree when empty."""

    __slots__ = ("_items", "_key", "_task", "_tree", "loop")

    def __init__(self, tree: Tree, key: HandlerFunction, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._tree = tree
        self._key = key
        self._items: deque[Barrier | tuple[Item, Lane]] = deque()
        self._task: asyncio.Task[None] | None = None

    def post(self, entry: Barrier | tuple[Item, Lane]) -> None:
        if isinstance(entry, Barrier):
            entry.hold()
        with self._tree.calls.lock:
            self._items.append(entry)
            self._tree.lanes[self._key] = self
            if len(self._items) > 1 or self._task is not None:
                return
        try:
            self.loop.call_soon_threadsafe(self._start)
        except RuntimeError:  # the loop is closed: its run is over, and nobody can await these any more
            self._abandon("the event loop it would run on is closed")

    def _start(self) -> None:
        if self._task is None:
            self._task = self.loop.create_task(self._work(), name=f"holdfast-lane-{name_of(self._key)}")

    async def _work(self) -> None:
        in_handler.set(True)
        calls = self._tree.calls
        while True:
            with calls.lock:
                if not self._items:
                    self._task = None
                    self._tree.lanes.pop(self._key, None)
                    return
                entry = self._items.popleft()
            if isinstance(entry, Barrier):
                entry.pass_on()
                continue
            try:
                await self._run(*entry)
            except asyncio.CancelledError:  # the loop is shutting down; what is queued is still delivered
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
            del entry

    async def _run(self, item: Item, lane: Lane) -> None:
        for level in lane.levels:
            position.set(item.place)
            if len(level) == 1:
                await self._tree.calls.acall(level[0], item)
            else:
                await asyncio.gather(*(self._tree.calls.acall(handler, item) for handler in level))

    def _abandon(self, why: str) -> None:
        with self._tree.calls.lock:
            entries = list(self._items)
            self._items.clear()
            self._tree.lanes.pop(self._key, None)
        for entry in entries:
            if isinstance(entry, Barrier):
                entry.pass_on()
            else:
                self._tree.calls.report_failure(name_of(self._key), entry[0], RuntimeError(why))


class Outlet:
    """A run's way onto the bus: its tree, its own handlers, its recording. Made when the run starts, closed when it ends."""

    __slots__ = (
        "entity",
        "is_open",
        "known",
        "parent",
        "quiet",
        "refused",
        "run_id",
        "state",
        "table",
        "tree",
        "version",
    )

    def __init__(
        self, run_id: str | None, tree: Tree, parent: Outlet | None, entity: Any, state: RuntimeState | None
    ) -> None:
        self.run_id = run_id
        self.tree = tree
        self.parent = parent
        self.entity = entity
        self.state: RuntimeState | None = state if state is not None else (parent.state if parent else None)
        self.table: HandlerTable | None = None
        self.is_open = True
        self.version = -1
        self.known: dict[type[BaseEvent], tuple[Plan, ...]] = {}
        """Plans by event type, good for one version of the bus's listeners."""
        self.quiet: set[type[BaseEvent]] = set()
        """Event types that nobody would see, in the same version."""
        self.refused: set[str] = set()
        """Steps that were disowned: what they emit late is refused."""

    def tables(self) -> list[HandlerTable]:
        """The handlers of this run and of the runs around it."""
        found = []
        outlet: Outlet | None = self
        while outlet is not None:
            if outlet.table is not None:
                found.append(outlet.table)
            outlet = outlet.parent
        return found
