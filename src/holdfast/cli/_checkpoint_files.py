"""`holdfast checkpoint export` and `import`: checkpoints as files that stand by themselves."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import typer

from holdfast.checkpoints import export_checkpoint, find, import_checkpoint
from holdfast.checkpoints._files import read_file, write_file
from holdfast.cli._checkpoint_data import mark_data, program_of
from holdfast.cli._outcome import Outcome
from holdfast.cli._terminal import printable, show_size
from holdfast.errors import UsageError
from holdfast.ports import JournalStore, Mark, RunInfo

STDIO = "-"


def export_to(store: JournalStore, checkpoint: str, file: str) -> Outcome:
    """Write a checkpoint to a file that only its owner can read, whole or not at all; `-` is stdout."""
    found = asyncio.run(find(store, checkpoint))
    if file != STDIO:
        path = _regular(Path(file))
        document = asyncio.run(export_checkpoint(store, found.id))
        write_file(path, document)
        told = f"wrote {printable(str(path))}, {show_size(len(document))}"
        return Outcome({"id": found.id, "file": str(path), "size": len(document)}, [told])
    typer.echo(asyncio.run(export_checkpoint(store, found.id)), nl=False)
    return Outcome({}, [])


def _regular(path: Path) -> Path:
    """Where a link leads. Raises UsageError for what a file must not take the place of."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file; name one, or write - for stdout")
    return path


def import_from(store: JournalStore, file: str, branch: str | None) -> Outcome:
    """Put the checkpoint that a file holds into the store; `-` is stdin."""
    document = sys.stdin.buffer.read() if file == STDIO else read_file(Path(file))
    mark = asyncio.run(import_checkpoint(store, document, now_us=time.time_ns() // 1000, branch=branch))
    info = asyncio.run(store.run(mark.root_run_id))
    told = f"checkpoint {printable(mark.id)} of run {printable(mark.root_run_id)}, branch {printable(mark.branch)}"
    return Outcome(mark_data(mark), [told] if info is None else [told, _next(mark, info)])


def _next(mark: Mark, run: RunInfo) -> str:
    """What can be done with a checkpoint that was imported: a run that has ended is only forked."""
    if run.status in ("completed", "cancelled"):
        return (
            f"its run is {run.status}; branch off from it: holdfast checkpoint fork {printable(mark.id)} --branch NAME"
        )
    return f"go on with it: holdfast checkpoint resume {printable(mark.id)} --flow {printable(program_of(run))}"
