"""Tools of MCP servers, through the official SDK, which is imported when a server is first connected."""

from __future__ import annotations

from holdfast.mcp._server import McpServer
from holdfast.mcp._tool import McpTool

__all__ = ["McpServer", "McpTool"]
