"""How schedules and their ticks are shown: as data, as lines, as tables."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli._job_views import short
from holdfast.cli._terminal import console, iso_time, on_terminal, printable, show_age, show_time

if TYPE_CHECKING:
    from holdfast.ports import Schedule, Tick

UPCOMING = 3
STYLES = {
    "fired": "green", "queued": "cyan", "skipped": "dim", "missed": "yellow", "failed": "red", "nothing": "dim",
    "active": "green", "paused": "magenta",
}  # fmt: skip


# -- data ----------------------------------------------------------------------------------------------------------


def schedule_data(schedule: Schedule, last: Tick | None) -> dict[str, Any]:
    """A schedule as plain data."""
    command = schedule.command
    return {
        "id": schedule.id,
        "name": schedule.name,
        "flow": schedule.flow,
        "kind": "poll" if schedule.is_poll else "cron",
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "every_seconds": schedule.every_seconds,
        "command": command if isinstance(command, str) else [*command],
        "call": schedule.call,
        "inputs": json.loads(schedule.inputs),
        "labels": schedule.labels,
        "overlap": schedule.overlap,
        "cooldown_seconds": schedule.cooldown_seconds,
        "catch_up": schedule.catch_up,
        "pause_after_errors": schedule.pause_after_errors,
        "status": schedule.status,
        "reason": schedule.reason,
        "errors": schedule.errors,
        "cursor": json.loads(schedule.cursor),
        "next_at": None if schedule.next_us is None else iso_time(schedule.next_us),
        "last_tick": None if last is None else tick_data(last),
        "created": iso_time(schedule.created_us),
    }


def tick_data(tick: Tick) -> dict[str, Any]:
    return {
        "id": tick.id,
        "due": iso_time(tick.due_us),
        "at": iso_time(tick.at_us),
        "outcome": tick.outcome,
        "reason": tick.reason,
        "job_id": tick.job_id,
    }


# -- lines and tables ----------------------------------------------------------------------------------------------


def schedule_lines(schedule: Schedule, last: Tick | None) -> list[str]:
    """A schedule for people."""
    why = f": {schedule.reason}" if schedule.reason else ""
    lines = [
        f"schedule {schedule.name} is {schedule.status}{why}",
        f"  runs      {schedule.flow}, {_when(schedule)}",
        *(f"  next      {due}" for due in _next_times(schedule)),
    ]
    if last is not None:
        what = f"job {last.job_id}" if last.job_id else last.reason
        lines.append(f"  last      {show_time(last.due_us)} {last.outcome}{f': {what}' if what else ''}")
    return [printable(line) for line in lines]


def _next_times(schedule: Schedule) -> list[str]:
    from holdfast.schedules import upcoming

    if schedule.next_us is None:
        return []
    if schedule.is_poll:
        return [show_time(schedule.next_us)]
    return [
        f"{due:%a %Y-%m-%d %H:%M %Z}"
        for due in upcoming(schedule.cron, schedule.timezone, schedule.next_us - 1, UPCOMING)
    ]


def _when(schedule: Schedule) -> str:
    if not schedule.is_poll:
        return f"{schedule.cron} ({schedule.timezone})"
    command = schedule.call or schedule.command
    return f"every {schedule.every_seconds} s: {command if isinstance(command, str) else shlex.join(command)}"


def show_schedules(found: Sequence[tuple[Schedule, Tick | None]], now_us: int) -> None:
    """A table on a terminal, lines with tabs in a pipe."""
    rows = [_cells(schedule, last, now_us) for schedule, last in found]
    _show(("name", "flow", "status", "when", "next", "last", "why"), rows, "There are no schedules.")


def _cells(schedule: Schedule, last: Tick | None, now_us: int) -> list[str]:
    due = "" if schedule.next_us is None else show_time(schedule.next_us)
    told = "" if last is None else f"{last.outcome} {show_age(now_us - last.at_us)} ago"
    why = schedule.reason or (last.reason if last is not None and schedule.errors else "")
    return [schedule.name, schedule.flow, schedule.status, _when(schedule), due, told, why]


def show_ticks(found: Sequence[Tick]) -> None:
    rows = [
        [show_time(tick.due_us), tick.outcome, short(tick.job_id) if tick.job_id else "", tick.reason] for tick in found
    ]
    _show(("due", "outcome", "job", "why"), rows, "Nothing was due yet.")


def _show(heads: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
    cells = [[printable(cell) for cell in row] for row in rows]
    if not on_terminal():
        for row in cells:
            typer.echo("\t".join(row).rstrip())
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(*heads, box=None, header_style="bold")
    for row in cells:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    console().print(table if rows else nothing)
