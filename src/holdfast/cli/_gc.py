"""`holdfast gc`: delete what is older or more than is to be kept."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli._help import DryRunOption, JsonOption, StoreOption, examples
from holdfast.cli._stores import open_store
from holdfast.stores import SqliteOutbox, SqliteStore

if TYPE_CHECKING:
    from holdfast.checkpoints import Collected

EPILOG = examples("holdfast gc --dry-run", "holdfast gc --max-age 30d --max-bytes 2GB", "holdfast gc --max-runs 1000")


def gc(
    max_age: Annotated[
        str, typer.Option("--max-age", metavar="AGE", help="Keep ended runs so long: 12h, 30d.")
    ] = "90d",
    max_runs: Annotated[int, typer.Option("--max-runs", min=0, metavar="N", help="Keep so many ended runs.")] = 10_000,
    max_bytes: Annotated[
        str, typer.Option("--max-bytes", metavar="SIZE", help="Let all runs take so much: 500MB, 10GB.")
    ] = "10GB",
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Delete runs and jobs that have ended and are over the bounds, with their journals, checkpoints and workspaces.

    Completed and cancelled ones go first, then failed ones, each the oldest first. A run that somebody holds, that is running,
    waiting or paused, stays whatever its age. What hooks were told goes too, after a few days.
    """
    from holdfast.checkpoints import RetentionPolicy, collect, plan_collection
    from holdfast.cli._terminal import echo_json, parse_duration, parse_size
    from holdfast.hooks import Rhythm, prune_outbox

    policy = RetentionPolicy(parse_duration(max_age), max_runs, parse_size(max_bytes))
    work = plan_collection if dry_run else collect
    with open_store(store) as opened:
        collected = asyncio.run(work(opened, policy, now_us=time.time_ns() // 1000))
        if not dry_run and isinstance(opened, SqliteStore):
            asyncio.run(prune_outbox(SqliteOutbox.beside(opened), Rhythm(), now_us=time.time_ns() // 1000))
            if collected.removed:
                _forget_jobs(store, [one.id for one in collected.removed])
    if as_json:
        echo_json(_data(collected) | {"dry_run": dry_run})
    else:
        typer.echo("\n".join(_lines(collected, "would delete" if dry_run else "deleted")))


def _forget_jobs(location: str | None, job_ids: list[str]) -> None:
    """Delete what is kept of those that were jobs beside their journals: their workspaces, their output."""
    from holdfast.cli._project import Project, in_project

    async def work(project: Project) -> None:
        for job_id in job_ids:
            await project.forget(job_id)

    in_project(location, work)


def _data(collected: Collected) -> dict[str, Any]:
    from holdfast.cli._terminal import iso_time

    removed = [
        {"kind": one.kind, "id": one.id, "name": one.name, "status": one.status, "updated": iso_time(one.updated_us),
         "size": one.size, "bound": one.bound}
        for one in collected.removed
    ]  # fmt: skip
    return {"removed": removed, "busy": list(collected.busy), "size": collected.size}


def _lines(collected: Collected, verb: str) -> list[str]:
    from holdfast.cli._terminal import printable, show_size, show_time

    lines = [
        f"{printable(one.id)}\t{printable(one.name)}\t{one.status}\t{show_time(one.updated_us)}\t{show_size(one.size)}"
        for one in collected.removed
    ]
    lines += [f"{printable(run_id)}\tstays: somebody took it up" for run_id in collected.busy]
    count = f"{len(collected.removed)} run" + ("" if len(collected.removed) == 1 else "s")
    return [*lines, f"{verb} {count}, {show_size(collected.size)}"]
