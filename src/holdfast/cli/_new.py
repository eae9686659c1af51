"""`holdfast init` and `holdfast new`: a project, and a flow to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli._help import examples
from holdfast.errors import ConfigurationError, UsageError
from holdfast.home import FOLDER, VARIABLE, find_home, make_home

INIT_EPILOG = examples("holdfast init", "holdfast init ../site")
NEW_EPILOG = examples("holdfast new review", "holdfast new review --directory")

SETTINGS = """\
# How this project serves its jobs. Environment variables and flags win over this file.

[worker]
# places = 8            # jobs that one worker runs at once (HOLDFAST_WORKER_PLACES)
# output_bytes = 5242880  # what the outputs of one step may be; larger things belong in files (HOLDFAST_OUTPUT_BYTES)

[caps]
# total = 16            # jobs that run at once, whoever runs them (HOLDFAST_CAPS_TOTAL)

# [caps.flow]
# deploy = 1            # jobs of one flow

# [caps.executor]
# agent = 4             # jobs that use an executor

# [caps.agent]
# claude = 2            # jobs that use an agent
"""

FLOW = """\
name: NAME
description: Greets somebody, in capitals.

inputs:
  who: {type: str, default: world, description: Whom to greet}

steps:
  # Inputs are environment variables. A JSON object on stdout is the outputs; stderr is the log.
  greet:
    inputs: {who: $job.who}
    outputs: [greeting]
    run: |
      printf '{"greeting": "hello %s"}' "$who"

  shout:
    inputs: {greeting: greet.greeting}
    outputs: [loud]
    run: SHOUT
"""
INLINE = """\
|
      echo "shouting: $greeting" >&2
      printf '{"loud": "%s"}' "$(printf %s "$greeting" | tr '[:lower:]' '[:upper:]')"\
"""
SCRIPT = """\
#!/bin/sh
echo "shouting: $greeting" >&2
printf '{"loud": "%s"}' "$(printf %s "$greeting" | tr '[:lower:]' '[:upper:]')"
"""


def init(folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where; else here.")] = Path()) -> None:
    """Make a project: the folder `.holdfast/`, with `holdfast.toml` for its settings in it. What is there is left as it is."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; make it first")
    home = make_home(folder)
    settings = home / "holdfast.toml"
    if not settings.exists():
        _write(settings, SETTINGS)
    typer.echo(f"{home} is ready; `holdfast new NAME` makes a flow, `holdfast run NAME` runs it")


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")],
    directory: Annotated[bool, typer.Option("--directory", help="A directory with FLOW.yaml and scripts.")] = False,
) -> None:
    """Make a flow to begin with, in the folder `flows` of the project."""
    from holdfast.flowfiles._format import NAME

    if expected := NAME.missed_by(name):
        raise UsageError(f"{name!r} is no name for a flow; it must be {expected}")
    home = find_home()
    if home is None:
        raise ConfigurationError(f"there is no {FOLDER}/ here or in a folder above: `holdfast init`, or set {VARIABLE}")
    flows = home.parent / "flows"
    made = flows / name / "FLOW.yaml" if directory else flows / f"{name}.flow.yaml"
    if made.exists():
        raise UsageError(f"{made} is there already; choose another name")
    if directory:
        _write(made.parent / "shout.sh", SCRIPT)
        (made.parent / "shout.sh").chmod(0o755)
    _write(made, FLOW.replace("NAME", name).replace("SHOUT", "shout.sh" if directory else INLINE))
    typer.echo(f"{made} is ready; `holdfast run {name}` runs it")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from error
