"""What a ledger says, as another process sees it: for the command line."""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from holdfast.ports import Ledger, LedgerRow, ProcessTable, ProcessUse, SweepReport
from holdfast.resources._directory_manager import end_directory_row
from holdfast.resources._platform import check_platform
from holdfast.resources._process_manager import end_process_row
from holdfast.resources._sweep import ALIVE, EndOrphan, is_same, sweep_ledger, why_not


class Listed(Struct, frozen=True):
    """A row and what is so now."""

    row: LedgerRow
    state: str
    """`held`, `idle` (kept warm), `starting`, `orphaned` (its owner is dead), `elsewhere` (cannot be seen from here)"""
    processes: tuple[ProcessUse, ...] = ()

    @property
    def memory_bytes(self) -> int:
        return sum(use.memory_bytes for use in self.processes)


async def list_held(ledger: Ledger, table: ProcessTable) -> list[Listed]:
    """Everything in the ledger, oldest first.

    Raises StorageError if it cannot be read, PlatformError if there is something and this system cannot say what it is up to.
    """
    rows = await ledger.rows()
    if rows:
        check_platform()
    return [Listed(row, state(row, table), tuple(processes(row, table))) for row in rows]


async def sweep_everything(ledger: Ledger, table: ProcessTable) -> SweepReport:
    """Sweep rows of every kind that Holdfast itself makes. Raises PlatformError where owners cannot be proved dead."""
    check_platform()
    end_process: EndOrphan = partial(end_process_row, table=table)
    enders: dict[str, EndOrphan] = {"directory": end_directory_row}
    enders |= dict.fromkeys(("agent", "mcp", "process", "terminal"), end_process)
    return await sweep_ledger(ledger, table, enders)


def state(row: LedgerRow, table: ProcessTable) -> str:
    doubt = why_not(row.owner.process, table)
    if doubt != ALIVE:
        return "elsewhere" if doubt else "orphaned"
    if row.tag and row.leader is None:
        return "starting"
    return "held" if row.runs else "idle"


def processes(row: LedgerRow, table: ProcessTable) -> list[ProcessUse]:
    """Those below its keeper, if the number is still the keeper's own."""
    if row.keeper is None:
        return []
    found = table.identify(row.keeper.pid)
    return table.tree(row.keeper.pid) if found is not None and is_same(found, row.keeper) else []
