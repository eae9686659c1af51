"""Where an MCP server is, and what is said when it is not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Protocol

from holdfast.errors import UsageError

Enter = Callable[[AsyncExitStack], Awaitable[Any]]
"""Opens the SDK's client and hands its end to a stack."""

MISSING = "MCP servers need the official SDK: pip install 'holdfast[mcp]'"


class Place(Protocol):
    """A way to a server."""

    name: str

    def load(self) -> Enter:
        """Import what is needed, which takes a second: for a thread. Raises UsageError if it is not installed."""
        ...

    def unreachable(self, why: str) -> str:
        """In words: there is no connection."""
        ...

    def lost(self, why: str) -> str:
        """In words: there was one."""
        ...


class HttpPlace:
    """A server at an address."""

    def __init__(self, name: str, url: str, headers: Mapping[str, str]) -> None:
        self.name = name
        self._url = url
        self._headers = headers

    def load(self) -> Enter:
        try:
            import mcp
            from mcp.client.streamable_http import streamable_http_client
        except ImportError as error:
            raise UsageError(MISSING) from error
        import httpx2

        async def enter(stack: AsyncExitStack) -> Any:
            timeout = httpx2.Timeout(30.0, read=300.0)
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(self._headers), timeout=timeout))
            return await stack.enter_async_context(mcp.Client(streamable_http_client(self._url, http_client=http)))

        return enter

    def unreachable(self, why: str) -> str:
        return f"MCP server {self.name} cannot be reached at {self._url}: {why}; see that it is up and the address is right"

    def lost(self, why: str) -> str:
        because = f" ({why})" if why else ""
        return (
            f"the connection to MCP server {self.name} is lost{because}; see that it is up, then call connect() again"
        )
