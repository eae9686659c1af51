"""`holdfast resources`: what is held, and ending what dead owners left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from holdfast.cli._help import JsonOption, StoreOption, examples
from holdfast.cli._stores import make_store
from holdfast.cli._terminal import console, echo_json, iso_time, on_terminal, printable, show_size
from holdfast.stores import PostgresLedger, SqliteLedger, SqliteStore

if TYPE_CHECKING:
    from holdfast.ports import Ledger, LedgerRow, SweepReport
    from holdfast.resources import Listed

T = TypeVar("T")

app = typer.Typer(
    help="List what runs hold: processes, directories. End what dead owners left.",
    epilog=examples("holdfast resources --json", "holdfast resources sweep"),
)


@app.callback(invoke_without_command=True)
def resources(context: typer.Context, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """List what is held: what it is, by which run, since when, with how much memory."""
    if context.invoked_subcommand is not None:
        return
    from holdfast.resources import SystemProcessTable, list_held

    listed = with_ledger(store, lambda ledger: list_held(ledger, SystemProcessTable())) or []
    shown = [listed_data(one) for one in listed]
    if as_json:
        echo_json(shown)
    elif on_terminal():
        _show_table(shown)
    else:
        for one in shown:
            typer.echo("\t".join(_cells(one)))


@app.command()
def sweep(as_json: JsonOption = False, store: StoreOption = None) -> None:
    """End what owners that are proved dead left behind; leave everything else alone, and say why.

    Exits with 1 if the ledger cannot be read: then nothing is done.
    """
    from holdfast.ports import SweepReport
    from holdfast.resources import SystemProcessTable, sweep_everything

    report = with_ledger(store, lambda ledger: sweep_everything(ledger, SystemProcessTable())) or SweepReport([], [])
    if as_json:
        echo_json(_report_data(report))
    else:
        typer.echo("\n".join(map(printable, _report_lines(report))))
    if report.problem:
        raise typer.Exit(1)


def with_ledger(location: str | None, work: Callable[[Ledger], Awaitable[T]]) -> T | None:
    """Do something with the ledger; None if there is no store yet. Raises ConfigurationError if there is no project."""
    store = make_store(location)
    if isinstance(store, SqliteStore):
        return asyncio.run(_with_ledger(SqliteLedger(store.path), work)) if store.path.exists() else None
    return asyncio.run(_with_ledger(PostgresLedger(store.dsn, schema=store.schema), work))


async def _with_ledger(ledger: SqliteLedger | PostgresLedger, work: Callable[[Ledger], Awaitable[T]]) -> T:
    async with ledger:
        return await work(ledger)


def listed_data(one: Listed) -> dict[str, Any]:
    """A resource as plain data."""
    return row_data(one.row) | {
        "state": one.state,
        "memory_bytes": one.memory_bytes,
        "processes": [
            {"pid": use.pid, "name": use.name, "memory_bytes": use.memory_bytes} for use in one.processes
        ],
    }  # fmt: skip


def row_data(row: LedgerRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "kind": row.kind,
        "name": row.name,
        "runs": list(row.runs),
        "since": iso_time(row.since_us),
        "owner_pid": row.owner.process.pid,
        "path": row.path,
    }


def _report_data(report: SweepReport) -> dict[str, Any]:
    left = [row_data(row) | {"reason": reason} for row, reason in report.left]
    return {"ended": [row_data(row) for row in report.ended], "left": left, "problem": report.problem}


def _report_lines(report: SweepReport) -> list[str]:
    if report.problem:
        return [report.problem]
    lines = [f"ended {row.kind} {row.name}, of process {row.owner.process.pid}" for row in report.ended]
    lines += [f"left {row.kind} {row.name}: {reason}" for row, reason in report.left]
    return [*lines, f"ended {len(report.ended)}, left {len(report.left)}"]


def _cells(one: dict[str, Any]) -> list[str]:
    memory = show_size(one["memory_bytes"]) if one["processes"] else "-"
    cells = [one["kind"], one["name"], one["state"], ",".join(one["runs"]) or "-", one["since"], memory]
    return [printable(cell) for cell in cells]


def _show_table(shown: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("kind", "name", "state", "held by", "since", "memory", box=None, header_style="bold")
    for one in shown:
        table.add_row(*map(Text, _cells(one)))
    console().print(table if shown else "Nothing is held.")
