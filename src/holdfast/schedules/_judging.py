"""What becomes of a due time, and of the schedule after it. Pure functions."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.ports import Schedule, Tick
from holdfast.schedules._due import SECOND_US, Arrival, arrive

REASON = 2000
"""Characters of an error that a tick keeps."""


class Turn(Struct, frozen=True):
    """A due time whose turn it is, of a schedule as it will be when that is over."""

    schedule: Schedule
    due_us: int | None
    """None when there is nothing left to do for it"""
    at_us: int
    ticks: tuple[Tick, ...] = ()
    """what is to be written down beside what comes of it"""

    def tick(self, outcome: Literal["fired", "queued", "skipped", "failed", "nothing"], reason: str = "") -> Tick:
        assert self.due_us is not None
        return Tick(self.schedule.id, self.due_us, self.at_us, outcome, reason[:REASON])


def take_turn(schedule: Schedule, now_us: int, busy: Sequence[str]) -> Turn | None:
    """Whose turn it is; None if it is nobody's. `busy` are the schedule's jobs that have not ended."""
    if schedule.queued_us is not None and not busy:
        return Turn(replace(schedule, queued_us=None), schedule.queued_us, now_us)
    if schedule.next_us is None or schedule.next_us > now_us:
        return None
    arrival = arrive(schedule, now_us)
    after = replace(schedule, next_us=arrival.next_us)
    return Turn(after, arrival.due_us, now_us, _missed(schedule, arrival, now_us))


def _missed(schedule: Schedule, arrival: Arrival, now_us: int) -> tuple[Tick, ...]:
    if arrival.missed is None:
        return ()
    return (Tick(schedule.id, arrival.missed.last_us, now_us, "missed", str(arrival.missed)),)


def hold_back(turn: Turn, busy: Sequence[str]) -> Turn | None:
    """The turn as it ends if it may not fire now; None if it may."""
    schedule = turn.schedule
    if busy and schedule.overlap == "queue" and schedule.queued_us is None:
        return _over(
            turn, replace(schedule, queued_us=turn.due_us), turn.tick("queued", f"waits for the end of {busy[0]}")
        )
    if busy and schedule.overlap == "queue":
        return _over(turn, schedule, turn.tick("skipped", "another is queued already"))
    if busy and schedule.overlap == "skip":
        return _over(turn, schedule, turn.tick("skipped", f"previous still running: {busy[0]}"))
    passed_us = abs(turn.at_us - (schedule.fired_us or 0))  # a clock that was put back far makes none endless
    left_us = schedule.cooldown_seconds * SECOND_US - passed_us
    if schedule.fired_us is not None and left_us > 0:
        return _over(turn, schedule, turn.tick("skipped", f"cooldown: {-(-left_us // SECOND_US)} s left"))
    return None


def _over(turn: Turn, schedule: Schedule, *ticks: Tick) -> Turn:
    return replace(turn, schedule=schedule, due_us=None, ticks=(*turn.ticks, *ticks))


def fired(turn: Turn, job_ids: Sequence[str], cursor: bytes) -> Turn:
    """The turn after it fired jobs, or had no reason to."""
    schedule = replace(turn.schedule, errors=0, cursor=cursor)
    if not job_ids:
        return _over(turn, schedule, turn.tick("nothing"))
    ticks = [replace(turn.tick("fired"), job_id=job_id, number=number) for number, job_id in enumerate(job_ids)]
    return _over(turn, replace(schedule, fired_us=turn.at_us), *ticks)


def failed(turn: Turn, why: str) -> Turn:
    """The turn after an error. So many in a row pause the schedule."""
    schedule = replace(turn.schedule, errors=turn.schedule.errors + 1)
    if 0 < schedule.pause_after_errors <= schedule.errors:
        times = "an error" if schedule.errors == 1 else f"{schedule.errors} errors in a row"
        schedule, left = paused(schedule, f"after {times}: {why}", turn.at_us)
        return _over(turn, schedule, *left, turn.tick("failed", why))
    return _over(turn, schedule, turn.tick("failed", why))


def paused(schedule: Schedule, reason: str, now_us: int) -> tuple[Schedule, list[Tick]]:
    """A schedule that is not due until it is resumed, and what is to be written down of what it had queued."""
    left = []
    if schedule.queued_us is not None:
        left = [Tick(schedule.id, schedule.queued_us, now_us, "skipped", "it was paused before its turn came")]
    stopped = replace(schedule, status="paused", reason=reason[:REASON], next_us=None, queued_us=None, held_until_us=0)
    return stopped, left


def job_id(schedule_id: str, due_us: int, number: int) -> str:
    """The id of a job: the same for the same due time, whoever fires it. As other ids it sorts by time."""
    hashed = hashlib.sha256(f"{schedule_id} {due_us} {number}".encode()).digest()
    stamp = (max(due_us, 0) // 1000 & (1 << 48) - 1).to_bytes(6)
    value = int.from_bytes(stamp + hashed[:10])
    value = value & ~(0xF << 76) | 7 << 76  # version 7
    value = value & ~(0x3 << 62) | 2 << 62
    return str(uuid.UUID(int=value))
