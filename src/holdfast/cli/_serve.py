"""`holdfast serve`: the API, the page and a worker, in one process."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli._help import StoreOption, examples
from holdfast.cli._project import Project, in_project
from holdfast.errors import ConfigurationError
from holdfast.server import LOCAL_HOSTS, Settings, Tokens
from holdfast.service import Tuning, Worker, with_flags

if TYPE_CHECKING:
    from holdfast.ports import Ledger
    from holdfast.server import App, Binding

EPILOG = examples(
    "holdfast serve",
    "holdfast serve --port 9000 --places 4",
    "holdfast serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --allow-host jobs.example.org",
)
PORT = 8180


def serve(
    host: Annotated[str, typer.Option("--host", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="On which port; 0 takes a free one.")] = PORT,
    allowed_hosts: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="NAME", help="A name the server may be called by.")
    ] = None,
    allowed_origins: Annotated[
        list[str] | None, typer.Option("--allow-origin", metavar="ORIGIN", help="Another page's origin that may call.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="For TLS.")] = None,
    key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="For TLS.")] = None,
    public_without_tls: Annotated[
        bool, typer.Option("--public-without-tls", help="Listen for other machines in the clear, behind a proxy.")
    ] = False,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Leave the queue to other processes.")] = False,
    places: Annotated[
        int | None, typer.Option("--places", min=1, metavar="N", help="Run so many jobs at once.")
    ] = None,
    caps: Annotated[list[str] | None, typer.Option("--cap", metavar="USE=N", help="As for `worker`.")] = None,
    traces: Annotated[
        bool, typer.Option("--traces", help="Tell OpenTelemetry of runs; see `opentelemetry-instrument`.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Serve the API and the queue until Ctrl-C.

    Whoever calls needs a token: one is made on the first start, and shown once, as a link. Ctrl-C lets calls end and puts running
    jobs back into the queue, to be taken up where they were.
    """
    try:
        from holdfast.server import Binding, trace_runs
    except ImportError as error:
        raise ConfigurationError("the server is not installed: pip install 'holdfast[server]'") from error
    binding = Binding(
        host="127.0.0.1" if host == "localhost" else host, port=port, certificate=certificate, key=key,
        public_without_tls=public_without_tls,
    )  # fmt: skip
    binding.check()
    hosts = (*LOCAL_HOSTS, *(f"[{one}]" if ":" in one else one for one in (host, *(allowed_hosts or ()))))
    settings = Settings(hosts=tuple(name.lower() for name in hosts), origins=tuple(allowed_origins or ()))

    async def work(project: Project) -> None:
        options = with_flags(project.settings(), places, caps or [])
        worker = None
        if not no_worker:
            worker = Worker(project.jobs, project.runner, project.table, options=options, logs=project.logs)
        if traces:
            trace_runs(project.runtime.event_bus)
        async with project.ticker(worker.wake).ticking() if worker is not None else nullcontext():
            await _serve(project, binding, settings, worker)

    in_project(store, work, make=True)


async def _serve(project: Project, binding: Binding, settings: Settings, worker: Worker | None) -> None:
    from holdfast.server import Serving, stopping_on_signals
    from holdfast.stores import SqliteLedger

    tokens = tokens_of(project)
    listening = binding.listen()
    where, port = listening.getsockname()[:2]
    shown = f"{binding.scheme}://{f'[{where}]' if ':' in where else where}:{port}"
    async with SqliteLedger(project.store.path) as ledger:
        serving = Serving(app_of(project, settings, worker, ledger), binding, worker)
        with stopping_on_signals(serving.stop):
            async with project.deliverer(), project.tidying():
                await serving.serve(listening, started=lambda: _greet(shown, tokens, project))


def app_of(project: Project, settings: Settings, worker: Worker | None, ledger: Ledger) -> App:
    """The API of a project."""
    from holdfast.server import Queue, create_app

    queue = Queue(
        jobs=project.jobs, runner=project.runner, logs=project.logs, outbox=project.outbox, hooks=project.hooks,
        wake=worker.wake if worker is not None else lambda: None, schedules=project.schedules,
        tuning=Tuning(project.home, worker),
    )  # fmt: skip
    return create_app(
        project.runtime,
        tokens=tokens_of(project),
        settings=settings,
        queue=queue,
        project=project.folder,
        ledger=ledger,
    )


def tokens_of(project: Project) -> Tokens:
    """Where the project keeps its tokens."""
    return Tokens(project.home / "tokens.json")


def _greet(shown: str, tokens: Tokens, project: Project) -> None:
    """Say where the server is; on the first start with the way in."""
    if tokens.all():
        typer.echo(f"serving on {shown}; `holdfast token new NAME` makes a token")
    else:
        token = tokens.make("first", "admin", now_us=project.clock.time_ns() // 1000)
        typer.echo(f"serving on {shown}; this link lets you in, and is not shown again:\n{shown}/#token={token}")
