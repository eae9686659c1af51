"""A real MCP server on standard input and output, made with the official SDK."""

from __future__ import annotations

from tests.mcp.server_program import server

if __name__ == "__main__":
    server.run("stdio")
