"""The SDK's messages over the pipes of a kept process, a line each."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

from holdfast.errors import UsageError
from holdfast.logs import get_logger
from holdfast.mcp._connection import innermost
from holdfast.mcp._peer import CLOSED, TIMED_OUT
from holdfast.mcp._places import MISSING, Enter
from holdfast.resources import KeptProcess

log = get_logger("mcp")

LINE_BYTES = 32 << 20
"""A longer message is none."""
JUNK_LINES = 1000
"""So many lines in a row that are no messages mean that it speaks something else."""

_BLANKS = re.compile(rb"\s*")

Decode = Callable[[bytes], Any]


@asynccontextmanager
async def _lend(ends: tuple[Incoming, Outgoing]) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Streams that outlive who uses them."""
    yield ends


class ProcessPlace:
    """A server at the other end of pipes."""

    def __init__(self, name: str, process: KeptProcess) -> None:
        self.name = name
        self.over = asyncio.Event()
        """It will say nothing more."""
        self.trouble = ""
        """Why we stopped listening, if it was we."""
        self._process = process

    def load(self) -> Enter:
        try:
            import mcp
            from mcp.shared.exceptions import MCPError
            from mcp.shared.message import SessionMessage
            from mcp.types import jsonrpc_message_adapter
        except ImportError as error:
            raise UsageError(MISSING) from error

        def decode(line: bytes) -> Any:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))

        ends = Incoming(self._process, decode, self._hear_no_more), Outgoing(self._process)

        async def enter(stack: AsyncExitStack) -> Any:
            try:  # some servers leave if the first they hear is anything else than the old greeting
                return await stack.enter_async_context(mcp.Client(_lend(ends), mode="legacy"))
            except Exception as error:
                cause = innermost(error)
                answered = isinstance(cause, MCPError) and cause.error.code not in (CLOSED, TIMED_OUT)
                if self.over.is_set() or not answered:
                    raise
                return await stack.enter_async_context(mcp.Client(_lend(ends), mode="auto"))

        return enter

    def _hear_no_more(self, why: str) -> None:
        self.trouble = self.trouble or why
        self.over.set()

    def unreachable(self, why: str) -> str:
        return f"it does not speak MCP: {self.trouble or why}; see that the command is an MCP server on standard input and output"

    def lost(self, why: str) -> str:
        said = self._process.stderr_tail().decode(errors="replace").strip()[-500:]
        parts = [self.trouble or why, f"it said: {said}" if said else ""]
        because = "; ".join(part for part in parts if part)
        return f"the connection to MCP server {self.name} is lost{f' ({because})' if because else ''}; acquire it again"


class _SenselessError(Exception):
    """What comes is no conversation."""


class Incoming:
    """What it says: the SDK's stream to read from. It is over when the server says so, or makes no sense."""

    def __init__(self, process: KeptProcess, decode: Decode, over: Callable[[str], None]) -> None:
        self._process = process
        self._decode = decode
        self._over = over
        self._rest = bytearray()
        self._searched = 0
        self._junk = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._next()
        except _SenselessError as error:
            self._over(str(error))
            raise StopAsyncIteration from None
        except StopAsyncIteration:
            self._over("")
            raise

    receive = __anext__

    async def _next(self) -> Any:
        while True:
            line = await self._line()
            try:
                message = self._decode(line)
            except ValueError:
                self._count_junk(line)
            else:
                self._junk = 0
                return message

    async def _line(self) -> bytes:
        self._skip_blanks()
        while (end := self._rest.find(b"\n", self._searched)) < 0:
            self._searched = len(self._rest)
            if self._searched > LINE_BYTES:
                raise _SenselessError(f"it sent a line of more than {LINE_BYTES >> 20} MB")
            part = await self._process.read()
            if not part:
                raise StopAsyncIteration
            self._rest += part
            if not self._searched:
                self._skip_blanks()
            await asyncio.sleep(0)  # a flood must not keep the loop to itself
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        self._searched = 0
        return line

    def _skip_blanks(self) -> None:
        """All at once: a flood of empty lines, each looked at, would take the loop from others."""
        blanks = _BLANKS.match(self._rest)
        count = blanks.end() if blanks else 0
        del blanks  # it holds on to the bytes
        del self._rest[:count]

    def _count_junk(self, line: bytes) -> None:
        log.debug("an MCP server wrote what is no message: %r", line[:200])
        self._junk += 1
        if self._junk > JUNK_LINES:
            raise _SenselessError(f"it wrote more than {JUNK_LINES} lines that are no messages")

    async def aclose(self) -> None:
        """Nothing to let go of: the pipe is the process's."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Outgoing:
    """What it is told: the SDK's stream to write to."""

    def __init__(self, process: KeptProcess) -> None:
        self._process = process

    async def send(self, item: Any) -> None:
        """Raises ConnectionError if it reads no more."""
        await self._process.write(_encode(item.message) + b"\n")

    async def aclose(self) -> None:
        """Nothing to let go of here either."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _encode(message: Any) -> bytes:
    try:
        text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
        return text.encode()
    except ValueError:  # half a character, as models cut them: the rest of the arguments is worth sending
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True), ensure_ascii=False).encode(
            errors="replace"
        )
