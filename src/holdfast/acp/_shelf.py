"""`Shelf`: the terminals of one session."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from holdfast.acp._files import FileDoor
from holdfast.acp._peer import RefusedError
from holdfast.acp._terminals import OUTPUT_BYTES, Terminal, TerminalManager, TerminalSpec
from holdfast.errors import ResourceError, RunEndedError, RunError
from holdfast.ids import new_id
from holdfast.resources import Command, PooledLease
from holdfast.resources._bubblewrap import environment
from holdfast.runs import Run

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
TERMINALS = 32
"""A session's at once."""


class Shelf:
    """Makes and keeps the terminals of a session. Each is a lease of its run, in the sandbox and the environment of the agent."""

    def __init__(self, run: Run, manager: TerminalManager, door: FileDoor, cwd: str, agent: Command) -> None:
        self._run = run
        self._manager = manager
        self._door = door
        self._cwd = cwd
        self._agent = agent
        self._leases: dict[str, PooledLease[Terminal]] = {}
        self._making = 0

    def move_to(self, run: Run) -> None:
        """Make further terminals for another run, which holds those there are."""
        self._run = run

    async def serve(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Do what the agent asks for. Raises RefusedError."""
        if method == "create":
            return await self._create(params)
        terminal_id = params["terminalId"]
        if terminal_id not in self._leases:
            raise RefusedError(f"there is no terminal {terminal_id}")
        serve: dict[str, Callable[[str], Awaitable[dict[str, Any]]]] = {
            "output": self._output, "wait_for_exit": self._wait, "kill": self._kill, "release": self._release,
        }  # fmt: skip
        return await serve[method](terminal_id)

    async def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        if len(self._leases) + self._making >= TERMINALS:
            raise RefusedError(f"{TERMINALS} terminals are open; release one first")
        cwd = self._door.check_folder(params.get("cwd") or self._cwd)
        env = self._environment() | {entry["name"]: entry["value"] for entry in params.get("env", ())}
        argv = (params["command"], *params.get("args", ()))
        if not params.get("args") and " " in params["command"]:  # a line for a shell: agents send both
            argv = ("/bin/sh", "-c", params["command"])
        limit = params.get("outputByteLimit")
        spec = TerminalSpec(
            Command(argv, env, cwd, "stdout", grace=GRACE, sandbox=self._agent.sandbox),
            OUTPUT_BYTES if limit is None else limit,
        )
        self._making += 1
        try:
            lease = await self._manager.acquire(spec, self._run)
        except (ResourceError, RunError) as error:
            raise RefusedError(str(error)) from error
        finally:
            self._making -= 1
        terminal_id = new_id()
        self._leases[terminal_id] = lease
        return {"terminalId": terminal_id}

    def _environment(self) -> dict[str, str]:
        if self._agent.sandbox is not None:
            return environment(self._agent)
        return dict(os.environ if self._agent.env is None else self._agent.env)

    async def _output(self, terminal_id: str) -> dict[str, Any]:
        return await self._terminal(terminal_id).output()

    async def _wait(self, terminal_id: str) -> dict[str, Any]:
        terminal = self._terminal(terminal_id)
        await terminal.over()
        return terminal.exit_status()

    async def _kill(self, terminal_id: str) -> dict[str, Any]:
        await self._terminal(terminal_id).process.end()
        return {}

    async def _release(self, terminal_id: str) -> dict[str, Any]:
        await self._run.release(self._leases.pop(terminal_id))
        return {}

    def _terminal(self, terminal_id: str) -> Terminal:
        return self._leases[terminal_id].resource

    async def clear(self) -> None:
        """End all of them. What the run has released already is fine."""
        while self._leases:
            _, lease = self._leases.popitem()
            with suppress(RunEndedError):  # nobody is left to be told
                await self._run.release(lease)
