"""`ProcessManager`: kept processes that runs share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from holdfast.clock import Clock, check_seconds
from holdfast.errors import HandshakeError
from holdfast.ports import Ledger, LedgerRow, ProcessTable, ProcessUse
from holdfast.resources._entries import Limits
from holdfast.resources._keeper import Keeper, new_tag
from holdfast.resources._kept import Command, KeptProcess, kill_carriers
from holdfast.resources._loops import surely
from holdfast.resources._pool import PooledManager

Talk = Callable[[KeptProcess], Awaitable[object]]


class ProcessSpec(Struct, frozen=True):
    """A process that runs may share: the command, and how to greet it and take leave."""

    command: Command
    label: str = ""
    """for people; the program's name if empty"""
    shaped_by: tuple[Hashable, ...] = ()
    """what else makes it what it is: a model, tools"""
    handshake: Talk | None = None
    """what must work before anybody gets it"""
    handshake_timeout: float = 30.0
    goodbye: Talk | None = None
    """how to take leave of it before its input ends"""

    def __post_init__(self) -> None:
        check_seconds(handshake_timeout=self.handshake_timeout)

    @property
    def name(self) -> str:
        return self.label or self.command.argv[0].rpartition("/")[2]

    def key(self) -> Hashable:
        return (self.command.key(), self.shaped_by, self.handshake, self.goodbye)


class ProcessManager(PooledManager[ProcessSpec, KeptProcess]):
    """Process trees, each shared by all runs that ask for the same one, ended with all their children at the last release.

    One whose first process ends by itself is ended as a whole, and is not given out again.
    """

    kind = "process"

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

    def intend(self, spec: ProcessSpec, row: LedgerRow) -> LedgerRow:
        return replace(row, tag=new_tag())

    async def make(self, spec: ProcessSpec, row: LedgerRow) -> tuple[KeptProcess, LedgerRow]:
        process = await self._keeper.spawn(spec.command, tag=row.tag)
        if spec.handshake is not None:
            await shake_hands(process, spec, spec.handshake)
        if spec.goodbye is not None:
            process.goodbye = partial(spec.goodbye, process)
        return process, replace(row, keeper=process.keeper, leader=process.leader)

    async def is_healthy(self, resource: KeptProcess) -> bool:
        return resource.returncode is None

    async def died(self, resource: KeptProcess) -> None:
        await resource.wait()

    async def end(self, resource: KeptProcess) -> None:
        await resource.end()

    async def end_orphan(self, row: LedgerRow) -> str:
        return await end_process_row(row, self._table)

    def uses(self, resource: KeptProcess) -> list[ProcessUse]:
        return resource.processes()

    async def shut(self) -> None:
        await self._keeper.aclose()


async def end_process_row(row: LedgerRow, table: ProcessTable) -> str:
    """Kill all that carries the row's tag. Its pids are not looked at: they may be a stranger's by now."""
    if row.owner.process.place.boot != table.place().boot:
        return ""  # nobody lived through that
    left = await asyncio.to_thread(kill_carriers, table, row.tag) if row.tag else []
    return f"process {', '.join(map(str, left))} cannot be killed" if left else ""


async def shake_hands(process: KeptProcess, spec: ProcessSpec, handshake: Talk) -> None:
    """Greet a process. Raises HandshakeError with what it said; then nothing of it is left."""
    try:
        await asyncio.wait_for(handshake(process), spec.handshake_timeout)
    except BaseException as error:
        code = process.returncode
        await surely(process.end(0))
        if not isinstance(error, Exception):
            raise
        said = process.stderr_tail().decode(errors="replace").strip()[-2000:]
        why = f"it did not answer in {spec.handshake_timeout} s" if isinstance(error, TimeoutError) else str(error)
        ended = f", and ended with {code}" if code is not None else ""
        raise HandshakeError(
            f"{spec.name} started, but {why}{ended}; {'it said: ' + said if said else 'it said nothing on standard error'}"
        ) from error
