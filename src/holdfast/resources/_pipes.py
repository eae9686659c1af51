"""The pipes of a kept process, on the loop it was spawned on."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import Any, cast

BUFFER_BYTES = 1 << 20
"""How much of its output waits here, at most twice; then the process waits."""
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


class _Drain(asyncio.Protocol):
    """Pours a pipe into a ring."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def data_received(self, data: bytes) -> None:
        self._ring.feed(data)


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
    """What the process writes and we read, in order, or drain into a ring."""

    def __init__(self, transport: asyncio.ReadTransport, reader: asyncio.StreamReader | None) -> None:
        self._transport = transport
        self.reader = reader

    @classmethod
    async def open(cls, handle: int) -> OutPipe:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(BUFFER_BYTES, loop=loop)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), _file(handle, "rb")
        )
        return cls(transport, reader)

    @classmethod
    async def open_drained(cls, handle: int, ring: Ring) -> OutPipe:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: _Drain(ring), _file(handle, "rb"))
        return cls(transport, None)

    def close(self) -> None:
        self._transport.close()


def _file(handle: int, mode: str) -> Any:
    return cast(Any, os.fdopen(handle, mode, 0))
