"""Reading frames, in plain code and in coroutines: what every stream can do."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

from holdfast.errors import SyncInAsyncError
from holdfast.streaming._buffers import Buffer
from holdfast.streaming._frames import Frame
from holdfast.threads import signal_here


class FrameReader:
    """An iterator, sync and async, over the frames in a buffer."""

    def __init__(self, buffer: Buffer, loop: asyncio.AbstractEventLoop | None) -> None:
        self._buffer = buffer
        self._loop = loop
        """The loop that the run needs to go on: who blocks it waits for ever."""

    def poll(self) -> Frame | None:
        """The next frame if it is there already; None if not, or if that was all."""
        return self._buffer.pop()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Frame:
        while (frame := self._buffer.pop()) is None:
            if self._buffer.is_over:
                self._end()
                raise StopIteration
            self._refuse_to_block("iterating with `for`", "`async for`")
            arrival = threading.Event()
            self._buffer.notify(arrival.set)
            arrival.wait()
        return frame

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Frame:
        while (frame := self._buffer.pop()) is None:
            if self._buffer.is_over:
                await self._aend()
                raise StopAsyncIteration
            arrival, wake = signal_here()
            self._buffer.notify(wake)
            await arrival
        return frame

    def _end(self) -> None:
        """All is read. Raises what the reader must not miss."""

    async def _aend(self) -> None:
        """`_end` for coroutines."""

    def _refuse_to_block(self, what: str, instead: str) -> None:
        if self._loop is not None and asyncio._get_running_loop() is self._loop:
            raise SyncInAsyncError(f"{what} would block the loop that the streamed run lives on; use {instead}")
