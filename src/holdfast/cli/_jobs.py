"""`holdfast jobs`, `status`, `output`, `logs`, `wait`: looking at jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from holdfast.cli._help import JsonOption, StoreOption, examples
from holdfast.cli._job_views import (
    exit_code,
    job_data,
    outcome_lines,
    print_json,
    show_jobs,
    step_data,
    step_lines,
    step_tree,
)
from holdfast.cli._project import Project, in_project
from holdfast.cli._terminal import console, iso_time, on_terminal, parse_labels, printable
from holdfast.cli._watch import echo_log
from holdfast.cli._watch import follow as follow_job
from holdfast.clock import check_seconds
from holdfast.errors import ConfigurationError, UsageError
from holdfast.ports import JobQuery, JobStatus
from holdfast.service import is_settled

if TYPE_CHECKING:
    from holdfast.ports import Job, LogLine, StepInfo

JOBS_EPILOG = examples(
    "holdfast jobs", "holdfast jobs --status failed --label team=web --json", "holdfast jobs --search deploy"
)
STATUS_EPILOG = examples("holdfast status 1f9c02ab", "holdfast status 1f9c02ab --json")
OUTPUT_EPILOG = examples("holdfast output 1f9c02ab", "holdfast output 1f9c02ab --step plan")
LOGS_EPILOG = examples("holdfast logs 1f9c02ab", "holdfast logs 1f9c02ab -f --step build")
WAIT_EPILOG = examples("holdfast wait 1f9c02ab", "holdfast wait 1f9c02ab 77ab0012 --any")
NOT_YET = 5


def _complete_job(incomplete: str) -> list[str]:
    """Ids of recent jobs, for shells."""
    try:
        jobs = in_project(None, lambda project: project.service.browse(JobQuery(limit=50)))
    except ConfigurationError:
        return []
    return [job.id for job in jobs if job.id.startswith(incomplete)]


JobArgument: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="JOB", help="A job's id, or enough of its beginning or end.", autocompletion=_complete_job),
]
JobsArgument: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="JOB...", help="Ids, or enough of each.", autocompletion=_complete_job)
]


def jobs(
    statuses: Annotated[
        list[JobStatus] | None, typer.Option("--status", "-s", help="Only those. May be repeated.")
    ] = None,
    flow: Annotated[str, typer.Option("--flow", metavar="NAME", help="Only jobs of this flow.")] = "",
    labels: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="Only with this label.")
    ] = None,
    search: Annotated[str, typer.Option("--search", metavar="TEXT", help="In id, flow, name and reason.")] = "",
    archived: Annotated[bool, typer.Option("--archived", help="The archived ones instead.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many.")] = 30,
    before: Annotated[str, typer.Option("--before", metavar="JOB", help="The next page: older than this one.")] = "",
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """List jobs, the newest first."""

    async def work(project: Project) -> list[Job]:
        query = JobQuery(
            statuses=tuple(statuses or ()),
            flow=flow,
            labels=parse_labels(labels or []),
            text=search,
            archived=archived,
            before=await project.service.resolve(before) if before else "",
            limit=limit,
        )
        await project.lose_dead()  # what a killed worker had is not running
        found = await project.service.browse(query)
        if not as_json:
            show_jobs(found, project.clock.time_ns() // 1000)
        return found

    found = in_project(store, work)
    if as_json:
        print_json([job_data(job) for job in found])


def status(job: JobArgument, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Show a job, its steps and its history. Exits with 0 whatever its status: `wait` and `run` tell by theirs."""

    async def work(project: Project) -> None:
        await project.lose_dead()  # what a killed worker had is not running
        found = await project.find(job)
        steps = await project.runner.steps(found)
        if as_json:
            history = [
                {"from": change.source, "to": change.target, "at": iso_time(change.at_us), "reason": change.reason,
                 "by": change.by}
                for change in await project.service.history(found.id)
            ]  # fmt: skip
            print_json(job_data(found) | {"steps": [step_data(step) for step in steps], "history": history})
        else:
            _show_status(found, steps, project.clock.time_ns() // 1000)

    in_project(store, work)


def _show_status(job: Job, steps: Sequence[StepInfo], now_us: int) -> None:
    if on_terminal():
        console().print(step_tree(job, steps, now_us))
    for line in outcome_lines(job):
        typer.echo(line)
    if not on_terminal():
        for line in step_lines(steps):
            typer.echo(line)


def output(
    job: JobArgument,
    step: Annotated[str, typer.Option("--step", metavar="STEP", help="The outputs of this step instead.")] = "",
    store: StoreOption = None,
) -> None:
    """Print the outputs of a job, or of one of its steps, as JSON. Exits with 5 if there are none yet, 1 if there will be none."""

    async def work(project: Project) -> int:
        found = await project.find(job)
        if step:
            return _print_step(found, step, await project.runner.steps(found))
        if found.outputs is not None:
            print_json(job_data(found)["outputs"])
            return 0
        typer.echo("\n".join(outcome_lines(found)), err=True)
        return exit_code(found) or NOT_YET

    raise typer.Exit(in_project(store, work))


def _print_step(job: Job, name: str, steps: Sequence[StepInfo]) -> int:
    _check_step(job, name, steps)
    found = {step.path: step for step in steps}
    if found[name].status == "completed":
        print_json(found[name].outputs)
        return 0
    typer.echo(f"step {name} is {found[name].status}: {printable(found[name].reason)}".rstrip(": "), err=True)
    return 1 if found[name].status in ("failed", "skipped", "cancelled") else NOT_YET


def _check_step(job: Job, name: str, steps: Sequence[StepInfo]) -> None:
    known = [step.path for step in steps]
    if name not in known:
        raise UsageError(f"job {job.id} has no step {name!r}; it has: {', '.join(known) or 'none'}")


def logs(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job ends, waits or is paused.")
    ] = False,
    step: Annotated[
        str, typer.Option("--step", metavar="STEP", help="Only of this step, and of those inside it.")
    ] = "",
    store: StoreOption = None,
) -> None:
    """Print what a job's steps wrote: the step, the channel, the text."""

    async def work(project: Project) -> None:
        found = await project.find(job)
        if step:
            _check_step(
                found, step.partition("/")[0], await project.runner.steps(found)
            )  # what is inside it may come yet
        lines = project.logs.follow(found.id)

        def show(_job: object, _steps: object, new: Sequence[LogLine]) -> None:
            echo_log([line for line in new if not step or (line.step + "/").startswith(step + "/")])

        if follow:
            await project.warn_if_unserved([found])
            await follow_job(project, found, show)
        else:
            show(None, None, [*lines.new()])

    in_project(store, work)


def wait(
    jobs: JobsArgument,
    any_of_them: Annotated[bool, typer.Option("--any", help="Return when the first of them is over.")] = False,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Return when all are over: what is done without a flag.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="Give up after so long; 0: never.")
    ] = 0.0,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Wait until jobs have ended, wait for somebody, or are paused.

    Exits with the worst of their codes: 1 failed, 4 cancelled, 5 waiting or paused or not over in time, 0 when all completed.
    """
    if any_of_them and all_of_them:
        raise UsageError("--any and --all exclude one another; choose one")
    check_seconds(timeout=timeout)

    async def work(project: Project) -> list[Job]:
        meant = [await project.find(job) for job in jobs]
        await project.warn_if_unserved(meant)
        ids = [job.id for job in meant]
        enough = any if any_of_them else all
        return await _until(project, ids, lambda found: enough(map(is_settled, found)), timeout)

    found = in_project(store, work)
    over = [job for job in found if is_settled(job)]
    if as_json:
        print_json([job_data(job) for job in found])
    else:
        for job in over:
            typer.echo("\n".join(outcome_lines(job)))
    counted = over if any_of_them and over else found
    raise typer.Exit(_worst([exit_code(job) if is_settled(job) else NOT_YET for job in counted]))


async def _until(
    project: Project, ids: list[str], enough: Callable[[Sequence[Job]], bool], timeout: float
) -> list[Job]:
    """The jobs when it is enough, or when the time is up."""
    try:
        async with asyncio.timeout(timeout or None):
            return await project.service.until(ids, enough)
    except TimeoutError:
        return [await project.service.get(job_id) for job_id in ids]


def _worst(codes: list[int]) -> int:
    return next((code for code in (1, 4, 5) if code in codes), 0)
