"""Server-sent events: one client's way through a feed, and the response that carries it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.errors import HoldfastError
from holdfast.server._feeds import Feed, Feeds, Gone, Tail
from holdfast.server._problems import Refused

HEARTBEAT = b": still here\n\n"
START = "start"
"""The position before everything."""


class Dropped(Struct, frozen=True):
    """A client is cut off."""

    reason: str


class Ended(Struct, frozen=True):
    """Nothing more will come."""

    status: str
    """how it ended"""
    reason: str = ""


LAST: dict[str, Any] = {"dropped": Dropped, "end": Ended}
"""What the last frame of any stream may be."""


class Following:
    """One client of a feed."""

    def __init__(self, feeds: Feeds, key: str, make: Callable[[], Tail], after: str) -> None:
        self._feeds, self._key, self._make, self._after = feeds, key, make, after

    async def frames(self) -> AsyncGenerator[bytes]:
        """What the client is sent, until its subject ends, the server stops, or it is too slow."""
        async with self._feeds.join(self._key, self._make) as (feed, waker):
            yield b"retry: 1000\n\n"
            place = feed.place_of(self._after) if self._after else None
            if place is None:
                async with aclosing(self._catch_up(feed)) as missed:
                    async for part in missed:
                        yield part
                place = self._place
            async with aclosing(self._go_on(feed, waker, place)) as news:
                async for part in news:
                    yield part

    async def _catch_up(self, feed: Feed) -> AsyncGenerator[bytes]:
        """What is stored and not in the feed's memory; then the client's place in that."""
        after = self._after
        if not after:
            first = await feed.tail.snapshot("snapshot")
            yield first.wire
            after = first.id
        await feed.catch_up()  # so that the client is not ahead of the feed
        while True:
            known = feed.place_of(after)
            if known is not None and feed.since(known) is not None:  # what came meanwhile may be nowhere else
                self._place = known
                return
            self._place, upto = feed.end, feed.position
            try:
                while entries := await feed.tail.read("" if after == START else after, upto):
                    yield b"".join(entry.wire for entry in entries)
                    after = entries[-1].id
            except Gone:
                again = await feed.tail.snapshot("resync")
                yield again.wire
                after = again.id
                await feed.catch_up()
                continue
            if feed.since(self._place) is not None:
                return

    async def _go_on(self, feed: Feed, waker: asyncio.Event, place: int) -> AsyncGenerator[bytes]:
        """What happens from now on."""
        while True:
            waker.clear()
            news = feed.since(place)
            if news is None:
                self._feeds.metrics.note_dropped("slow")
                yield _frame("dropped", Dropped("too slow: come back with the last id to read what is missing"))
                return
            place = feed.end
            if news:
                yield news
                continue
            if feed.over is not None:
                yield b"event: end\ndata: " + feed.over + b"\n\n"
                return
            if feed.is_broken:
                yield _frame("dropped", Dropped("something broke: come back with the last id"))
                return
            if self._feeds.closing.is_set():
                yield _frame("dropped", Dropped("the server is stopping: come back with the last id"))
                return
            try:
                async with asyncio.timeout(self._feeds.settings.heartbeat_seconds):
                    await waker.wait()
            except TimeoutError:
                yield HEARTBEAT


def _frame(event: str, data: object) -> bytes:
    return f"event: {event}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


_REVOKED = _frame("dropped", Dropped("the token of this stream was revoked or has run out: sign in again"))


def follow(
    feeds: Feeds, key: str, make: Callable[[], Tail], after: str, *, may_stay: Callable[[], bool]
) -> EventStream:
    """The response that follows a feed from a position on, while the client may stay.

    Raises Refused when too many do so already.
    """
    if feeds.clients >= feeds.settings.max_streams:
        raise Refused(
            503, "too_many_streams", "too many streams are open; close some, or try later", {"Retry-After": "5"}
        )
    if len(after) > 200 or not after.isascii() or not after.isprintable():
        after = "?"  # a position that cannot be: the client is told to begin anew
    return EventStream(Following(feeds, key, make, after), feeds, may_stay)


class EventStream(Response):
    """Sends frames until they end or the client leaves. A client that takes nothing is cut off."""

    media_type = "text/event-stream"

    def __init__(self, following: Following, feeds: Feeds, may_stay: Callable[[], bool]) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._following, self._feeds, self._may_stay = following, feeds, may_stay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        sending = asyncio.create_task(self._send(scope, send))
        leaving = asyncio.create_task(_until_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.wait({sending, leaving})
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _send(self, scope: Scope, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        frames = self._following.frames()
        try:
            async for frame in frames:
                stays = self._may_stay()  # asked each time: nothing goes out once a token was revoked
                async with asyncio.timeout(self._feeds.settings.stuck_seconds):
                    await send({"type": "http.response.body", "body": frame if stays else _REVOKED, "more_body": True})
                if not stays:
                    self._feeds.metrics.note_dropped("token")
                    break
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            self._feeds.metrics.note_dropped("stuck")
            await _abort(scope)
        except HoldfastError as error:  # its subject was deleted, or the store is away
            self._feeds.metrics.note_dropped("broken")
            last = _frame("dropped", Dropped(str(error)))
            await send({"type": "http.response.body", "body": last, "more_body": False})
        finally:
            await frames.aclose()


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _abort(scope: Scope) -> None:
    """Cut the connection. Closing it would wait for a client that takes nothing."""
    abort = scope.get("state", {}).get("abort")
    if abort is not None:
        abort()
        await asyncio.sleep(0)
