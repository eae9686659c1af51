"""How jobs are shown: as data, as lines, as tables and trees."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli._terminal import console, iso_time, on_terminal, printable, show_age
from holdfast.ports import Job, JobStatus

if TYPE_CHECKING:
    from rich.tree import Tree

    from holdfast.ports import Ask, StepInfo

S = JobStatus
EXIT_CODES = {S.COMPLETED: 0, S.FAILED: 1, S.CANCELLED: 4, S.WAITING: 5, S.PAUSED: 5, S.AWAITING_APPROVAL: 5}
"""Of a job that was waited for; one that was not has 0."""
STYLES = {
    "completed": "green", "failed": "red", "cancelled": "yellow", "running": "cyan", "waiting": "magenta",
    "paused": "magenta", "awaiting_approval": "magenta", "queued": "dim", "pending": "dim", "skipped": "dim",
}  # fmt: skip
SIGNS = {
    "completed": "✓", "failed": "✗", "cancelled": "■", "running": "▶", "waiting": "…", "pending": "·", "skipped": "–",
}  # fmt: skip

MANY_STEPS = 40
"""More do not fit on a screen."""


def exit_code(job: Job) -> int:
    return EXIT_CODES.get(job.status, 0)


def short(job_id: str) -> str:
    """The end of an id: enough for people, and for commands."""
    return job_id[-8:]


def print_json(value: object) -> None:
    """Data of jobs is JSON already; this only spreads it out."""
    typer.echo(json.dumps(value, indent=2))


# -- data ----------------------------------------------------------------------------------------------------------


def job_data(job: Job) -> dict[str, Any]:
    """A job as plain data."""
    return {
        "id": job.id,
        "flow": job.flow,
        "name": job.name,
        "status": str(job.status),
        "reason": job.reason,
        "inputs": json.loads(job.inputs),
        "outputs": None if job.outputs is None else json.loads(job.outputs),
        "asks": [ask_data(ask) for ask in job.asks],
        "labels": job.labels,
        "priority": job.priority,
        "needs": list(job.needs),
        "runs": job.runs,
        "archived": job.archived,
        "created": iso_time(job.created_us),
        "started": None if job.started_us is None else iso_time(job.started_us),
        "ended": None if job.ended_us is None else iso_time(job.ended_us),
    }


def ask_data(ask: Ask) -> dict[str, Any]:
    expires = None if ask.expires_us is None else iso_time(ask.expires_us)
    return {"id": ask.id, "step": ask.step, "message": ask.message, "fields": ask.fields, "expires": expires}


def step_data(step: StepInfo) -> dict[str, Any]:
    return {
        "step": step.path,
        "status": step.status,
        "executor": step.executor,
        "attempt": step.attempt,
        "started": None if step.started_us is None else iso_time(step.started_us),
        "ended": None if step.ended_us is None else iso_time(step.ended_us),
        "reason": step.reason,
        "outputs": step.outputs,
    }


# -- lines and tables ----------------------------------------------------------------------------------------------


def show_jobs(jobs: Sequence[Job], now_us: int) -> None:
    """A table on a terminal, lines with tabs in a pipe."""
    rows = [_cells(job, now_us) for job in jobs]
    if not on_terminal():
        for job, row in zip(jobs, rows, strict=True):
            typer.echo("\t".join([job.id, *row[1:]]))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("id", "flow", "status", "age", "why", box=None, header_style="bold")
    for job, row in zip(jobs, rows, strict=True):
        table.add_row(*(Text(cell, style=STYLES[job.status] if cell == str(job.status) else "") for cell in row))
    console().print(table if rows else "There are no such jobs.")


def _cells(job: Job, now_us: int) -> list[str]:
    name = f"{job.flow} ({job.name})" if job.name else job.flow
    why = "" if job.status is S.COMPLETED else _cut(job.reason, 60)
    return [short(job.id), printable(name), str(job.status), show_age(now_us - job.created_us), printable(why)]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def outcome_lines(job: Job) -> list[str]:
    """What became of a job, and what can be done now."""
    lines = [f"job {job.id} {job.status}" + (f": {printable(job.reason)}" if _tells(job) else "")]
    if job.status is not S.QUEUED:  # it goes on, or ends, before anybody can answer
        lines += [line for ask in job.asks for line in ask_lines(job, ask)]
    return lines + [f"  {hint}" for hint in _hints(job)]


def _tells(job: Job) -> bool:
    return job.reason not in ("", str(job.status)) and job.status is not S.COMPLETED


def _hints(job: Job) -> Iterable[str]:
    if job.status is S.FAILED:
        yield f"holdfast logs {short(job.id)}     what it said"
        yield f"holdfast retry {short(job.id)}    go on at what failed"
    elif job.status is S.PAUSED:
        yield f"holdfast resume {short(job.id)}"
    elif job.status is S.AWAITING_APPROVAL:
        yield f"holdfast approve {short(job.id)}"


def ask_lines(job: Job, ask: Ask) -> list[str]:
    """A question, and the exact command that answers it, if it can be answered now."""
    from holdfast.service import field_of, sample

    flags = " ".join(
        f"--output {name}={shlex.quote(sample(field_of(name, spec)))}" for name, spec in ask.fields.items()
    )
    step = f" --step {shlex.quote(ask.step)}" if len(job.asks) > 1 else ""
    message = f": {printable(ask.message)}" if ask.message else ""
    waits = f"  waits at {printable(ask.step)}{message}"
    if job.status is S.PAUSED:  # it takes no answer before it is resumed
        return [waits]
    return [waits, f"  holdfast answer {short(job.id)}{step} {flags}".rstrip()]


def step_lines(steps: Sequence[StepInfo]) -> list[str]:
    """The steps of a job for a pipe."""
    return [
        "\t".join((step.path, step.status, str(step.attempt), printable(_cut(step.reason, 200)))).rstrip()
        for step in steps
    ]


def step_tree(job: Job, steps: Sequence[StepInfo], now_us: int) -> Tree:
    """The steps of a job for a terminal: those of sub-flows below the step that started them, as far as there is room."""
    from rich.text import Text
    from rich.tree import Tree

    head = Text.assemble((job.flow, "bold"), f" {short(job.id)} ", (str(job.status), STYLES[job.status]))
    tree = Tree(head)
    places: dict[str, Tree] = {"": tree}

    def place(path: str, label: Text) -> Tree:
        """Where a step is shown. Items of a `for_each` have a place but are no steps."""
        outer = path.rpartition("/")[0]
        if outer not in places:
            place(outer, Text(f"[{outer.rpartition('/')[2]}]", style="dim"))
        places[path] = places[outer].add(label)
        return places[path]

    for step in _shown(steps):
        name = step.path.rpartition("/")[2]
        place(
            step.path,
            Text.assemble((f"{SIGNS[step.status]} ", STYLES[step.status]), name, (_note(step, now_us), "dim")),
        )
    if hidden := len(steps) - len(_shown(steps)):
        tree.add(Text(f"… and {hidden} steps inside others that are done or have not begun", style="dim"))
    return tree


def _shown(steps: Sequence[StepInfo]) -> Sequence[StepInfo]:
    """All of them, or of very many only those that are at work, went wrong or are not inside others."""
    if len(steps) <= MANY_STEPS:
        return steps
    return [step for step in steps if "/" not in step.path or step.status in ("running", "waiting", "failed")]


def _note(step: StepInfo, now_us: int) -> str:
    parts = []
    if step.attempt > 1:
        parts.append(f"attempt {step.attempt}")
    if step.started_us is not None and step.status != "pending":
        seconds = ((step.ended_us or now_us) - step.started_us) / 1_000_000
        parts.append(f"{seconds:.1f} s")
    if step.reason:
        parts.append(printable(_cut(step.reason, 80)))
    return f"  {', '.join(parts)}" if parts else ""
