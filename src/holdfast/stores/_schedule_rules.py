"""What every schedule store decides the same way. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.errors import UsageError
from holdfast.ports import Job, Schedule, Tick


def check_new(schedule: Schedule, known_id: str, known_name: str) -> None:
    """Raise UsageError if a schedule that is there has the id or the name of a new one."""
    if schedule.name == known_name:
        raise UsageError(f"there is a schedule {schedule.name!r} already; remove it first, or choose another name")
    if schedule.id == known_id:
        raise UsageError(f"there is a schedule with the id {schedule.id} already")


def jobs_of(ticks: Iterable[Tick], jobs: Sequence[Job]) -> list[Job]:
    """Those of the jobs that are to be added with these ticks."""
    fired = {tick.job_id for tick in ticks}
    return [job for job in jobs if job.id in fired]


def is_due(schedule: Schedule, now_us: int) -> bool:
    has_come = schedule.next_us is not None and schedule.next_us <= now_us
    return schedule.held_until_us <= now_us and (has_come or schedule.queued_us is not None)


def since(schedule: Schedule) -> int:
    """How long one that is due is due."""
    return (schedule.next_us or 0) if schedule.queued_us is None else schedule.queued_us
