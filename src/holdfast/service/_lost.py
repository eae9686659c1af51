"""Workers that are gone: by proof, or because their hold ran out."""

from __future__ import annotations

import os

from holdfast.errors import PlatformError
from holdfast.ports import JobStore, ProcessIdentity, ProcessTable, WorkerInfo


def this_process(table: ProcessTable) -> ProcessIdentity:
    """Who this process is. Raises PlatformError where the system does not say."""
    found = table.identify(os.getpid())
    if found is None:
        raise PlatformError("this system does not say who a process is; mount /proc")
    return found


async def lose_dead(jobs: JobStore, table: ProcessTable, now_us: int, *, but: str = "") -> list[str]:
    """Strike out every worker that is gone. Returns the jobs that went back to the queue."""
    lost: list[str] = []
    for worker in await jobs.workers():
        if worker.id != but and (reason := why_lost(worker, table, now_us)):
            lost += await jobs.lose(worker.id, reason=reason, now_us=now_us)
    return lost


def why_lost(worker: WorkerInfo, table: ProcessTable, now_us: int) -> str:
    """Why a worker counts as gone; empty when it does not."""
    process = worker.owner.process
    if _has_ended(process, table):
        return f"its worker is gone: process {process.pid} has ended"
    if worker.held_until_us <= now_us:
        return f"its worker gave no sign of life for {(now_us - worker.held_until_us) / 1e6:.0f} s beyond its hold"
    return ""


def _has_ended(process: ProcessIdentity, table: ProcessTable) -> bool:
    try:
        return process.place == table.place() and table.identify(process.pid) != process
    except (OSError, PlatformError):  # too many open files: nothing is known of it
        return False
