"""`holdfast doctor`: look at the machine and the project, and say what is missing and what to do."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import typer
from msgspec import Struct

from holdfast.cli._help import JsonOption, StoreOption
from holdfast.cli._stores import make_store
from holdfast.cli._terminal import console, echo_json, on_terminal, printable, show_size
from holdfast.errors import HoldfastError
from holdfast.home import find_home
from holdfast.ports import JobStatus
from holdfast.stores import SqliteStore

LITTLE_ROOM = 500_000_000
_STYLES = {"ok": "green", "missing": "yellow", "broken": "red"}
EXTRAS = {"acp": "agent steps", "mcp": "MCP servers", "pydantic_ai": "llm steps", "asyncpg": "a store in PostgreSQL"}


class Check(Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    verdict: Literal["ok", "missing", "broken"]
    """missing: only what needs it will not work"""
    told: str = ""
    do: str = ""


def doctor(as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Check the machine and the project, and say what to do. Exits with 1 if something is broken; what is missing is fine."""
    checks = [check for look in CHECKS for check in look(store)]
    if as_json:
        echo_json([{"what": c.what, "verdict": c.verdict, "told": c.told, "do": c.do} for c in checks])
    else:
        _show(checks)
    if any(check.verdict == "broken" for check in checks):
        raise typer.Exit(1)


def _show(checks: list[Check]) -> None:
    if not on_terminal():
        for check in checks:
            typer.echo("\t".join((check.verdict, check.what, printable(check.told), check.do)).rstrip())
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("", "what", "found", "what to do", box=None, header_style="bold")
    for check in checks:
        cells = (check.verdict, check.what, printable(check.told), check.do)
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
    console().print(table)


def _python(_: str | None) -> Iterator[Check]:
    yield Check("python", "ok", f"{sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}")


def _system(_: str | None) -> Iterator[Check]:
    if sys.platform != "linux":
        do = "process trees are kept as best this system can, sandboxes need Linux: see hold-processes in the documentation"
        yield Check("system", "ok", sys.platform, do)
        return
    has_pidfd = hasattr(os, "pidfd_open")
    told = f"Linux {os.uname().release}"
    yield Check("system", "ok" if has_pidfd else "missing", told, "" if has_pidfd else "a kernel from 5.3 on is safer")


def _programs(_: str | None) -> Iterator[Check]:
    for program, use in (("git", "flows that work on repositories"), ("bwrap", "sandboxes: install bubblewrap")):
        found = shutil.which(program)
        yield Check(program, "ok" if found else "missing", found or "", "" if found else f"needed for {use}")


def _extras(_: str | None) -> Iterator[Check]:
    names = {"pydantic_ai": "models", "asyncpg": "postgres"}
    for module, use in EXTRAS.items():
        found = find_spec(module) is not None
        extra = names.get(module, module)
        yield Check(
            extra,
            "ok" if found else "missing",
            "installed" if found else "",
            "" if found else f"for {use}: pip install 'holdfast[{extra}]'",
        )


def _project(location: str | None) -> Iterator[Check]:
    home = find_home()
    if home is None and location is None:
        yield Check("project", "missing", "", "`holdfast init` makes one here")
        return
    try:
        opened = make_store(location)
        if not isinstance(opened, SqliteStore):
            yield Check("store", "ok", "PostgreSQL")
            return
        yield _room(opened.path)
        if not opened.path.exists():
            yield Check("store", "ok", f"{opened.path} will be made by the first job")
            return
        yield from asyncio.run(_look_inside(opened))
    except (HoldfastError, OSError) as error:
        yield Check("store", "broken", str(error), "see above")


def _room(path: Path) -> Check:
    folder = next(place for place in path.parents if place.exists())
    free = shutil.disk_usage(folder).free
    is_little = free < LITTLE_ROOM
    return Check("disk", "missing" if is_little else "ok", f"{show_size(free)} free", "make room" if is_little else "")


async def _look_inside(store: SqliteStore) -> list[Check]:
    from holdfast.cli._project import Project
    from holdfast.service import is_served

    project = Project(find_home() or store.path.parent, store)
    try:
        served = await is_served(project.jobs, project.table, project.clock)
        counts = await project.jobs.count()
        told = ", ".join(f"{number} {status}" for status, number in counts.items()) or "no job is under way"
        project.settings()
        return [Check("store", "ok", str(store.path)), Check("jobs", "ok", told), _worker(served, counts)]
    finally:
        await project.aclose()


def _worker(served: bool, counts: Mapping[JobStatus, int]) -> Check:
    if served:
        return Check("worker", "ok", "serves the queue")
    if JobStatus.QUEUED in counts:  # whoever ran them left, or was killed
        return Check("worker", "missing", "none at work, and jobs are queued", "`holdfast worker` goes on with them")
    return Check("worker", "ok", "none at work; started when a job needs one")


CHECKS: list[Callable[[str | None], Any]] = [_python, _system, _programs, _extras, _project]
