"""Terminals: commands that an agent has us run. Each is a lease of the run, under a keeper, with a bounded output."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.ports import Ledger, LedgerRow, ProcessTable, ProcessUse
from holdfast.resources import Command, Keeper, KeptProcess, Limits, PooledManager
from holdfast.resources._keeper import new_tag
from holdfast.resources._loops import on_loop
from holdfast.resources._pipes import Ring
from holdfast.resources._process_manager import end_process_row

OUTPUT_BYTES = 1024 * 1024
"""The most that is kept of an output, whatever the agent asks for."""
LAST_WORDS_SECONDS = 1.0
"""How long the output of a command that ended is waited for: what it left running may hold the pipe."""


class TerminalSpec(Struct, frozen=True):
    """A command to run for an agent."""

    command: Command
    output_bytes: int = OUTPUT_BYTES

    @property
    def name(self) -> str:
        return self.command.argv[0].rpartition("/")[2]

    def key(self) -> Hashable:
        return (self.command.argv, self.command.cwd)


class Terminal:
    """A command that runs, or has run, and the end of what it wrote."""

    def __init__(self, process: KeptProcess, output_bytes: int) -> None:
        self.process = process
        self._ring = Ring(max(1, min(output_bytes, OUTPUT_BYTES)))
        self._loop = asyncio.get_running_loop()
        self._reading = self._loop.create_task(self._read())
        self._over: asyncio.Future[None] = self._loop.create_future()

    async def _read(self) -> None:
        while data := await self.process.read():
            self._ring.feed(data)

    async def output(self) -> dict[str, Any]:
        """What it wrote, the last of it if that was much, and how it ended if it has. On any loop, as `over`."""
        return await on_loop(self._loop, self._output())

    async def _output(self) -> dict[str, Any]:
        kept = self._ring.tail()
        told: dict[str, Any] = {"output": _whole(kept), "truncated": self._ring.total > len(kept)}
        return told if self.process.returncode is None else told | {"exitStatus": self.exit_status()}

    def exit_status(self) -> dict[str, Any]:
        code = self.process.returncode
        if code is None or code >= 0:
            return {"exitCode": code}
        return {"signal": str(-code)}

    async def over(self) -> None:
        """Wait until the command has ended and what it wrote is here."""
        await on_loop(self._loop, self._wait_over())

    async def _wait_over(self) -> None:
        await asyncio.shield(self._over)

    async def settle(self) -> None:
        """Wait for the end of the command, then a moment for its last words."""
        await self.process.wait()
        await asyncio.wait({self._reading}, timeout=LAST_WORDS_SECONDS)

    async def end(self) -> None:
        """End it with all it started."""
        try:
            await self.process.end()
        finally:
            self._reading.cancel()
            await asyncio.wait({self._reading})
            if not self._over.done():
                self._over.set_result(None)


class TerminalManager(PooledManager[TerminalSpec, Terminal]):
    """Runs commands for agents. One for each lease; all that a command leaves behind is ended when it ends."""

    kind = "terminal"

    def __init__(self, ledger: Ledger, keeper: Keeper, table: ProcessTable | None = None, total: int = 256) -> None:
        super().__init__(ledger, table=table, limits=Limits(total=total, per_key=total, sharing=1))
        self._keeper = keeper

    def intend(self, spec: TerminalSpec, row: LedgerRow) -> LedgerRow:
        return replace(row, tag=new_tag())

    async def make(self, spec: TerminalSpec, row: LedgerRow) -> tuple[Terminal, LedgerRow]:
        process = await self._keeper.spawn(spec.command, tag=row.tag)
        process.close_stdin()  # nobody will type
        return Terminal(process, spec.output_bytes), replace(row, keeper=process.keeper, leader=process.leader)

    async def is_healthy(self, resource: Terminal) -> bool:
        return resource.process.returncode is None

    async def died(self, resource: Terminal) -> None:
        await resource.settle()

    async def end(self, resource: Terminal) -> None:
        await resource.end()

    async def end_orphan(self, row: LedgerRow) -> str:
        return await end_process_row(row, self._table)

    def uses(self, resource: Terminal) -> list[ProcessUse]:
        return resource.process.processes()


def _whole(data: bytes) -> str:
    """Text whose first character may have been cut in two."""
    cut = 0
    while cut < min(3, len(data)) and data[cut] & 0xC0 == 0x80:
        cut += 1
    return data[cut:].decode(errors="replace")
