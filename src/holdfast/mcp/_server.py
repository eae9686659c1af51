"""`McpServer`: the tools of an MCP server, over streamable HTTP."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from holdfast.clock import check_seconds
from holdfast.errors import McpConnectionError, SecretMissingError, UsageError, WrongLoopError
from holdfast.mcp._connection import Connection
from holdfast.mcp._peer import McpPeer
from holdfast.mcp._places import HttpPlace

T = TypeVar("T")


class McpServer(McpPeer):
    """An MCP server at an address: `async with McpServer("https://…/mcp") as server: tools = await server.tools()`.

    Its tools work while it is connected, on the loop it was connected on. Header values are secrets: never shown or stored.
    A run that owns it (`run.own(server)`) closes it on every way out.
    """

    kind = "mcp"
    """What sort of lease it is."""
    transport_type = "streamable-http"

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        headers: Mapping[str, str | SecretStr] | None = None,
        timeout: float = 60.0,
        connect_timeout: float = 30.0,
    ) -> None:
        check_seconds(timeout=timeout, connect_timeout=connect_timeout)
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"an MCP server's address begins with http:// or https:// and names a host, not {url!r}")
        if parts.username or parts.password:
            raise UsageError("an MCP server's address must not carry a user or password; use headers")
        self.url = url
        self.name = name or parts.netloc
        self.timeout = timeout
        self._connect_timeout = connect_timeout
        self._headers = {key: SecretStr(v) if isinstance(v, str) else v for key, v in (headers or {}).items()}
        self._connection: Connection | None = None

    def __repr__(self) -> str:
        return f"<McpServer {self.name} {'connected' if self.is_connected else 'not connected'}>"

    # -- life ------------------------------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    async def connect(self) -> Self:
        """Connect, or connect again after the connection was lost. Raises McpConnectionError, and leaves nothing open."""
        if self.is_connected:
            return self
        headers = {key: value.get_secret_value() for key, value in self._headers.items()}
        connection = Connection(HttpPlace(self.name, self.url, headers), self._connect_timeout)
        await connection.open()
        self._connection = connection
        return self

    async def aclose(self) -> None:
        """Disconnect. Closing twice, or before connecting, is fine; it may be connected again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    release = aclose
    """As a lease is given back."""

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None and self.is_connected:
            warnings.warn(f"unclosed {self!r}; use `async with`, or let a run own it", ResourceWarning, stacklevel=1)

    # -- tools -----------------------------------------------------------------------------------------------------

    async def _talk(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        return await work(self._open_connection())

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise McpConnectionError(
                f"MCP server {self.name} is not connected; call connect(), or use `async with`", server=self.name
            )
        if not self._connection.is_here:
            raise WrongLoopError(
                f"MCP server {self.name} was connected on another event loop; connect one on this loop"
            )
        return self._connection

    # -- stored form -----------------------------------------------------------------------------------------------

    def to_stored(self) -> dict[str, Any]:
        """Plain data without the headers' values."""
        return {
            "url": self.url,
            "name": self.name,
            "timeout": self.timeout,
            "connect_timeout": self._connect_timeout,
            "headers": sorted(self._headers),
        }

    @classmethod
    def from_stored(cls, stored: dict[str, Any], headers: Mapping[str, str] | None = None) -> McpServer:
        """The server that `to_stored` described, not connected. Raises SecretMissingError for a header not given again."""
        given = headers or {}
        for name in stored["headers"]:
            if name not in given:
                raise SecretMissingError(f"{stored['name']}.{name}")
        settings = {key: stored[key] for key in ("name", "timeout", "connect_timeout")}
        return cls(stored["url"], headers={name: given[name] for name in stored["headers"]}, **settings)
