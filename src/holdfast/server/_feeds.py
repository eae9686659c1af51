"""Feeds: what happens to one subject, read from the store once and told to any number of clients.

Each client has a place in the feed's ring and takes from there what it can. So a feed costs the same for one client and for 500,
nobody waits for a client, and one that falls out of the ring is dropped: it comes back with its last id and reads the rest
from the store.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Protocol

from msgspec import Struct

from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.logs import get_logger
from holdfast.server._metrics import Metrics
from holdfast.server._settings import Settings

log = get_logger("server")


class Entry(Struct, frozen=True):
    """One frame as it goes over the wire."""

    id: str
    """where a client stands that has got this one"""
    event: str
    data: bytes
    """JSON, without a line break"""

    @property
    def wire(self) -> bytes:
        return f"id: {self.id}\nevent: {self.event}\ndata: ".encode() + self.data + b"\n\n"


class Gone(Exception):
    """What a client has seen last is not there any more: it has to begin anew."""


class Tail(Protocol):
    """Reads what happens to one subject. Positions are texts that only the tail understands."""

    async def now(self) -> str:
        """The position behind everything there is."""
        ...

    async def read(self, after: str, upto: str | None = None) -> list[Entry]:
        """What comes after a position, in order, a bounded part of it; empty when that is all there is.

        Raises Gone if the position is of a past that is not kept.
        """
        ...

    async def snapshot(self, event: str) -> Entry:
        """All that a client needs to begin with, in one frame."""
        ...

    async def may_have_grown(self) -> bool:
        """Whether it is worth while to read: cheap."""
        ...

    async def ending(self) -> bytes | None:
        """JSON that says how it ended, once nothing will be added any more."""
        ...


class Feed:
    """What happens to one subject, from the moment the first client came."""

    def __init__(self, tail: Tail, settings: Settings, clock: Clock) -> None:
        self.tail = tail
        self._settings, self._clock = settings, clock
        self._ring: deque[bytes] = deque(maxlen=settings.kept_frames)
        self._ids: deque[str] = deque(maxlen=settings.kept_frames)
        self._places: dict[str, int] = {}
        self._reading = asyncio.Lock()
        self.end = 0
        """the place behind the last frame"""
        self.position = ""
        """where the tail has been read up to"""
        self.over: bytes | None = None
        """how it ended, if the last frame was the last of all"""
        self.is_broken = False
        """whether nothing will come any more, and nobody knows how it ended"""
        self.wakers: set[asyncio.Event] = set()

    async def begin(self) -> None:
        """Find out where to read from. Raises what the tail raises."""
        self.position = await self.tail.now()
        self._places[self.position] = 0

    async def follow(self) -> None:
        """Read the tail for as long as anybody listens and something may come."""
        try:
            await self._follow()
        except Exception:  # a mistake of ours: whoever listens must not wait for ever
            log.exception("a stream's source broke")
            self.is_broken = True
            self._wake()

    async def _follow(self) -> None:
        while self.over is None:
            try:
                if await self.tail.may_have_grown():
                    await self.catch_up()
            except HoldfastError as error:
                log.warning("a stream's source cannot be read now, trying again: %s", error)
            await self._clock.sleep(self._settings.poll_seconds)

    async def catch_up(self) -> None:
        """Read all there is now."""
        async with self._reading:
            over = await self.tail.ending()  # asked before the last look, so nothing can come after it
            try:
                while entries := await self.tail.read(self.position):
                    self._publish(entries)
            except Gone:
                if over is None:
                    self._publish([await self.tail.snapshot("resync")])
            if over is not None:
                self.over = over
                self._wake()

    def _publish(self, entries: list[Entry]) -> None:
        for entry in entries:
            if len(self._ring) == self._ring.maxlen:
                self._places.pop(self._ids[0], None)
            self._ring.append(entry.wire)
            self._ids.append(entry.id)
            self.end += 1
            self._places[entry.id] = self.end
            self.position = entry.id
        self._wake()

    def _wake(self) -> None:
        for waker in self.wakers:
            waker.set()

    def place_of(self, position: str) -> int | None:
        """The place behind the frame with this id, if it is in the ring."""
        return self.end if position == self.position else self._places.get(position)

    def since(self, place: int) -> bytes | None:
        """Everything from a place on; None if a part of it has left the ring."""
        behind = self.end - place
        if behind > len(self._ring):
            return None
        return b"".join(reversed([*islice(reversed(self._ring), behind)]))


class Feeds:
    """The feeds that anybody listens to now."""

    def __init__(self, settings: Settings, clock: Clock, metrics: Metrics) -> None:
        self.settings, self._clock, self.metrics = settings, clock, metrics
        self._open: dict[str, tuple[Feed, asyncio.Task[None]]] = {}
        self._opening = asyncio.Lock()
        self.clients = 0
        self.closing = asyncio.Event()

    def close(self) -> None:
        """Tell every client to leave: the server is stopping. Twice is fine."""
        self.closing.set()
        for feed, _ in self._open.values():
            for waker in feed.wakers:
                waker.set()

    @asynccontextmanager
    async def join(self, key: str, make: Callable[[], Tail]) -> AsyncIterator[tuple[Feed, asyncio.Event]]:
        """Listen to a feed; whoever comes first starts it, whoever leaves last ends it."""
        async with self._opening:
            if key not in self._open or self._open[key][0].over is not None or self._open[key][0].is_broken:
                feed = Feed(make(), self.settings, self._clock)
                await feed.begin()
                self._open[key] = (feed, asyncio.create_task(feed.follow(), name=f"feed {key}"))
            feed, task = self._open[key]
            waker = asyncio.Event()
            feed.wakers.add(waker)
        self.clients += 1
        try:
            yield feed, waker
        finally:
            self.clients -= 1
            feed.wakers.discard(waker)
            if not feed.wakers:
                if self._open.get(key, (None,))[0] is feed:
                    del self._open[key]
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
