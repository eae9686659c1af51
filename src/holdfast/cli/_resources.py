"""`holdfast resources`: what is held, and ending what dead owners left."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from holdfast.errors import ConfigurationError
from holdfast.home import find_home, store_path

if TYPE_CHECKING:
    from holdfast.ports import Ledger, LedgerRow, SweepReport
    from holdfast.resources import Listed

T = TypeVar("T")

app = typer.Typer(help="List what runs hold: processes, directories. End what dead owners left.")

StoreOption = Annotated[
    Path | None, typer.Option("--store", metavar="PATH", help="The store; by default the project's own.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback(invoke_without_command=True)
def resources(context: typer.Context, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """List what is held: what it is, by which run, since when, with how much memory."""
    if context.invoked_subcommand is not None:
        return
    from holdfast.resources import SystemProcessTable, list_held

    listed = with_ledger(store, lambda ledger: list_held(ledger, SystemProcessTable())) or []
    shown = [listed_data(one) for one in listed]
    if as_json:
        typer.echo(json.dumps(shown, indent=2))
    elif sys.stdout.isatty():
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
    typer.echo(json.dumps(_report_data(report), indent=2) if as_json else "\n".join(_report_lines(report)))
    if report.problem:
        raise typer.Exit(1)


def with_ledger(store: Path | None, work: Callable[[Ledger], Awaitable[T]]) -> T | None:
    """Do something with the ledger; None if there is no store yet. Raises ConfigurationError if there is no project."""
    home = find_home()
    if store is None and home is None:
        raise ConfigurationError(
            "this is no Holdfast project; name its store with --store, or go to the project's folder"
        )
    path = store or store_path(home or Path())
    return asyncio.run(_with_ledger(path, work)) if path.exists() else None


async def _with_ledger(path: Path, work: Callable[[Ledger], Awaitable[T]]) -> T:
    from holdfast.stores import SqliteLedger

    async with SqliteLedger(path) as ledger:
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
    since = datetime.fromtimestamp(row.since_us / 1_000_000, UTC).isoformat(timespec="seconds")
    return {
        "id": row.id,
        "kind": row.kind,
        "name": row.name,
        "runs": list(row.runs),
        "since": since,
        "owner_pid": row.owner.process.pid,
        "path": row.path,
    }


def _report_data(report: SweepReport) -> dict[str, Any]:
    left = [row_data(row) | {"reason": reason} for row, reason in report.left]
    return {"ended": [row_data(row) for row in report.ended], "left": left, "problem": report.problem}


def _report_lines(report: SweepReport) -> list[str]:
    if report.problem:
        return [report.problem]
    lines = [f"ended\t{row.kind}\t{row.name}\tof process {row.owner.process.pid}" for row in report.ended]
    lines += [f"left\t{row.kind}\t{row.name}\t{reason}" for row, reason in report.left]
    return [*lines, f"ended {len(report.ended)}, left {len(report.left)}"]


def _cells(one: dict[str, Any]) -> list[str]:
    memory = f"{one['memory_bytes'] / 1e6:.1f} MB" if one["processes"] else "-"
    return [one["kind"], one["name"], one["state"], ",".join(one["runs"]) or "-", one["since"], memory]


def _show_table(shown: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("kind", "name", "state", "held by", "since", "memory", box=None, header_style="bold")
    for one in shown:
        table.add_row(*map(Text, _cells(one)))
    Console().print(table if shown else "Nothing is held.")
