"""The sweep: ends what owners that are proved dead left behind, and touches nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from holdfast.errors import StorageError
from holdfast.logs import get_logger
from holdfast.ports import Ledger, LedgerRow, ProcessIdentity, ProcessTable, SweepReport

log = get_logger("resources")

EndOrphan = Callable[[LedgerRow], Awaitable[str]]
"""End what a row names. Returns why it could not, or nothing."""

ALIVE = "its owner is alive"


async def sweep_ledger(
    ledger: Ledger,
    table: ProcessTable,
    enders: Mapping[str, EndOrphan],
    is_stale: Callable[[LedgerRow], bool] = lambda row: False,
) -> SweepReport:
    """Sweep the rows of some kinds. `is_stale` knows rows of our own that are over.

    A ledger that cannot be read means that nothing is done; the report says so.
    """
    report = SweepReport([], [])
    try:
        rows = await ledger.rows()
    except StorageError as error:
        report.problem = f"nothing was swept: {error}"
        log.warning("%s", report.problem)
        return report
    for row in rows:
        if row.kind in enders:
            await _sweep_row(row, ledger, table, enders[row.kind], is_stale, report)
    return report


async def _sweep_row(
    row: LedgerRow,
    ledger: Ledger,
    table: ProcessTable,
    end_orphan: EndOrphan,
    is_stale: Callable[[LedgerRow], bool],
    report: SweepReport,
) -> None:
    doubt = "" if is_stale(row) else why_not(row.owner.process, table)
    if doubt == ALIVE:
        return
    if doubt:  # somebody else's to sweep, and in a fleet nothing to tell the log of every time
        report.left.append((row, doubt))
        return
    try:
        problem = await end_orphan(row)
        if not problem:
            await ledger.remove(row.id)
    except Exception as error:  # a user's kind may raise anything; the other rows have their turn all the same
        problem = str(error) or type(error).__name__
    if problem:
        log.warning("%s %s of a dead owner could not be ended: %s", row.kind, row.name, problem)
        report.left.append((row, problem))
    else:
        report.ended.append(row)


def why_not(owner: ProcessIdentity, table: ProcessTable) -> str:
    """Why an owner cannot be taken for dead; empty if it is proved to be."""
    try:
        return _why_not(owner, table)
    except OSError as error:  # too many open files
        return f"whether its owner is alive cannot be told: {error}"


def _why_not(owner: ProcessIdentity, table: ProcessTable) -> str:
    here, there = table.place(), owner.place
    if there.machine != here.machine:
        return f"its owner is on another machine, {there.machine}"
    if there.boot != here.boot:
        return ""  # the machine was started anew since, and nobody lived through that
    if there.namespace != here.namespace:
        return "its owner is in another container, or was; from here that cannot be told"
    found = table.identify(owner.pid)
    return ALIVE if found is not None and is_same(found, owner) else ""


def is_same(one: ProcessIdentity, other: ProcessIdentity) -> bool:
    """Whether two identities name one process. An inode that is not known on one side proves nothing."""
    known = bool(one.inode and other.inode)
    return (one.place, one.pid, one.started) == (other.place, other.pid, other.started) and (
        not known or one.inode == other.inode
    )
