"""`holdfast cache`: results that steps with `cache` use again."""

from __future__ import annotations

from pathlib import Path

import typer

from holdfast.cli._help import JsonOption, examples
from holdfast.cli._terminal import echo_json, show_size
from holdfast.errors import ConfigurationError
from holdfast.home import find_home

app = typer.Typer(
    help="Results of steps that say `cache`: how many there are, and forgetting them.",
    epilog=examples("holdfast cache", "holdfast cache clear"),
)


@app.callback(invoke_without_command=True)
def cache(context: typer.Context, as_json: JsonOption = False) -> None:
    """Say how many results are kept, and how much room they take."""
    if context.invoked_subcommand is not None:
        return
    folder = _folder()
    files = [path for path in folder.glob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    if as_json:
        echo_json({"folder": str(folder), "results": len(files), "size": size})
    else:
        typer.echo(f"{len(files)} results, {show_size(size)}, in {folder}")


@app.command()
def clear() -> None:
    """Forget all of them: steps run again."""
    from holdfast.jobs._cache import ResultCache

    typer.echo(f"forgot {ResultCache(_folder()).clear()} results")


def _folder() -> Path:
    home = find_home()
    if home is None:
        raise ConfigurationError(
            "there is no .holdfast/ here or in a folder above: go into the project, or `holdfast init`"
        )
    return home / "cache"
