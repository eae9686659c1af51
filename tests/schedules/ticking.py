"""A process that sees to the schedules of a project until none is due, and may be killed on the way.

`python -m tests.schedules.ticking DATABASE PROJECT [before|between|after]`: killed before a tick is stored, between the tick and
its job, or right after both are.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.ports import Job, Schedule, Tick
from holdfast.resources import Keeper
from holdfast.schedules import Ticker
from holdfast.stores import SqliteSchedules, _sqlite_job_writes


def die(*_: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(SqliteSchedules):
    """A store whose process is killed when it stores a tick."""

    when = ""

    async def record(
        self, schedule: Schedule, ticks: Sequence[Tick] = (), jobs: Sequence[Job] = (), *, by: str = ""
    ) -> bool:
        if ticks and self.when == "before":
            die()
        stored = await super().record(schedule, ticks, jobs, by=by)
        if ticks and self.when == "after":
            die()
        return stored


async def main(database: str, project: str, when: str = "") -> None:
    if when == "between":
        vars(_sqlite_job_writes)["add"] = die
    async with Dying(database) as store:
        store.when = when
        with Keeper() as keeper:
            ticker = Ticker(store, Path(project), keeper=lambda: keeper)
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.readline)
            while await store.due(now_us=time.time_ns() // 1000):
                async with asyncio.TaskGroup() as group:
                    await ticker.look(group)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
