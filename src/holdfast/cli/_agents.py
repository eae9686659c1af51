"""`holdfast agents`: which agent programs are known, and whether they work."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli._help import JsonOption, examples
from holdfast.cli._terminal import console, echo_json, on_terminal, printable, show_size
from holdfast.errors import AcpError, ResourceError

if TYPE_CHECKING:
    from holdfast.acp import AgentLease, AgentManager, KnownAgent
    from holdfast.runs import Run

app = typer.Typer(
    help="List agent programs that runs can use over the Agent Client Protocol, and check that one works.",
    epilog=examples("holdfast agents --json", "holdfast agents check demo"),
)


@app.callback(invoke_without_command=True)
def agents(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the agents that are known: ours, and those that `holdfast.toml` in the project's `.holdfast/` names."""
    if context.invoked_subcommand is not None:
        return
    from holdfast.acp import known_agents

    shown = [agent_data(agent) for agent in known_agents().values()]
    if as_json:
        echo_json(shown)
    elif on_terminal():
        _show_table(shown)
    else:
        for one in shown:
            typer.echo("\t".join(_cells(one)))


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="The agent's name, as `holdfast agents` lists it.")],
    as_json: JsonOption = False,
) -> None:
    """Start an agent, shake hands, end it, and say what it can do. Exits with 1 if it cannot be used."""
    from holdfast.acp import find_agent

    found = find_agent(name)
    data = agent_data(found) | (asyncio.run(_try(found)) if found.is_installed else {"problem": "it is not installed"})
    if as_json:
        echo_json(data)
    else:
        typer.echo("\n".join(map(printable, _lines(data))))
    if data.get("problem"):
        raise typer.Exit(1)


async def _try(agent: KnownAgent) -> dict[str, Any]:
    """What an agent says of itself, or why it says nothing."""
    from holdfast.acp import AgentManager
    from holdfast.runtime import Runtime
    from holdfast.stores import MemoryLedger

    manager, begun = AgentManager(MemoryLedger()), time.monotonic()

    async def body(run: Run) -> dict[str, Any]:
        try:
            async with await manager.acquire(agent.spec(), run) as lease:
                return _found(lease, manager, time.monotonic() - begun)
        except (AcpError, ResourceError) as error:
            return {"problem": str(error)}

    try:
        async with Runtime() as runtime:
            told: dict[str, Any] = await runtime.arun(body)
            return told
    finally:
        await manager.release_all()


def _found(lease: AgentLease, manager: AgentManager, seconds: float) -> dict[str, Any]:
    info, agent = lease.info.get("agentInfo") or {}, lease.resource
    session = ("fork", "resume", "close")
    return {
        "version": " ".join(str(info[key]) for key in ("name", "version") if info.get(key)),
        "offers": [
            *(["load"] if agent.offers("loadSession") else []),
            *(name for name in session if agent.offers("sessionCapabilities", name)),
        ],
        "sign_in": [str(way.get("id")) for way in lease.info.get("authMethods") or ()],
        "seconds": round(seconds, 2),
        "memory_bytes": manager.inventory()[0].memory_bytes,
        "problem": "",
    }


def agent_data(agent: KnownAgent) -> dict[str, Any]:
    """A known agent as plain data."""
    return {
        "name": agent.name,
        "title": agent.title,
        "command": list(agent.command),
        "installed": agent.is_installed,
        "install": agent.install,
        "source": agent.source,
    }


def _lines(data: dict[str, Any]) -> list[str]:
    if data["problem"]:
        how = f"; install it: {data['install']}" if data["install"] and not data["installed"] else ""
        return [f"{data['name']}: {data['problem']}{how}"]
    return [
        f"{data['name']}: works ({data['version'] or 'no version given'})",
        f"  ready in   {data['seconds']} s, with {show_size(data['memory_bytes'])}",
        f"  sessions   new, {', '.join(data['offers'])}" if data["offers"] else "  sessions   new",
        *([f"  sign in by {', '.join(data['sign_in'])}"] if data["sign_in"] else []),
    ]


def _cells(one: dict[str, Any]) -> list[str]:
    state = "installed" if one["installed"] else "missing"
    how = one["source"] if one["installed"] else one["install"] or one["source"]
    return [printable(cell) for cell in (one["name"], state, one["title"] or " ".join(one["command"]), how)]


def _show_table(shown: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("name", "state", "what", "from, or how to install", box=None, header_style="bold")
    for one in shown:
        table.add_row(*map(Text, _cells(one)))
    console().print(table)
