"""A real MCP server, made with the official SDK. Prints its port; ends with its stdin."""

from __future__ import annotations

import asyncio
import logging
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

server = MCPServer("demo", log_level="CRITICAL")
held = asyncio.Event()


class Place(BaseModel):
    x: int
    name: str = "here"


@server.tool()
def add(a: int, b: int = 2) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def where(x: int) -> Place:
    """Says where."""
    return Place(x=x)


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("it broke")


@server.tool()
async def hold() -> str:
    """Never answers."""
    await held.wait()
    return "late"


class NeedsToken:
    """Refuses a request without the right token, if the program was given one."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"x-token", b"").decode() != self._token:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return
        await self._app(scope, receive, send)


def make_app(token: str) -> Starlette:
    app = server.streamable_http_app()
    if token:
        app.user_middleware.append(Middleware(NeedsToken, token=token))
    return app


async def main() -> None:
    logging.disable(logging.CRITICAL)
    token = sys.argv[1] if len(sys.argv) > 1 else ""
    config = uvicorn.Config(make_app(token), port=0, log_config=None)
    running = uvicorn.Server(config)
    serving = asyncio.create_task(running.serve())
    while not running.started:  # noqa: ASYNC110 - uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    sys.stdout.write(f"{running.servers[0].sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    running.force_exit = running.should_exit = True
    held.set()
    await serving


if __name__ == "__main__":
    asyncio.run(main())
