"""What every job store decides the same way: which queued jobs a claim gets, which jobs a query means. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.errors import RunBusyError, UsageError
from holdfast.ports import Caps, Job, JobMove, JobQuery, JobStatus, check_job_transition

NEW = (JobStatus.AWAITING_APPROVAL, JobStatus.QUEUED)
FOLLOWING = (JobStatus.AWAITING_APPROVAL, JobStatus.QUEUED, JobStatus.PAUSED)
"""Where a job that has not begun fails with one that it needs."""
CLAIMED = "claimed"
WOKEN = "its time has come"
ASKED = "something was asked of it meanwhile"


class Ready(NamedTuple):
    """A queued job that may be claimed. Sorted, the first is the next."""

    rank: int
    """the lower the earlier"""
    key: int
    lane: str
    job_id: str
    version: int


def lane_of(uses: Iterable[str]) -> str:
    """Jobs with the same lane are held up by the same caps."""
    return "\n".join(sorted(set(uses)))


def uses_of(lane: str) -> tuple[str, ...]:
    return tuple(lane.split("\n")) if lane else ()


def choose(ready: Iterable[Ready], running: Mapping[str, int], caps: Caps, limit: int) -> list[Ready]:
    """Those of the ready jobs that are claimed: in order, as far as the caps have room. `running` counts by lane."""
    total = sum(running.values())
    used: Counter[str] = Counter()
    for lane, number in running.items():
        used.update(dict.fromkeys(uses_of(lane), number))
    chosen: list[Ready] = []
    for one in sorted(ready):
        if len(chosen) >= limit or (caps.total is not None and total >= caps.total):
            break
        uses = uses_of(one.lane)
        if all(used[use] < caps.by_use.get(use, used[use] + 1) for use in uses):
            chosen.append(one)
            used.update(uses)
            total += 1
    return chosen


def has_room(lane: str, running: Mapping[str, int], caps: Caps) -> bool:
    """Whether the caps let one more job of a lane run."""
    return bool(choose([Ready(0, 0, lane, "", 0)], running, caps, 1))


def minds_requests(move: JobMove) -> bool:
    """Whether what was asked of a job and is not settled may change this move."""
    return move.source is JobStatus.RUNNING or move.target is JobStatus.PAUSED


def heeding(move: JobMove, asked: Iterable[tuple[str, str]]) -> JobMove | None:
    """A move as what was asked of the job, by id and kind, makes it; None if that forbids it."""
    kinds = {kind for request_id, kind in asked if request_id not in move.unheard}
    if move.source is not JobStatus.RUNNING:
        return None if move.target is JobStatus.PAUSED and "cancel" in kinds else move
    if move.target in (JobStatus.WAITING, JobStatus.PAUSED) and kinds:
        return replace(move, target=JobStatus.QUEUED, reason=ASKED, wake_us=None)
    if move.target in (JobStatus.COMPLETED, JobStatus.FAILED) and "rerun" in kinds:
        return replace(move, target=JobStatus.QUEUED, reason=ASKED, outputs=None, asks=())
    return move


def outlives(kind: str, end: JobStatus) -> bool:
    """Whether what is asked of a job is still asked of it after its end."""
    return kind == "answer" and end is JobStatus.FAILED


def check_new(jobs: Iterable[Job]) -> None:
    """Raise UsageError for a job that cannot be new."""
    for job in jobs:
        if job.status not in NEW:
            raise UsageError(f"job {job.id} is new and cannot be {job.status}; submit it as {' or '.join(NEW)}")
        if job.id in job.needs:
            raise UsageError(f"job {job.id} needs itself and could never run")
        for text in (*job.uses, *job.labels):
            if not text or "\n" in text:
                raise UsageError(f"job {job.id}: {text!r} is no name for a label or a use; it must be one line")


def check_moves(moves: Iterable[JobMove]) -> None:
    for move in moves:
        check_job_transition(move.job_id, move.source, move.target)


def matches(job: Job, query: JobQuery) -> bool:
    """Whether a query means a job, wherever its page begins."""
    text = f"{job.id}\n{job.flow}\n{job.name}\n{job.reason}".lower()
    return (
        (not query.statuses or job.status in query.statuses)
        and (not query.flow or job.flow == query.flow)
        and (query.archived is None or job.archived == query.archived)
        and (not query.text or query.text.lower() in text)
        and all(job.labels.get(label) == value for label, value in query.labels.items())
    )


def following(job_id: str, status: JobStatus) -> str:
    """Why a job fails whose need did."""
    return f"needs job {job_id}, which {'failed' if status is JobStatus.FAILED else 'was cancelled'}"


def check_ended(job_id: str, job: Job | None) -> None:
    """Raise RunBusyError for a job that has not ended: its journal is what it goes on from."""
    if job is not None and not job.status.is_terminal:
        raise RunBusyError(f"run {job_id} is that of a job that is {job.status}; wait until it ends, or cancel it")
