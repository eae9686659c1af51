"""Entry point: options that every command has, and how errors leave the program."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import holdfast
from holdfast.cli import _events
from holdfast.errors import HoldfastError

app = typer.Typer(
    name="holdfast",
    help="Run agent workflows that survive crashes, stay apart, and leave nothing behind.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("events")(_events.events)


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
    """Run the command line. Exit codes: 0 ok, 1 failed, 2 usage, 130 interrupted."""
    try:
        app()
    except HoldfastError as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        sys.exit(_complain(str(error)))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output left: `holdfast events | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _complain(message: str) -> int:
    typer.secho(f"holdfast: {message}", err=True, fg=typer.colors.RED if sys.stderr.isatty() else None)
    return 1
