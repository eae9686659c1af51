"""Tools of MCP servers, through the official SDK, which is imported when a server is first connected.

`McpServer` is one at an address; `McpManager` starts those that are programs, and shares and ends them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.mcp._server import McpServer
from holdfast.mcp._tool import McpTool

if TYPE_CHECKING:
    from holdfast.mcp._manager import McpManager as McpManager
    from holdfast.mcp._manager import McpProcess as McpProcess
    from holdfast.mcp._manager import McpSpec as McpSpec

__all__ = ["McpManager", "McpProcess", "McpServer", "McpSpec", "McpTool"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'holdfast.mcp' has no attribute {name!r}")
    value = getattr(importlib.import_module("holdfast.mcp._manager"), name)
    globals()[name] = value
    return value
