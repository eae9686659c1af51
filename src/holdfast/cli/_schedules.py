"""`holdfast schedule`: flows that are run by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from holdfast.cli._help import JsonOption, StoreOption, examples
from holdfast.cli._job_views import print_json
from holdfast.cli._project import Project, in_project
from holdfast.cli._run import complete_flow
from holdfast.cli._schedule_views import schedule_data, schedule_lines, show_schedules, show_ticks, tick_data
from holdfast.cli._terminal import parse_duration, parse_labels, printable
from holdfast.errors import ConfigurationError, UsageError
from holdfast.ports import CatchUp, Overlap

if TYPE_CHECKING:
    from holdfast.ports import Schedule
    from holdfast.schedules import ScheduleSpec

app = typer.Typer(
    help="Run flows by themselves: at times that a cron expression says, or when a check says so.",
    no_args_is_help=True,
    epilog=examples(
        "holdfast schedule add nightly report --cron '30 2 * * *' --timezone Europe/Berlin",
        "holdfast schedule list",
        "holdfast schedule ticks nightly",
    ),
)
ADD_EPILOG = examples(
    "holdfast schedule add nightly report --cron @daily --timezone Europe/Berlin --catch-up once",
    "holdfast schedule add mails triage --every 5m --command ./new-mails.sh --overlap queue",
    "holdfast schedule add mails triage --every 90s --call checks:new_mails",
)


def _complete_schedule(incomplete: str) -> list[str]:
    """Names of schedules, for shells."""
    try:
        found = in_project(None, lambda project: project.schedules.schedules())
    except ConfigurationError:
        return []
    return [schedule.name for schedule in found if schedule.name.startswith(incomplete)]


ScheduleArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="Its name or its id.", autocompletion=_complete_schedule)
]


@app.command(epilog=ADD_EPILOG)
def add(
    name: Annotated[str, typer.Argument(help="What it is called; its jobs have the label schedule=NAME.")],
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="A flow of the project.", autocompletion=complete_flow)],
    cron: Annotated[
        str,
        typer.Option(
            "--cron", metavar="EXPRESSION", help="Five fields, or @hourly, @daily, @weekly, @monthly, @yearly."
        ),
    ] = "",
    timezone: Annotated[
        str, typer.Option("--timezone", metavar="ZONE", help="What cron goes by: Europe/Berlin.")
    ] = "UTC",
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="Instead of cron: check so often, as 90s or 5m.")
    ] = "",
    command: Annotated[
        str,
        typer.Option("--command", metavar="COMMAND", help="The check: a shell command that prints whether to fire."),
    ] = "",
    call: Annotated[
        str, typer.Option("--call", metavar="MODULE:FUNCTION", help="The check as a function of the cursor.")
    ] = "",
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input; @file takes a file's text."),
    ] = None,
    labels: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A label of its jobs.")
    ] = None,
    overlap: Annotated[
        Overlap,
        typer.Option(
            "--overlap", help="While an earlier job has not ended: leave the time out, fire after it, or fire."
        ),
    ] = "skip",
    cooldown: Annotated[
        str, typer.Option("--cooldown", metavar="TIME", help="The shortest time between two fires, as 10m.")
    ] = "",
    catch_up: Annotated[
        CatchUp, typer.Option("--catch-up", help="Fire once for times that passed while nobody served the queue.")
    ] = "none",
    pause_after: Annotated[
        int, typer.Option("--pause-after", min=0, metavar="N", help="Pause after so many errors in a row; 0: never.")
    ] = 5,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Make a schedule for a flow of the project. It fires while `holdfast worker` or `holdfast serve` runs.

    A check prints {"fire": true, false or a list of inputs, "cursor": anything}. The next one finds the cursor in HOLDFAST_CURSOR.
    """

    async def work(project: Project) -> None:
        from holdfast.flowfiles import parse_assignments
        from holdfast.schedules import ScheduleSpec

        spec = ScheduleSpec(
            name=name, flow=_reference(project, flow), cron=cron, timezone=timezone, every_seconds=_seconds(every),
            command=command, call=call, inputs=parse_assignments(inputs or []), labels=parse_labels(labels or []),
            overlap=overlap, cooldown_seconds=_seconds(cooldown), catch_up=catch_up, pause_after_errors=pause_after,
        )  # fmt: skip
        await _add(project, spec, as_json)

    in_project(store, work, make=True)


async def _add(project: Project, spec: ScheduleSpec, as_json: bool) -> None:
    made = await project.timetable.add(spec)
    await _show(project, made, as_json)
    if not as_json and not await project.is_served():
        typer.echo("nobody serves the queue now: it fires while `holdfast worker` or `holdfast serve` runs", err=True)


def _reference(project: Project, flow: str) -> str:
    """A flow as the schedule names it: by its path inside the project, wherever the command was given."""
    from holdfast.flowfiles import find_flow

    found = find_flow(flow, Path.cwd())
    if found is None or not found.resolve().is_relative_to(project.folder.resolve()):
        raise UsageError(f"the project has no flow {flow!r}; schedules are for flows inside of it")
    return found.resolve().relative_to(project.folder.resolve()).as_posix()


def _seconds(duration: str) -> int:
    return round(parse_duration(duration).total_seconds()) if duration else 0


@app.command("list")
def list_schedules(as_json: JsonOption = False, store: StoreOption = None) -> None:
    """List schedules, by name."""

    async def work(project: Project) -> None:
        found = await project.timetable.browse()
        if as_json:
            print_json([schedule_data(schedule, last) for schedule, last in found])
        else:
            show_schedules(found, project.clock.time_ns() // 1000)

    in_project(store, work)


@app.command()
def show(schedule: ScheduleArgument, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Show a schedule, its next times and what came of the last one."""

    async def work(project: Project) -> None:
        await _show(project, await project.timetable.get(schedule), as_json)

    in_project(store, work)


async def _show(project: Project, schedule: Schedule, as_json: bool) -> None:
    last = await project.schedules.ticks(schedule.id, limit=1)
    if as_json:
        print_json(schedule_data(schedule, last[0] if last else None))
    else:
        typer.echo("\n".join(schedule_lines(schedule, last[0] if last else None)))


@app.command()
def pause(
    schedule: ScheduleArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why.")] = "",
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Let a schedule fire no more until it is resumed."""

    async def work(project: Project) -> None:
        _tell(await project.timetable.pause(schedule, reason), as_json)

    in_project(store, work)


@app.command()
def resume(schedule: ScheduleArgument, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Let a paused schedule fire again, from its next due time on."""

    async def work(project: Project) -> None:
        _tell(await project.timetable.resume(schedule), as_json)

    in_project(store, work)


def _tell(schedule: Schedule, as_json: bool) -> None:
    data = schedule_data(schedule, None)
    if as_json:
        print_json(data)
    else:
        due = f"; next at {data['next_at']}" if data["next_at"] else ""
        typer.echo(f"schedule {printable(schedule.name)} is {schedule.status}{due}")


@app.command()
def fire(schedule: ScheduleArgument, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Fire once, now, whatever overlap, cooldown and pause say. A poll fires without its check."""

    async def work(project: Project) -> None:
        tick = await project.timetable.fire(schedule)
        await project.serve()
        if as_json:
            print_json(tick_data(tick))
        else:
            typer.echo(tick.job_id)

    in_project(store, work)


@app.command()
def ticks(
    schedule: ScheduleArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many.")] = 30,
    before: Annotated[
        int, typer.Option("--before", min=0, metavar="TICK", help="The next page: older than this one.")
    ] = 0,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """List what came of a schedule's due times, the newest first. The last thousand are kept."""

    async def work(project: Project) -> None:
        known = await project.timetable.get(schedule)
        found = await project.schedules.ticks(known.id, before=before, limit=limit)
        if as_json:
            print_json([tick_data(tick) for tick in found])
        else:
            show_ticks(found)

    in_project(store, work)


@app.command()
def remove(schedule: ScheduleArgument, store: StoreOption = None) -> None:
    """Forget a schedule and its ticks. Its jobs stay."""

    async def work(project: Project) -> None:
        await project.timetable.remove(schedule)

    in_project(store, work)
    typer.echo(f"removed {printable(schedule)}")
