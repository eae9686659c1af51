"""The pipes of a kept process, on the loop it was spawned on."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Any, cast

BUFFER_BYTES = 1 << 20
"""How much of its output waits here, and a chunk; then the process waits."""
CHUNK_BYTES = 256 * 1024
RING_BYTES = 64 * 1024


class Ring:
    """The last bytes of a stream that is always drained, so that whoever writes it never stops for want of a reader."""

    def __init__(self, size: int = RING_BYTES) -> None:
        self._size = size
        self._parts: deque[bytes] = deque()
        self._held = 0
        self.total = 0
        """How many bytes came in all."""

    def feed(self, data: bytes) -> None:
        self._parts.append(data[-self._size :])
        self._held += len(self._parts[-1])
        self.total += len(data)
        while self._held - len(self._parts[0]) >= self._size:
            self._held -= len(self._parts.popleft())

    def tail(self) -> bytes:
        return b"".join(self._parts)[-self._size :]


class InPipe:
    """What we write and the process reads."""

    def __init__(self, transport: asyncio.WriteTransport, protocol: Any) -> None:
        self._transport = transport
        self._writer = asyncio.StreamWriter(transport, protocol, None, asyncio.get_running_loop())

    @classmethod
    async def open(cls, handle: int) -> InPipe:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)  # only StreamReaderProtocol knows how to pause a writer
        made = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), _file(handle, "wb")
        )
        return cls(*made)

    async def write(self, data: bytes) -> None:
        """Returns once little enough is waiting to be read. Raises ConnectionError if nobody reads it any more."""
        if not self._transport.is_closing():
            self._writer.write(data)
            await self._writer.drain()
        if self._transport.is_closing():  # drain() is content when it was we who hung up
            raise BrokenPipeError("the process reads no more: its input is closed")

    def close(self) -> None:
        """End it after what is queued."""
        self._transport.close()

    def abort(self) -> None:
        """End it now: closing would wait for ever for a reader that does not read. Twice is fine."""
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:  # asyncio takes a second abort() badly
            self._transport.close()


class OutPipe:
    """What the process writes: read in order, or poured out as it comes. On the running loop."""

    def __init__(self, handle: int) -> None:
        os.set_blocking(handle, False)
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._feed: Callable[[bytes], None] | None = None
        self._news: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._resume()

    def pour(self, feed: Callable[[bytes], None]) -> asyncio.Future[None]:
        """Give `feed` all that comes, as it comes. Done at its end, or with what `feed` raised: nothing is read after that."""
        self._feed = feed
        if self._buffer:
            # taking it reads on, if so much waited that nothing was read any more
            self._give(self._take(len(self._buffer)))
        return self._ended

    async def read(self, size: int) -> bytes:
        """Some of it; empty at the end."""
        while not self._buffer and not self._ended.done():
            await self._more()
        return self._take(size)

    async def readline(self) -> bytes:
        """A line; what is left without a line feed at the end. Raises ValueError over a megabyte."""
        looked = 0
        while (end := self._buffer.find(b"\n", looked)) < 0 and not self._ended.done():
            looked = len(self._buffer)
            if looked > BUFFER_BYTES:
                raise ValueError(f"a line is longer than {BUFFER_BYTES:,} bytes")
            await self._more()
        return self._take(end + 1 or len(self._buffer))

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits here that the process has to."""
        return len(self._buffer) > BUFFER_BYTES

    def close(self) -> None:
        """Read no more. Twice is fine."""
        if self._handle >= 0:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1
        if not self._ended.done():
            self._ended.set_result(None)
        self._tell()

    def _resume(self) -> None:
        self._is_reading = True
        self._loop.add_reader(self._handle, self._on_readable)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._handle, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
        elif self._feed is not None:
            self._give(data)
        else:
            self._buffer += data
            if self.is_crowded:
                self._is_reading = False
                self._loop.remove_reader(self._handle)
            self._tell()

    def _give(self, data: bytes) -> None:
        assert self._feed is not None
        try:
            self._feed(data)
        except Exception as error:
            if not self._ended.done():
                self._ended.set_exception(error)
            self.close()

    async def _more(self) -> None:
        if self._news is None:
            self._news = self._loop.create_future()
        await asyncio.shield(self._news)

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None:
            news.set_result(None)

    def _take(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        if not self._is_reading and not self.is_crowded and self._handle >= 0:
            self._resume()
        return data


def _file(handle: int, mode: str) -> Any:
    return cast(Any, os.fdopen(handle, mode, 0))
