"""Entry point: options that every command has, and how errors leave the program."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

import holdfast
from holdfast.cli import (
    _agents,
    _ask,
    _cache,
    _checkpoint,
    _config,
    _doctor,
    _events,
    _flowfiles,
    _gc,
    _hooks,
    _jobs,
    _new,
    _resources,
    _run,
    _schedules,
    _serve,
    _token,
    _worker,
)
from holdfast.cli._terminal import Unwritten, printable, tell
from holdfast.errors import ConfigurationError, FlowFileError, HoldfastError, RunCancelledError, UsageError

app = typer.Typer(
    name="holdfast",
    help="Run agent workflows that survive crashes, stay apart, and leave nothing behind.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init", epilog=_new.INIT_EPILOG)(_new.init)
app.command("new", epilog=_new.NEW_EPILOG)(_new.new)
app.command("config", epilog=_config.EPILOG)(_config.config)
app.command("run", epilog=_run.EPILOG)(_run.run)
app.command("jobs", epilog=_jobs.JOBS_EPILOG)(_jobs.jobs)
app.command("status", epilog=_jobs.STATUS_EPILOG)(_jobs.status)
app.command("logs", epilog=_jobs.LOGS_EPILOG)(_jobs.logs)
app.command("output", epilog=_jobs.OUTPUT_EPILOG)(_jobs.output)
app.command("wait", epilog=_jobs.WAIT_EPILOG)(_jobs.wait)
app.command("answer", epilog=_ask.ANSWER_EPILOG)(_ask.answer)
app.command("approve")(_ask.approve)
app.command("pause")(_ask.pause)
app.command("resume")(_ask.resume)
app.command("cancel")(_ask.cancel)
app.command("retry")(_ask.retry)
app.command("rerun", epilog=_ask.RERUN_EPILOG)(_ask.rerun)
app.command("archive")(_ask.archive)
app.command("delete")(_ask.delete)
app.command("worker", epilog=_worker.EPILOG)(_worker.worker)
app.command("serve", epilog=_serve.EPILOG)(_serve.serve)
app.add_typer(_schedules.app, name="schedule")
app.add_typer(_token.app, name="token")
app.add_typer(_hooks.app, name="hooks")
app.command("doctor")(_doctor.doctor)
app.add_typer(_cache.app, name="cache")
app.add_typer(_agents.app, name="agents")
app.add_typer(_checkpoint.app, name="checkpoint")
app.command("gc", epilog=_gc.EPILOG)(_gc.gc)
app.command("events")(_events.events)
app.add_typer(_resources.app, name="resources")
app.command("validate", epilog=_flowfiles.VALIDATE_EPILOG)(_flowfiles.validate)
app.command("graph", epilog=_flowfiles.GRAPH_EPILOG)(_flowfiles.graph)
app.command("schema", epilog=_flowfiles.SCHEMA_EPILOG)(_flowfiles.schema)

EXIT_CODES: dict[type[HoldfastError], int] = {UsageError: 2, ConfigurationError: 3, RunCancelledError: 4}
"""The rest is 1."""
USAGE_ERROR: Any = typer.BadParameter.__bases__[0]  # typer brings its own click, and does not export this one


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    if debug:
        os.environ["HOLDFAST_DEBUG"] = "1"


def main() -> None:
    """Run the command line.

    Exit codes: 0 ok, 1 failed, 2 usage, 3 configuration, 4 cancelled, 5 waiting or paused, 130 interrupted.
    """
    code: Any
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what an encoding lacks must not end a command
    try:
        code = app(standalone_mode=False)
    except USAGE_ERROR as error:
        with suppress(OSError):  # nobody is left to be told
            error.show()
        code = error.exit_code
    except HoldfastError as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        code = _complain(error)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except OSError as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        code = _complain(_refused(error))
    except Exception as error:  # a mistake of ours: say so in a line, and where to see more
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        code = _complain(
            HoldfastError(f"this should not have happened: {type(error).__name__}: {error}; --debug shows where")
        )
    except SystemExit as leaving:
        code = leaving.code
    sys.exit(_after_output(code))


def _open_closed() -> None:
    """Have somewhere for output to go that was closed (`>&-`); else the next file to be opened would get its number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the end


def _after_output(code: Any) -> Any:
    """The exit code in view of what became of the output: a failure to write it is one of the command."""
    if isinstance(sys.stdout, Unwritten):
        failed = _complain(_refused(sys.stdout.error))
        return code or failed
    return 0 if _reader_left() else code


def _reader_left() -> bool:
    """Whether whoever read our output has left, as `head` does: typer then puts a muffler on it, and says 1."""
    return type(sys.stdout).__name__ == "PacifyFlushWrapper"


def _refused(error: OSError) -> HoldfastError:
    """What the system refused: a full disk, a folder without permissions."""
    where = f"{error.filename}: " if error.filename else ""
    return HoldfastError(f"{where}{error.strerror or error}; see to it, or find out more with --debug")


def _complain(error: HoldfastError) -> int:
    lines = str(error).splitlines() if isinstance(error, FlowFileError) else [str(error)]
    message = "\n".join(map(printable, lines))
    told = f"holdfast: {message}"
    tell(typer.style(told, fg=typer.colors.RED) if sys.stderr.isatty() else told)
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)
