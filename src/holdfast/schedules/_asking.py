"""The check of a poll: a command under a keeper that says whether to fire, and how far it has come."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.errors import JobStepError, ScheduleCheckError
from holdfast.jobs.executors._process import Collector, Ran, read_to_end, why
from holdfast.ports import Schedule
from holdfast.resources import Command, Keeper

CHECK_SECONDS = 60.0
"""How long one check may take."""
OUTPUT_CAP = 1024 * 1024
CURSOR_CAP = 64 * 1024
MOST = 100
"""Jobs that one check may fire."""
TAIL = 4000


class Found(Struct, frozen=True):
    """What a check found."""

    inputs: tuple[dict[str, Any], ...]
    """of each job to fire"""
    cursor: bytes
    """JSON"""


class _Said(Struct, forbid_unknown_fields=True):
    fire: bool | list[dict[str, Any]]
    cursor: Any = msgspec.UNSET


async def ask(schedule: Schedule, project: Path, keeper: Keeper) -> Found:
    """Make a poll's check, leaving nothing of it behind.

    Raises ScheduleCheckError if it does not end well or says something else than it should, SpawnError if it cannot be started.
    """
    command = Command(_argv(schedule), _environment(schedule, project), str(project), stdin="nothing", stderr="pipe")
    process = await keeper.spawn(command)
    out, err = Collector(OUTPUT_CAP), _Tail()
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            code = await read_to_end(process, out, err)
    except TimeoutError:
        raise ScheduleCheckError(f"the check took longer than {CHECK_SECONDS:g} s and was ended") from None
    except JobStepError as error:
        raise ScheduleCheckError(f"the check: {error}") from error
    finally:
        await asyncio.shield(process.end())
    ran = Ran(code, out.text(), err.text())
    if ran.code != 0:
        raise ScheduleCheckError(f"the check: {why(ran)}")
    return read_answer(ran.stdout, schedule.cursor)


def read_answer(text: str, cursor: bytes) -> Found:
    """What a check printed. Nothing at all means: nothing to fire. Raises ScheduleCheckError for what is no answer."""
    if not text.strip():
        return Found((), cursor)
    try:
        said = msgspec.json.decode(text, type=_Said)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ScheduleCheckError(
            f'the check printed something else than {{"fire": true or false or a list of inputs, "cursor": …}}: {error}'
        ) from error
    if said.cursor is not msgspec.UNSET:
        cursor = msgspec.json.encode(said.cursor)
    if len(cursor) > CURSOR_CAP:
        raise ScheduleCheckError(f"the cursor has {len(cursor):,} bytes; keep it below {CURSOR_CAP:,}")
    inputs = said.fire if isinstance(said.fire, list) else [{}] if said.fire else []
    if len(inputs) > MOST:
        raise ScheduleCheckError(f"the check would fire {len(inputs)} jobs at once; {MOST} are the most")
    return Found(tuple(inputs), cursor)


def _argv(schedule: Schedule) -> tuple[str, ...]:
    if schedule.call:
        return (sys.executable, "-m", "holdfast.schedules._calling", schedule.call, schedule.cursor.decode())
    return ("/bin/sh", "-c", schedule.command) if isinstance(schedule.command, str) else schedule.command


def _environment(schedule: Schedule, project: Path) -> dict[str, str]:
    env = {**os.environ, "HOLDFAST_SCHEDULE": schedule.name, "HOLDFAST_PROJECT_DIR": str(project)}
    env.pop("HOLDFAST_CURSOR", None)
    cursor = msgspec.json.decode(schedule.cursor)
    if cursor is not None:
        env["HOLDFAST_CURSOR"] = cursor if isinstance(cursor, str) else schedule.cursor.decode()
    return env


class _Tail:
    """The end of standard error."""

    def __init__(self) -> None:
        self.size, self._kept = 0, b""

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        self._kept = (self._kept + data)[-TAIL:]

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace").strip()
