"""`holdfast answer`, `pause`, `resume`, `cancel`, `retry`, `rerun`, `approve`, `archive`, `delete`: asking things of jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli._help import JsonOption, StoreOption, examples
from holdfast.cli._job_views import job_data, outcome_lines, print_json, short
from holdfast.cli._jobs import JobArgument, JobsArgument
from holdfast.cli._project import Project, in_project
from holdfast.errors import UsageError
from holdfast.ports import JobStatus

if TYPE_CHECKING:
    from holdfast.ports import Job

ANSWER_EPILOG = examples(
    "holdfast answer 1f9c02ab --output approved=yes",
    "holdfast answer 1f9c02ab --step review --output verdict=fix --output notes=@notes.md",
)
RERUN_EPILOG = examples("holdfast rerun 1f9c02ab --step build")


def _asked(store: str | None, as_json: bool, typed: str, ask: Callable[[Project, str], Awaitable[Job]]) -> None:
    """Ask something of a job, see that somebody serves it, and say how it stands."""

    async def work(project: Project) -> Job:
        job = await ask(project, await project.service.resolve(typed))
        if job.status is JobStatus.QUEUED or project.jobs.has_told:
            await project.serve()
        return job

    job = in_project(store, work)
    if as_json:
        print_json(job_data(job))
    else:
        typer.echo("\n".join([*outcome_lines(job), *_passed_on(job)]))


def _passed_on(job: Job) -> list[str]:
    """What is asked of a job that a worker has happens a little later."""
    if job.status is not JobStatus.RUNNING:
        return []
    return [f"  its worker is told; `holdfast wait {short(job.id)}` returns when it ends, waits or is paused"]


def answer(
    job: JobArgument,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", "-o", metavar="NAME=VALUE", help="A field; @file takes a file's text."),
    ] = None,
    step: Annotated[str, typer.Option("--step", metavar="STEP", help="Which step, if several wait.")] = "",
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Give a waiting step what it waits for. The same answer twice is fine."""
    from holdfast.flowfiles import parse_assignments
    from holdfast.service import give_answer

    values = parse_assignments(outputs or [])
    _asked(store, as_json, job, lambda project, job_id: give_answer(project.service, job_id, values, step))


def pause(
    job: JobArgument,
    reason: Annotated[str, typer.Option("--reason", help="For its history.")] = "",
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Start no more steps of a job; those at work finish."""
    _asked(store, as_json, job, lambda project, job_id: project.service.pause(job_id, reason))


def resume(job: JobArgument, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Go on with a job that is paused, or waits for a secret."""
    _asked(store, as_json, job, lambda project, job_id: project.service.resume(job_id))


def cancel(
    job: JobArgument,
    reason: Annotated[str, typer.Option("--reason", help="For its history.")] = "",
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """End a job. Whoever runs it releases everything it holds first; `holdfast wait` tells when."""
    _asked(store, as_json, job, lambda project, job_id: project.service.cancel(job_id, reason))


def retry(job: JobArgument, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Take up a failed job at the steps that failed."""
    _asked(store, as_json, job, lambda project, job_id: project.service.retry(job_id))


def rerun(
    job: JobArgument,
    step: Annotated[str, typer.Option("--step", metavar="STEP", help="The step to run again.")],
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Run a step of a job again, and what depends on it."""

    async def ask(project: Project, job_id: str) -> Job:
        job = await project.service.get(job_id)
        known = [info.path for info in await project.runner.steps(job)]
        if step not in known:
            raise UsageError(f"job {job_id} has no step {step!r}; it has: {', '.join(known)}")
        return await project.service.rerun(job_id, step)

    _asked(store, as_json, job, ask)


def approve(job: JobArgument, as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Let a job that needs approval into the queue."""
    _asked(store, as_json, job, lambda project, job_id: project.service.approve(job_id))


def archive(
    jobs: JobsArgument,
    undo: Annotated[bool, typer.Option("--undo", help="Bring them back into the list.")] = False,
    store: StoreOption = None,
) -> None:
    """Put ended jobs out of the list. Nothing of them is deleted."""

    async def work(project: Project) -> None:
        for typed in jobs:
            job_id = await project.service.resolve(typed)
            await (project.service.unarchive if undo else project.service.archive)(job_id)

    in_project(store, work)


def delete(jobs: JobsArgument, store: StoreOption = None) -> None:
    """Delete ended jobs with everything that is kept of them: journal, workspace, output."""

    async def work(project: Project) -> None:
        for typed in jobs:
            job = await project.find(typed)
            await project.service.delete(job.id)
            await project.forget(job.id)
            typer.echo(f"deleted {job.id}")

    in_project(store, work)
