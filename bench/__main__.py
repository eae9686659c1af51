"""`python -m bench [ROWS]`: measure, print a table, write the results. Exit code 1 when a target is missed."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench._harness import BENCH, Row, say

GROUPS = (
    "imports",
    "emit",
    "leaks",
    "flows",
    "peers_flows",
    "long_flows",
    "deltas",
    "stores",
    "models",
    "resources",
    "streams",
    "agents",
    "jobs",
    "queue",
    "server",
)
HEADINGS = ("row", "unit", "holdfast", "peers", "limit", "ratio", "target", "met")


def load_rows() -> dict[str, Callable[[], list[Row]]]:
    """Collect the rows of every group."""
    rows: dict[str, Callable[[], list[Row]]] = {}
    for group in GROUPS:
        rows |= importlib.import_module(f"bench.rows.{group}").ROWS
    return rows


def parse_arguments(known: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Holdfast beside its peers.")
    parser.add_argument("rows", nargs="?", default="", help=f"comma-separated, of: {', '.join(known)} (default: all)")
    parser.add_argument("--json", type=Path, default=BENCH / "results.json", metavar="PATH", help="where results go")
    arguments = parser.parse_args()
    arguments.rows = [name.strip() for name in arguments.rows.split(",") if name.strip()] or known
    if unknown := [name for name in arguments.rows if name not in known]:
        parser.error(f"no such row: {', '.join(unknown)}; there are: {', '.join(known)}")
    return arguments


def describe_machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def save(path: Path, measured: list[Row]) -> None:
    """Write the results; rows that were not measured now are kept if they come from the same kind of machine."""
    machine = describe_machine()
    rows: dict[str, Any] = {}
    if path.is_file():
        stored = json.loads(path.read_text())
        if stored["machine"] == machine:
            rows = {row["name"]: row for row in stored["rows"]}
    rows |= {row.name: _rounded(asdict(row)) for row in measured}
    text = json.dumps({"machine": machine, "rows": list(rows.values())}, indent=2, ensure_ascii=False)
    path.write_text(text + "\n")


def show(measured: list[Row]) -> None:
    """Print the table: framed on a terminal, plain columns in a pipe."""
    lines = [_cells(row) for row in measured]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*HEADINGS)
        for cells in lines:
            table.add_row(*cells)
        Console().print(table)
        return
    widths = [max(len(cell) for cell in column) for column in zip(HEADINGS, *lines, strict=True)]
    for cells in [HEADINGS, *lines]:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def main() -> int:
    rows = load_rows()
    arguments = parse_arguments(list(rows))
    measured: list[Row] = []
    for name in arguments.rows:
        say(f"measuring {name}")
        measured += rows[name]()
    save(arguments.json, measured)
    show(measured)
    return int(any(row.ok is False for row in measured))


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        row.unit,
        _figure(row.holdfast),
        ", ".join(f"{name} {_figure(value)}" for name, value in row.peers.items()) or "-",
        _figure(row.limit),
        "-" if row.ratio is None else f"{row.ratio:.1f}x",
        row.target or "-",
        {None: "-", True: "yes", False: "NO"}[row.ok],
    )


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _rounded(value: Any) -> Any:
    """Four digits are more than the machine's noise; fewer digits make smaller diffs."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())
