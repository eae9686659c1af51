"""MCP servers: connecting to them and executing their tools."""

# msgspec gives every event its own copy of an empty default

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class MCPConnectionStartedEvent(BaseEvent):
    """A connection to an MCP server is being made."""

    type: ClassVar[str] = "mcp_connection_started"
    opens: ClassVar[ScopeKind | None] = "mcp"

    server_name: str
    server_url: str = ""
    transport_type: str = ""
    is_reconnect: bool = False


class MCPConnectionCompletedEvent(BaseEvent):
    """An MCP server finished its handshake and can be used."""

    type: ClassVar[str] = "mcp_connection_completed"
    closes: ClassVar[ScopeKind | None] = "mcp"

    server_name: str
    duration_ms: float | None = None
    tools: list[str] = []


class MCPConnectionFailedEvent(BaseEvent):
    """An MCP server could not be reached or its handshake failed."""

    type: ClassVar[str] = "mcp_connection_failed"
    closes: ClassVar[ScopeKind | None] = "mcp"

    server_name: str
    error: str
    error_type: str = ""


class MCPConnectionCancelledEvent(BaseEvent):
    """A connection to an MCP server was given up before its handshake was done."""

    type: ClassVar[str] = "mcp_connection_cancelled"
    closes: ClassVar[ScopeKind | None] = "mcp"

    server_name: str
    reason: str = ""


class MCPToolExecutionStartedEvent(BaseEvent):
    """An MCP server was asked to execute one of its tools."""

    type: ClassVar[str] = "mcp_tool_execution_started"
    opens: ClassVar[ScopeKind | None] = "mcp"

    server_name: str
    tool_name: str
    tool_args: dict[str, Any] = {}


class MCPToolExecutionCompletedEvent(BaseEvent):
    """An MCP server returned the result of a tool."""

    type: ClassVar[str] = "mcp_tool_execution_completed"
    closes: ClassVar[ScopeKind | None] = "mcp"

    server_name: str
    tool_name: str
    result: Any = None
    duration_ms: float | None = None


class MCPToolExecutionFailedEvent(BaseEvent):
    """An MCP server answered a tool call with an error, or not at all."""

    type: ClassVar[str] = "mcp_tool_execution_failed"
    closes: ClassVar[ScopeKind | None] = "mcp"

    server_name: str
    tool_name: str
    error: str
    error_type: str = ""


class MCPToolExecutionCancelledEvent(BaseEvent):
    """A tool call to an MCP server was cancelled before its result."""

    type: ClassVar[str] = "mcp_tool_execution_cancelled"
    closes: ClassVar[ScopeKind | None] = "mcp"

    server_name: str
    tool_name: str
    reason: str = ""
