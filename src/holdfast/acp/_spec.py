"""What an agent program is, and what a session with it shall be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from msgspec import Struct

from holdfast.acp._permissions import Permissions
from holdfast.mcp import McpServer
from holdfast.resources import Command


class AgentSpec(Struct, frozen=True):
    """An agent program. Runs that ask for the same one share its process."""

    command: Command
    label: str = ""
    """for people; the program's name if empty"""
    files: bool = True
    """whether it is offered to read and write files through us; each session says which"""
    terminals: bool = False
    """whether it is offered to run commands through us: they run as we do, outside any sandbox the agent is in"""
    sign_in: str = ""
    """the method to authenticate with, if it needs one, by the id it gives it"""
    shaped_by: tuple[Hashable, ...] = ()
    """what else makes it what it is: a model, a sandbox"""
    handshake_timeout: float = 60.0

    @property
    def name(self) -> str:
        return self.label or self.command.argv[0].rpartition("/")[2]

    def key(self) -> Hashable:
        command = self.command
        env = None if command.env is None else tuple(sorted(command.env.items()))
        how = (command.cwd, command.stderr, command.may_gain_privileges, command.grace)
        return (command.argv, env, *how, self.files, self.terminals, self.sign_in, self.shaped_by)


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
    mcp_servers: tuple[McpServer | Mapping[str, Any], ...] = ()
    """servers whose tools it gets: ours by address, or any as the protocol writes them"""
    mode: str = ""
    model: str = ""


def mcp_data(server: McpServer | Mapping[str, Any]) -> dict[str, Any]:
    """An MCP server as the protocol writes it."""
    if isinstance(server, McpServer):
        headers = [{"name": key, "value": value.get_secret_value()} for key, value in server._headers.items()]
        return {"type": "http", "name": server.name, "url": server.url, "headers": headers}
    if "command" in server:
        return {"args": [], "env": [], **server}
    return {"headers": [], **server}
