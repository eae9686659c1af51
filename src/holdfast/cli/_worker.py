"""`holdfast worker`: serve the queue."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer
from msgspec.structs import replace

from holdfast.cli._help import StoreOption, examples
from holdfast.cli._project import Project, in_project
from holdfast.service import Worker, WorkerOptions, following, with_flags

EPILOG = examples("holdfast worker", "holdfast worker --places 4 --cap agent:claude=1 --cap flow:deploy=1")


def worker(
    places: Annotated[
        int | None, typer.Option("--places", min=1, metavar="N", help="Run so many jobs at once.")
    ] = None,
    caps: Annotated[
        list[str] | None,
        typer.Option("--cap", metavar="USE=N", help="A cap: total=N, flow:NAME=N, executor:NAME=N, agent:NAME=N."),
    ] = None,
    idle_seconds: Annotated[
        float | None, typer.Option("--idle-seconds", min=0, metavar="SECONDS", help="Leave after so long without work.")
    ] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Leave at once if another worker serves the queue.")] = False,
    store: StoreOption = None,
) -> None:
    """Serve the queue until told to leave.

    SIGTERM and Ctrl-C make it leave: what its jobs hold is released, and the jobs go back to the queue, to be taken up where they
    were. If it is killed, the next worker does the same for it.
    """

    async def work(project: Project) -> bool:
        def options() -> WorkerOptions:
            told = with_flags(project.settings(), places, caps or [])
            return replace(told, idle_seconds=idle_seconds, alone=alone)

        deliverer = project.deliverer()
        serving = Worker(
            project.jobs,
            project.runner,
            project.table,
            options=options(),
            logs=project.logs,
            lingers=deliverer.has_work,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, serving.stop)
        typer.echo(f"worker {serving.id} serves {project.store.path}", err=True)
        ticking, tidying = project.ticker(serving.wake).ticking(), project.tidying()
        async with deliverer, ticking, tidying, following(serving, project.home, options):
            return await serving.serve()

    if not in_project(store, work, make=True):
        typer.echo("another worker serves the queue", err=True)
