"""A worker of its own process, when a queue has none: started by whoever queues a job and does not stay."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from holdfast.clock import Clock
from holdfast.home import VARIABLE
from holdfast.ports import JobStore, ProcessTable
from holdfast.service._lost import lose_dead

IDLE_SECONDS = "30"
IDLE_VARIABLE = "HOLDFAST_WORKER_IDLE_SECONDS"


async def is_served(jobs: JobStore, table: ProcessTable, clock: Clock) -> bool:
    """Whether a worker serves the queue. Those that are proved dead are struck out first."""
    now_us = clock.time_ns() // 1000
    await lose_dead(jobs, table, now_us)
    return any(worker.serving and worker.held_until_us > now_us for worker in await jobs.workers())


async def ensure_worker(jobs: JobStore, table: ProcessTable, clock: Clock, home: Path, store: Path) -> bool:
    """Start a detached worker unless one serves the queue. True if one was started.

    Of several that are started in one moment all but one leave at once. Call it after the job is queued: a worker that is about
    to leave looks at the queue once more after it has said so.
    """
    if await is_served(jobs, table, clock):
        return False
    start_detached(home, store)
    return True


def start_detached(home: Path, store: Path) -> int:
    """Start a worker that outlives this process, serves alone and leaves when idle. Returns its pid."""
    idle_seconds = os.environ.get(IDLE_VARIABLE, IDLE_SECONDS)
    arguments = ["worker", "--alone", "--idle-seconds", idle_seconds, "--store", str(store)]
    log = os.open(home / "worker.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "holdfast", *arguments],
            {**os.environ, VARIABLE: str(home)},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nothing, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(nothing)
        os.close(log)
