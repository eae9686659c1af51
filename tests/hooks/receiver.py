"""A receiver of webhooks: a real HTTP server on loopback that does as it is told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

import msgspec
from msgspec import Struct

Behaviour = int | bytes | Literal["hang", "drop"] | Callable[[], None]
"""A status to answer with, raw bytes, no answer, or something to do in place of one."""


class Got(Struct, frozen=True):
    """A message that came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def told(self) -> Any:
        return msgspec.json.decode(self.body)


class Receiver:
    """Behaves as each of `behaviours` says, one after the other, then accepts everything."""

    def __init__(self, *behaviours: Behaviour, ssl: Any = None) -> None:
        self.got: list[Got] = []
        self.open = self.most_open = 0
        self._behaviours, self._ssl = deque(behaviours), ssl
        self._changed = asyncio.Condition()
        self._closing = asyncio.Event()
        self._handlers: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0, ssl=self._ssl)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self._closing.set()
        if self._handlers:
            await asyncio.wait(self._handlers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/told"

    async def until(self, number: int) -> None:
        """Wait for so many messages."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.got) >= number)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            self.open -= 1
            self._handlers.discard(task)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        body = await reader.readexactly(int(headers["Content-Length"]))
        behaviour: Behaviour = self._behaviours.popleft() if self._behaviours else 200
        async with self._changed:
            self.got.append(Got(request.split()[1], headers, body))
            self._changed.notify_all()
        if behaviour == "hang":
            await self._closing.wait()
        elif isinstance(behaviour, bytes):
            writer.write(behaviour)
            await writer.drain()
            if behaviour.startswith(b"HTTP/1.1 200"):
                await reader.read()
        elif isinstance(behaviour, int):
            more = f"Location: {self.url}/elsewhere\r\n" if 300 <= behaviour < 400 else ""
            writer.write(f"HTTP/1.1 {behaviour} So\r\n{more}Content-Length: 2\r\n\r\nok".encode())
            await writer.drain()
            writer.close()
        elif callable(behaviour):
            behaviour()
