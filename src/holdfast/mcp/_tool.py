"""A tool that lives on an MCP server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import PrivateAttr

from holdfast.tools import BaseTool

if TYPE_CHECKING:
    from holdfast.mcp._peer import McpPeer


class McpTool(BaseTool):
    """A tool of an MCP server. The server checks the arguments."""

    not_stored: ClassVar[str] = "store its server and list the tools again after a restore"

    input_schema: dict[str, Any]
    remote_name: str
    """What the server calls it."""

    _server: Any = PrivateAttr(default=None)

    @classmethod
    def of(cls, server: McpPeer, told: Any, options: dict[str, Any]) -> McpTool:
        """The tool that a server told of."""
        made = cls(
            name=told.name,
            description=told.description or told.title or told.name,
            input_schema=told.input_schema,
            remote_name=told.name,
            **options,
        )
        made._server = server
        return made

    @property
    def server_name(self) -> str:
        """Which server it lives on."""
        return str(self._server.name)

    def parameters(self) -> dict[str, Any]:
        return self.input_schema

    def validate_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    @property
    def work(self) -> Callable[..., Any]:
        return self._call

    async def _call(self, **arguments: Any) -> Any:
        return await self._server.call(self.remote_name, arguments)
