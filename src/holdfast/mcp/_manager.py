"""`McpManager`: MCP servers that are programs of this machine, shared by runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.clock import Clock, check_seconds
from holdfast.mcp._connection import Connection
from holdfast.mcp._peer import McpPeer
from holdfast.mcp._stdio import ProcessPlace
from holdfast.ports import Ledger, LedgerRow, ProcessTable, ProcessUse
from holdfast.resources import Command, Keeper, KeptProcess, Limits, PooledManager, ProcessSpec
from holdfast.resources._keeper import new_tag
from holdfast.resources._loops import on_loop
from holdfast.resources._process_manager import end_process_row, shake_hands

T = TypeVar("T")

PASSED_ON = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""Of our environment, if the command brings none: a server of somebody else's making need not know our secrets."""
LOAD_SECONDS = 60.0
"""What the SDK gets to be imported, on a busy machine."""
LEAVE_SECONDS = 1.0
"""How long a server gets to leave by itself once its input has ended."""


class McpSpec(Struct, frozen=True):
    """An MCP server to be started, which speaks on standard input and output. Runs that ask for the same one share it."""

    command: Command
    """without an `env`, it gets the little of ours that programs need, and no secrets"""
    label: str = ""
    """for people; the program's name if empty"""
    timeout: float = 60.0
    """seconds a call may take"""
    handshake_timeout: float = 30.0
    shaped_by: tuple[Hashable, ...] = ()
    """what else makes it what it is"""

    def __post_init__(self) -> None:
        check_seconds(timeout=self.timeout, handshake_timeout=self.handshake_timeout)

    @property
    def name(self) -> str:
        return self.label or self.command.argv[0].rpartition("/")[2]

    def key(self) -> Hashable:
        return (self.command.key(), self.label, self.timeout, self.shaped_by)


class McpProcess(McpPeer):
    """A running MCP server. Its tools may be listed and called on any event loop, for as long as a lease on it is held."""

    transport_type = "stdio"

    def __init__(self, spec: McpSpec, process: KeptProcess) -> None:
        self.name = spec.name
        self.timeout = spec.timeout
        self.process = process
        self._loop = asyncio.get_running_loop()
        self._place = ProcessPlace(spec.name, process)
        self._connection = Connection(self._place, spec.handshake_timeout)

    def __repr__(self) -> str:
        return f"<McpProcess {self.name} {self.process.pid}>"

    async def _talk(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        return await on_loop(self._loop, work(self._connection))

    # -- for the manager, on its loop --------------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        return self.process.returncode is None and self._connection.is_open and not self._place.over.is_set()

    async def greet(self, process: KeptProcess) -> None:
        await self._connection.open()

    async def lost(self) -> None:
        """Return when it is of no more use to anybody."""
        ends = {asyncio.ensure_future(self.process.wait()), asyncio.ensure_future(self._place.over.wait())}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    async def take_leave(self) -> None:
        """End its input and wait a little: that is how the protocol says goodbye."""
        await self._connection.aclose()
        self.process.close_stdin()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), LEAVE_SECONDS)

    async def end(self) -> None:
        """End it with all it started, and the connection whatever comes."""
        try:
            await self.process.end()
        finally:
            await self._connection.aclose()


class McpManager(PooledManager[McpSpec, McpProcess]):
    """MCP servers on standard input and output, under keepers.

        servers = McpManager(SqliteLedger(path))
        runtime.register(servers)
        …
        lease = await servers.acquire(McpSpec(Command(("uvx", "some-server"))), run)
        tools = await lease.resource.tools()

    One whose connection breaks is ended as a whole and not given out again. What it writes to standard error is always drained,
    and the last of it is in the errors. One that fails its handshake leaves nothing. Linux only.
    """

    kind = "mcp"

    def __init__(
        self,
        ledger: Ledger,
        *,
        table: ProcessTable | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(ledger, table=table, limits=limits, clock=clock)
        self._keeper = Keeper(self._table)

    def intend(self, spec: McpSpec, row: LedgerRow) -> LedgerRow:
        return replace(row, tag=new_tag())

    async def make(self, spec: McpSpec, row: LedgerRow) -> tuple[McpProcess, LedgerRow]:
        command = replace(spec.command, stderr="ring", env=_environment(spec.command))
        process = await self._keeper.spawn(command, tag=row.tag)
        server = McpProcess(spec, process)
        greeting = ProcessSpec(command, spec.name, handshake_timeout=spec.handshake_timeout + LOAD_SECONDS)
        await shake_hands(process, greeting, server.greet)
        process.goodbye = server.take_leave
        return server, replace(row, keeper=process.keeper, leader=process.leader)

    async def is_healthy(self, resource: McpProcess) -> bool:
        return resource.is_usable

    async def died(self, resource: McpProcess) -> None:
        await resource.lost()

    async def end(self, resource: McpProcess) -> None:
        await resource.end()

    async def end_orphan(self, row: LedgerRow) -> str:
        return await end_process_row(row, self._table)

    def uses(self, resource: McpProcess) -> list[ProcessUse]:
        return resource.process.processes()

    async def shut(self) -> None:
        await self._keeper.aclose()


def _environment(command: Command) -> dict[str, str]:
    if command.env is not None:
        return command.env
    return {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")}
