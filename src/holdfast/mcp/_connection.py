"""One connection to an MCP server, kept by a task of its own.

The SDK's client ends the task it was opened in when its connection breaks. So it lives in a task that does nothing else,
and a caller is told of the break instead of being cancelled by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from holdfast.errors import McpConnectionError, UsageError

T = TypeVar("T")


class Connection:
    """Open from `open()` to `aclose()`, or until it breaks. Belongs to the loop it was opened on."""

    def __init__(self, name: str, url: str, headers: Mapping[str, str], seconds: float) -> None:
        self._name = name
        self._url = url
        self._headers = headers
        self._seconds = seconds
        self._stop = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._client: Any = None
        self._why = ""

    @property
    def is_open(self) -> bool:
        return self._client is not None and self._keeper is not None and not self._keeper.done()

    @property
    def is_here(self) -> bool:
        """Whether it belongs to the running loop."""
        return self._keeper is not None and self._keeper.get_loop() is asyncio.get_running_loop()

    async def open(self) -> None:
        """Connect and shake hands. Raises McpConnectionError; nothing is left open then."""
        make = await asyncio.to_thread(_load_sdk)  # a second of importing: not on the loop
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep(make, ready), name=f"holdfast-mcp-{self._name}")
        try:
            await asyncio.wait({ready, self._keeper}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            if not self.is_open:
                raise self._unreachable()
        except BaseException:
            await self.aclose()
            raise

    async def _keep(self, make: Callable[[str, Mapping[str, str]], Any], ready: asyncio.Future[None]) -> None:
        try:
            async with AsyncExitStack() as stack:
                self._client = await make(self._url, self._headers)(stack)
                ready.set_result(None)
                await self._stop.wait()
        except asyncio.CancelledError:
            self._why = self._why or "the connection was given up"
        except Exception as error:
            self._why = _reason(error)
        finally:
            ready.cancel()

    def _unreachable(self) -> McpConnectionError:
        why = self._why or f"it did not answer within {self._seconds:g} s"
        return McpConnectionError(
            f"MCP server {self._name} cannot be reached at {self._url}: {why}; see that it is up and the address is right",
            server=self._name,
        )

    async def use(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """What `call(client)` gives. Raises McpConnectionError when the connection breaks meanwhile."""
        if not self.is_open or self._keeper is None:
            raise self.lost()
        working = asyncio.ensure_future(call(self._client))
        try:
            await asyncio.wait({working, self._keeper}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        if working.cancelled():
            raise self.lost()
        if (error := working.exception()) is not None and self._keeper.done():
            raise self.lost() from error
        return working.result()

    def lost(self) -> McpConnectionError:
        """What a caller is told whose answer cannot come any more."""
        why = f" ({self._why})" if self._why else ""
        return McpConnectionError(
            f"the connection to MCP server {self._name} is lost{why}; see that it is up, then call connect() again",
            server=self._name,
        )

    async def aclose(self) -> None:
        """Say goodbye and end. Closing twice is fine."""
        self._stop.set()
        if self._keeper is None or self._keeper.done():
            return
        if self._client is None:  # still shaking hands: nothing to say goodbye to
            self._keeper.cancel()
        _, pending = await asyncio.wait({self._keeper}, timeout=self._seconds)
        if pending:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})


def _load_sdk() -> Callable[[str, Mapping[str, str]], Callable[[AsyncExitStack], Awaitable[Any]]]:
    try:
        import mcp
        from mcp.client.streamable_http import streamable_http_client
    except ImportError as error:
        raise UsageError("MCP servers need the official SDK: pip install 'holdfast[mcp]'") from error
    import httpx2

    def make(url: str, headers: Mapping[str, str]) -> Callable[[AsyncExitStack], Awaitable[Any]]:
        async def enter(stack: AsyncExitStack) -> Any:
            timeout = httpx2.Timeout(30.0, read=300.0)
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(headers), timeout=timeout))
            return await stack.enter_async_context(mcp.Client(streamable_http_client(url, http_client=http)))

        return enter

    return make


def _reason(error: BaseException) -> str:
    """The innermost sentence of a group of errors."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return str(error) or type(error).__name__
