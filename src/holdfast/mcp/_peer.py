"""`McpPeer`: the tools of a server that is connected, however it is reached."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.errors import McpCallError, McpTimeoutError
from holdfast.mcp._connection import Connection
from holdfast.mcp._tool import McpTool

T = TypeVar("T")

CLOSED, TIMED_OUT = -32000, -32001
"""The SDK's codes for errors that are not the server's own."""
_MOST_PAGES = 100


class McpPeer(ABC):
    """A server whose tools can be listed and called."""

    name: str
    timeout: float
    """Seconds a call may take."""

    @abstractmethod
    async def _talk(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        """Do something with the connection, where it lives."""

    async def tools(self, **options: Any) -> list[McpTool]:
        """What it offers, as tools for a model. `options` are settings of every tool: cache, max_usage_count, …"""
        return [McpTool.of(self, tool, options) for tool in await self._talk(_list_tools)]

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool by its name there; gives its data where it has any, else its text.

        Raises McpCallError with the server's words, McpTimeoutError, or McpConnectionError.
        """
        result = await self._talk(lambda connection: self._call(connection, tool, arguments))
        text = "\n".join(_in_words(part) for part in result.content)
        if result.is_error:
            raise McpCallError(text or f"{self.name} says only that {tool} failed", server=self.name)
        return text if result.structured_content is None else _unwrapped(result.structured_content)

    async def _call(self, connection: Connection, tool: str, arguments: dict[str, Any]) -> Any:
        from mcp.shared.exceptions import MCPError

        seconds = self.timeout
        try:
            return await connection.use(lambda client: client.call_tool(tool, arguments, read_timeout_seconds=seconds))
        except MCPError as error:
            if error.error.code == TIMED_OUT:
                raise McpTimeoutError(
                    f"{tool} of MCP server {self.name} did not answer within {seconds:g} s; allow more, or ask for less",
                    server=self.name,
                ) from error
            if error.error.code == CLOSED:
                raise connection.lost() from error
            raise McpCallError(f"{self.name}: {error.error.message}", server=self.name) from error


async def _list_tools(connection: Connection) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        at = cursor
        page = await connection.use(lambda client, at=at: client.list_tools(cursor=at))  # type: ignore[misc]
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _in_words(part: Any) -> str:
    return part.text if part.type == "text" else f"({part.type} content, which is not shown here)"


def _unwrapped(data: dict[str, Any]) -> Any:
    """A tool that returns no object has its value wrapped in one."""
    return data["result"] if set(data) == {"result"} else data
