"""What was emitted, as a graph: every event with its links to the others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from holdfast.events._base import BaseEvent, Envelope


class Edge(StrEnum):
    """How two recorded events are linked. Each kind has its opposite."""

    PARENT = "parent"
    """the event that opened the scope this one was emitted in"""
    CHILD = "child"
    """an event emitted directly inside this one's scope"""
    TRIGGER = "trigger"
    """an event that this one caused"""
    TRIGGERED_BY = "triggered_by"
    """the event that caused this one"""
    NEXT = "next"
    """the event emitted after this one in the same run tree"""
    PREVIOUS = "previous"
    """the event emitted before this one in the same run tree"""
    STARTED = "started"
    """the opener of the scope this one closed"""
    COMPLETED_BY = "completed_by"
    """the event that closed the scope this one opened"""


# column of the envelope, the edge it is, the edge back
_LINKS = (
    ("parent_event_id", Edge.PARENT, Edge.CHILD),
    ("triggered_by_event_id", Edge.TRIGGERED_BY, Edge.TRIGGER),
    ("previous_event_id", Edge.PREVIOUS, Edge.NEXT),
    ("started_event_id", Edge.STARTED, Edge.COMPLETED_BY),
)


class EventNode(Struct, eq=False):
    """A recorded event and the ids of those it is linked to."""

    event: BaseEvent
    edges: dict[Edge, list[str]]

    def neighbors(self, edge: Edge) -> list[str]:
        """Ids at the other end of one kind of edge, oldest first. An id may have been evicted: `get` is then None."""
        return list(self.edges.get(edge, ()))


class EventRecord:
    """Events by id, linked, bounded: past `max_events` the oldest are evicted, whole finished run trees first.

    Safe to read from any thread while a run writes.
    """

    def __init__(self, max_events: int = 10_000) -> None:
        self.max_events = max_events
        self.evicted = 0
        """How many events were dropped to stay within the bound."""
        self._lock = threading.RLock()
        self._nodes: dict[str, EventNode] = {}
        self._trees: dict[str, deque[str]] = {}
        self._finished: dict[str, None] = {}

    @property
    def nodes(self) -> dict[str, EventNode]:
        """A copy of the recorded nodes by event id, in the order they were emitted."""
        with self._lock:
            return dict(self._nodes)

    def add(self, event: BaseEvent) -> list[str]:
        """Record a stamped event. Returns the root run ids of trees that were evicted whole to make room."""
        envelope = event.env
        if envelope is None:
            raise ValueError(f"{type(event).__name__} was not emitted and cannot be recorded")
        with self._lock:
            if envelope.event_id in self._nodes:
                return []
            self._nodes[envelope.event_id] = EventNode(event, self._link(envelope))
            self._trees.setdefault(envelope.root_run_id or "", deque()).append(envelope.event_id)
            return self._make_room() if len(self._nodes) > self.max_events else []

    def _link(self, envelope: Envelope) -> dict[Edge, list[str]]:
        edges: dict[Edge, list[str]] = {}
        for column, edge, back in _LINKS:
            other = getattr(envelope, column)
            if other is not None:
                edges[edge] = [other]
                if (node := self._nodes.get(other)) is not None:
                    node.edges.setdefault(back, []).append(envelope.event_id)
        return edges

    def finish_tree(self, root_run_id: str) -> None:
        """Say that a run tree has ended, so that it is evicted before those that still run."""
        with self._lock:
            if root_run_id in self._trees:
                self._finished[root_run_id] = None

    def _make_room(self) -> list[str]:
        gone: list[str] = []
        while len(self._nodes) > self.max_events and self._finished and len(self._trees) > 1:
            root = next(iter(self._finished))
            gone.append(root)
            self.evicted += self._forget(root)
        while len(self._nodes) > self.max_events:  # one endless run: it keeps its newest events
            tree = max(self._trees.values(), key=len)
            del self._nodes[tree.popleft()]
            self.evicted += 1
        return gone

    def _forget(self, root_run_id: str) -> int:
        self._finished.pop(root_run_id, None)
        ids = self._trees.pop(root_run_id, ())
        for event_id in ids:
            del self._nodes[event_id]
        return len(ids)

    def get(self, event_id: str) -> EventNode | None:
        """The node of an event, or None if it was never recorded or has been evicted."""
        return self._nodes.get(event_id)

    def descendants(self, event_id: str) -> list[EventNode]:
        """Everything below an event's scope, nearest first."""
        found: dict[str, EventNode] = {}
        with self._lock:
            ahead = deque([event_id])
            while ahead:
                node = self._nodes.get(ahead.popleft())
                for child in node.neighbors(Edge.CHILD) if node else ():
                    if child not in found and child in self._nodes:
                        found[child] = self._nodes[child]
                        ahead.append(child)
        return list(found.values())

    def roots(self) -> list[EventNode]:
        """Events with no recorded parent, in the order they were emitted."""
        with self._lock:
            return [n for n in self._nodes.values() if not any(p in self._nodes for p in n.neighbors(Edge.PARENT))]

    def all_nodes(self) -> list[EventNode]:
        """Every node, in the order the events were emitted."""
        with self._lock:
            return list(self._nodes.values())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._nodes, self._trees, self._finished = {}, {}, {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, event_id: object) -> bool:
        return event_id in self._nodes

    def __iter__(self) -> Iterator[EventNode]:
        return iter(self.all_nodes())
