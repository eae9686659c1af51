"""`holdfast run`: submit a flow, and run it here unless somebody else does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import typer
from msgspec.structs import replace

from holdfast.cli._help import StoreOption, examples
from holdfast.cli._job_views import exit_code, job_data, outcome_lines, print_json, short
from holdfast.cli._project import Project, in_project
from holdfast.cli._terminal import may_go_unseen, parse_labels, tell
from holdfast.cli._watch import watch
from holdfast.errors import UsageError
from holdfast.home import find_home
from holdfast.ports import JobStatus
from holdfast.service import Submission, Worker, WorkerOptions, is_settled

if TYPE_CHECKING:
    from holdfast.flowfiles import FlowFile
    from holdfast.ports import Job

EPILOG = examples(
    "holdfast run hello",
    "holdfast run review.flow.yaml --input branch=main --wait",
    "holdfast run deploy --needs-approval --async",
)


def complete_flow(incomplete: str) -> list[str]:
    """Names of the flows here and in the project, for shells."""
    home = find_home()
    places = [Path(), Path("flows"), *([home.parent / "flows"] if home else [])]
    files = [file for place in places for file in (*place.glob("*.flow.yaml"), *place.glob("*/FLOW.yaml"))]
    names = {file.parent.name if file.name == "FLOW.yaml" else file.name.removesuffix(".flow.yaml") for file in files}
    return sorted(name for name in names if name.startswith(incomplete))


FlowArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="FLOW",
        help="A file, a directory with FLOW.yaml, a name, or kit/flow.",
        autocompletion=complete_flow,
    ),
]
INTERRUPTED, TERMINATED = 130, 143
See: TypeAlias = "Callable[[Project, Job], Coroutine[Any, Any, Job]]"
"""Follows a job until it has ended, waits or is paused."""


def run(
    flow: FlowArgument,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input; @file takes a file's text."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Print nothing but one JSON object, when it is over.")] = False,
    watched: Annotated[
        bool, typer.Option("--watch", help="Show it live. This is what is done without any flag.")
    ] = False,
    detached: Annotated[bool, typer.Option("--async", help="Leave it to a worker; print the job's id.")] = False,
    needs_approval: Annotated[bool, typer.Option("--needs-approval", help="Queue it once it is approved.")] = False,
    name: Annotated[str, typer.Option("--name", help="A name for this job.")] = "",
    labels: Annotated[list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A label.")] = None,
    priority: Annotated[int, typer.Option("--priority", help="Higher ones go first.")] = 0,
    after: Annotated[
        list[str] | None, typer.Option("--after", metavar="JOB", help="Run once this job completed.")
    ] = None,
    webhook: Annotated[
        str, typer.Option("--webhook", metavar="URL", help="An address to be told what happens to it.")
    ] = "",
    store: StoreOption = None,
) -> None:
    """Run a flow as a job. It survives this process: `holdfast worker` goes on with it if this one is killed.

    Exits with 0 when it completed, 1 when it failed, 4 when it was cancelled, 5 when it waits, is paused or needs approval.
    """
    if wait + watched + detached > 1:
        raise UsageError("--wait, --watch and --async exclude one another; choose one")
    wanted = Wanted(
        flow, inputs or [], name, parse_labels(labels or []), priority, after or [], needs_approval, webhook
    )
    wanted.load()  # before a project is made for it
    how = _leave if detached else _wait if wait else _watch
    raise typer.Exit(in_project(store, lambda project: how(project, wanted), make=True))


class Wanted:
    """What the command line asks for."""

    def __init__(
        self,
        flow: str,
        inputs: list[str],
        name: str,
        labels: dict[str, str],
        priority: int,
        after: list[str],
        approval: bool,
        webhook: str = "",
    ) -> None:
        self.flow, self.inputs, self.name, self.labels = flow, inputs, name, labels
        self.priority, self.after, self.needs_approval = priority, after, approval
        self.webhook = webhook

    def load(self) -> None:
        """Read the flow, and see that nothing is missing. Raises FlowFileError or UsageError."""
        from holdfast.flowfiles import load_flow, parse_assignments, resolve_variables

        self.loaded = load_flow(self.flow)
        self.values = resolve_variables(self.loaded, parse_assignments(self.inputs)).values

    async def submit(self, project: Project) -> Job:
        from holdfast.jobs import define

        if self.webhook:
            from holdfast.hooks import check_webhook

            check_webhook(self.webhook, project.hooks)
        loaded = self.loaded
        needs = [await project.service.resolve(typed) for typed in self.after]
        submission = Submission(
            flow=loaded.name,
            definition=define(loaded, project.folder),
            inputs=self.values,
            name=self.name,
            labels=self.labels,
            priority=self.priority,
            uses=_uses(loaded),
            needs=tuple(needs),
            needs_approval=self.needs_approval,
            webhook=self.webhook,
        )
        (job,) = await project.service.submit(submission)
        return job


def _uses(flow: FlowFile) -> tuple[str, ...]:
    from holdfast.jobs import uses_of

    return tuple(use for use in uses_of(flow) if use != f"flow:{flow.name}")


# -- three ways to go on -------------------------------------------------------------------------------------------


async def _leave(project: Project, wanted: Wanted) -> int:
    job = await wanted.submit(project)
    if not wanted.needs_approval or project.jobs.has_told:
        await project.serve()
    typer.echo(job.id)
    return 0


async def _wait(project: Project, wanted: Wanted) -> int:
    options = project.settings()
    job = await wanted.submit(project)
    job, code = await attend(project, job, options, settled)
    with may_go_unseen():  # the exit code says how it ended
        print_json(job_data(job))
    return code


async def _watch(project: Project, wanted: Wanted) -> int:
    options = project.settings()
    job = await wanted.submit(project)
    tell(f"job {job.id}")
    job, code = await attend(project, job, options, watch)
    show_outcome(job)
    return code


async def settled(project: Project, job: Job) -> Job:
    """The job once it has ended, waits or is paused."""
    return (await project.service.until([job.id], lambda found: is_settled(found[0])))[0]


async def attend(project: Project, job: Job, options: WorkerOptions, see: See) -> tuple[Job, int]:
    """Run a job in this process, as far as nobody else does, until it is seen to be over. Returns it and the exit code.

    Ctrl-C cancels the job; a second one, and SIGTERM, leave it to the next worker.
    """
    mine = replace(options, only=(job.id,))
    worker = Worker(project.jobs, project.runner, project.table, options=mine, logs=project.logs)
    serving, seen = asyncio.create_task(worker.serve()), asyncio.create_task(see(project, job))
    signals = Signals(project, job, seen)
    try:
        with signals:
            await asyncio.wait({seen, serving}, return_when=asyncio.FIRST_COMPLETED)
            if not seen.done():
                await serving  # it never ends by itself: this raises what broke it
    finally:
        worker.stop()
        seen.cancel()
        await asyncio.wait({serving, seen})
        for task in (serving, seen):  # what broke one may have broken both: it is told once
            if not task.cancelled():
                task.exception()
    job = await project.service.get(job.id) if seen.cancelled() else seen.result()
    if project.jobs.has_told:
        await project.serve()  # who delivers what hooks are to be told
    return job, signals.exit_code or exit_code(job)


class Signals:
    """What Ctrl-C and SIGTERM do while a job is attended to."""

    def __init__(self, project: Project, job: Job, seen: asyncio.Task[Job]) -> None:
        self._project, self._job, self._seen = project, job, seen
        self._loop = asyncio.get_running_loop()
        self._cancelling: asyncio.Task[Job] | None = None
        self.exit_code = 0

    def __enter__(self) -> Self:
        self._loop.add_signal_handler(signal.SIGINT, self._interrupt)
        self._loop.add_signal_handler(signal.SIGTERM, self._leave, TERMINATED)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_signal_handler(signal.SIGINT)
        self._loop.remove_signal_handler(signal.SIGTERM)

    def _interrupt(self) -> None:
        if self._cancelling is not None:
            self._leave(INTERRUPTED)
            return
        self.exit_code = INTERRUPTED
        tell(f"cancelling job {short(self._job.id)}; once more leaves it to a worker")
        self._cancelling = asyncio.create_task(self._project.service.cancel(self._job.id, "interrupted"))
        self._cancelling.add_done_callback(self._complain)

    def _complain(self, cancelling: asyncio.Task[Job]) -> None:
        if not cancelling.cancelled() and (error := cancelling.exception()) is not None:
            tell(f"holdfast: {error}")

    def _leave(self, code: int) -> None:
        self.exit_code = code
        self._seen.cancel()


def show_outcome(job: Job) -> None:
    """What became of a job for people; its outputs alone on stdout."""
    for line in outcome_lines(job):
        tell(line)
    if job.status is JobStatus.QUEUED:
        tell("  holdfast worker    goes on with it")
    if job.outputs is not None:
        with may_go_unseen():
            print_json(job_data(job)["outputs"])
