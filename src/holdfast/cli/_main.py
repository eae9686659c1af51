"""Entry point: options that every command has, and how errors leave the program."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

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
    """Run the command line. Exit codes: 0 ok, 1 failed, 2 usage, 130 interrupted."""
    code: Any
    try:
        code = app(standalone_mode=False)
    except USAGE_ERROR as error:
        error.show()
        code = error.exit_code
    except HoldfastError as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        code = _complain(str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except SystemExit as leaving:
        code = leaving.code
    sys.exit(0 if _reader_left() else code)


def _reader_left() -> bool:
    """Whether whoever read our output has left, as `head` does: typer then puts a muffler on it, and says 1."""
    return type(sys.stdout).__name__ == "PacifyFlushWrapper"


def _complain(message: str) -> int:
    typer.secho(f"holdfast: {message}", err=True, fg=typer.colors.RED if sys.stderr.isatty() else None)
    return 1
