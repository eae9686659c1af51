"""Agents for the tests, and a run that talks to one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from holdfast import Runtime
from holdfast.acp import AgentManager, AgentSession, AgentSpec, SessionOptions
from holdfast.events import BaseEvent
from holdfast.resources import Command
from holdfast.runs import Run

HERE = Path(__file__).parent
DEMO = AgentSpec(Command((sys.executable, "-m", "holdfast.acp.demo")), "demo")
PYTHON = (sys.executable, "-I", "-S")


def rogue(*words: str, **settings: Any) -> AgentSpec:
    """An agent that misbehaves, behind a wrapper as agents of vendors are."""
    command = " ".join((*PYTHON, str(HERE / "rogue.py"), *words))
    settings = {"handshake_timeout": 20.0, "label": "rogue", **settings}
    return AgentSpec(Command(("/bin/sh", "-c", f"{command}; exit $?"), grace=0.3), **settings)


Talk = Callable[[AgentSession], Awaitable[Any]]


async def talk(
    runtime: Runtime, agents: AgentManager, spec: AgentSpec, how: Talk, options: SessionOptions | None = None
) -> Any:
    """Do something with a session in a run of its own."""

    async def body(run: Run) -> Any:
        lease = await agents.acquire(spec, run)
        return await how(await lease.session(options))

    return await runtime.arun(body)


def told(runtime: Runtime, *kinds: type[BaseEvent]) -> list[BaseEvent]:
    """A list that fills with the events of some kinds."""
    heard: list[BaseEvent] = []
    runtime.event_bus.on(*kinds or (BaseEvent,))(lambda source, event: heard.append(event))
    return heard
