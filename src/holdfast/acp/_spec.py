"""What an agent program is, and what a session with it shall be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from msgspec import Struct

from holdfast.acp._permissions import Permissions
from holdfast.clock import check_seconds
from holdfast.mcp import McpServer, McpSpec
from holdfast.resources import Command


class AgentSpec(Struct, frozen=True):
    """An agent program. Runs that ask for the same one share its process."""

    command: Command
    label: str = ""
    """for people; the program's name if empty"""
    files: bool = True
    """whether it is offered to read and write files through us; each session says which"""
    terminals: bool = False
    """whether it is offered to run commands through us, in its own sandbox if it has one"""
    sign_in: str = ""
    """the method to authenticate with, if it needs one, by the id it gives it"""
    shaped_by: tuple[Hashable, ...] = ()
    """what else makes it what it is: a model, a sandbox"""
    handshake_timeout: float = 60.0

    def __post_init__(self) -> None:
        check_seconds(handshake_timeout=self.handshake_timeout)

    @property
    def name(self) -> str:
        return self.label or self.command.argv[0].rpartition("/")[2]

    def key(self) -> Hashable:
        return (self.command.key(), self.files, self.terminals, self.sign_in, self.shaped_by)


class SessionOptions(Struct, frozen=True):
    """What a session shall be."""

    cwd: str = ""
    """the folder it works in; the agent's own, or else ours, if empty"""
    readable: tuple[str, ...] | None = None
    """folders and files it may read through us, besides the writable ones; None for its folder"""
    writable: tuple[str, ...] | None = None
    """folders and files it may write through us; None for its folder"""
    permissions: Permissions = Permissions()
    """how its requests for permission are answered; by default all are denied"""
    mcp_servers: tuple[McpServer | McpSpec | Mapping[str, Any], ...] = ()
    """servers whose tools it gets: at an address, a command that it starts itself, or as the protocol writes them"""
    mode: str = ""
    model: str = ""
    tools: tuple[str, ...] | None = None
    """what it may use, told as `_meta.tools`: the protocol has no field for that, so only some agents heed it"""


def mcp_data(server: McpServer | McpSpec | Mapping[str, Any]) -> dict[str, Any]:
    """An MCP server as the protocol writes it."""
    if isinstance(server, McpSpec):
        program, *args = server.command.argv
        env = [{"name": name, "value": value} for name, value in (server.command.env or {}).items()]
        return {"name": server.name, "command": program, "args": args, "env": env}
    if isinstance(server, McpServer):
        headers = [{"name": key, "value": value.get_secret_value()} for key, value in server._headers.items()]
        return {"type": "http", "name": server.name, "url": server.url, "headers": headers}
    if "command" in server:
        return {"args": [], "env": [], **server}
    return {"headers": [], **server}
