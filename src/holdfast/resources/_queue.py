"""Who gets a resource next. No await here: one decision at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from holdfast.ports import Spec
from holdfast.resources._entries import Entry, Limits, PooledLease, Waiter

R = TypeVar("R")


class Server(Protocol[R]):
    """What the queue asks of the pool."""

    def begin(self, spec: Spec) -> Entry[R]:
        """Start making a resource."""
        ...

    def lease(self, entry: Entry[R], run_id: str) -> PooledLease[R]:
        """A hold on it, not yet counted."""
        ...

    def end_soon(self, entry: Entry[R]) -> None:
        """Start ending it."""
        ...


class Queue(Generic[R]):
    """The resources there are, and those who wait, first come first served.

    One who waits for a place with one key does not stop those behind who want another, unless the whole pool is full. Then
    nobody joins a resource either, or the one in front might wait for ever; only a run that holds it already may, as it
    would wait for itself.
    """

    def __init__(self, limits: Limits, server: Server[R]) -> None:
        self.entries: dict[str, Entry[R]] = {}
        self._limits = limits
        self._server = server
        self._waiters: list[Waiter[R]] = []

    def join(self, waiter: Waiter[R]) -> None:
        self._waiters.append(waiter)
        self.move_on()

    def leave(self, waiter: Waiter[R]) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            self.move_on()

    def drop(self, entry: Entry[R]) -> None:
        """A resource is gone."""
        self.entries.pop(entry.row.id, None)
        self.move_on()

    def refuse(self, whom: Callable[[Waiter[R]], bool], error: Exception) -> None:
        """Send some of those who wait away."""
        for waiter in [waiter for waiter in self._waiters if whom(waiter)]:
            self._waiters.remove(waiter)
            if not waiter.turn.done():
                waiter.turn.set_exception(error)

    def move_on(self) -> None:
        """Serve everybody who can be served, in order."""
        is_starved = False
        for waiter in list(self._waiters):
            entry = self._fitting(waiter, is_starved) or self._new(waiter)
            if entry is not None:
                self._serve(waiter, entry)
            elif self._is_full():
                is_starved = True
                self._make_room()

    def trim_idle(self) -> None:
        """End the longest idle ones over the limit."""
        idle = self._idle()
        for entry in idle[: max(0, len(idle) - self._limits.max_idle)]:
            self._server.end_soon(entry)

    def _fitting(self, waiter: Waiter[R], is_starved: bool) -> Entry[R] | None:
        for entry in self.entries.values():
            may_join = not is_starved or entry.is_held_by(waiter.run_id)
            if entry.key == waiter.key and entry.has_place(self._limits.sharing) and may_join:
                return entry
        return None

    def _new(self, waiter: Waiter[R]) -> Entry[R] | None:
        if self._is_full() or self._count(waiter.key) >= self._limits.per_key:
            return None
        entry = self._server.begin(waiter.spec)
        self.entries[entry.row.id] = entry
        return entry

    def _serve(self, waiter: Waiter[R], entry: Entry[R]) -> None:
        self._waiters.remove(waiter)
        if waiter.turn.done():  # cancelled just now
            return
        lease = self._server.lease(entry, waiter.run_id)
        entry.take(lease)
        waiter.turn.set_result(lease)

    def _is_full(self) -> bool:
        return len(self.entries) >= self._limits.total

    def _count(self, key: Hashable) -> int:
        return sum(entry.key == key for entry in self.entries.values())

    def _make_room(self) -> None:
        """Somebody waits although a resource is merely kept warm."""
        if idle := self._idle():
            self._server.end_soon(idle[0])

    def _idle(self) -> list[Entry[R]]:
        """Longest idle first."""
        return sorted((entry for entry in self.entries.values() if entry.state == "idle"), key=lambda e: e.idle_since)
