"""When schedules are due, and what of that was missed. Pure functions."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, takewhile

from msgspec import Struct

from holdfast.ports import Schedule
from holdfast.schedules._cron import find_zone, micros, moment, times

SECOND_US = 1_000_000
LATE_US = 60 * SECOND_US
"""A due time that is seen to later than this was missed."""
COUNTED = 1000
"""Missed times are counted so far."""
_LOOK_BACK = [timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=367), timedelta(days=366 * 50)]


class Missed(Struct, frozen=True):
    """Due times that passed while nobody looked."""

    first_us: int
    last_us: int
    number: int
    """`COUNTED` for as many, or more"""

    def __str__(self) -> str:
        many = "or more " if self.number >= COUNTED else ""
        return f"missed {self.number} {many}from {_shown(self.first_us)} to {_shown(self.last_us)}: nobody served the queue"


class Arrival(Struct, frozen=True):
    """What is due, now that a schedule's time has come."""

    due_us: int | None
    """the time to fire for; None if it was missed"""
    missed: Missed | None
    next_us: int | None


def next_due(schedule: Schedule, after_us: int) -> int | None:
    """The first due time after a moment; None if there is none for fifty years.

    A poll is due so many seconds after that moment. Raises what `check_cron` raises for a time zone that is not there.
    """
    if schedule.is_poll:
        return after_us + schedule.every_seconds * SECOND_US
    due = next(times(schedule.cron, find_zone(schedule.timezone), moment(after_us)), None)
    return None if due is None else micros(due)


def upcoming(cron: str, timezone: str, after_us: int, count: int) -> list[datetime]:
    """The next due times of a cron expression, in its own time zone."""
    zone = find_zone(timezone)
    return [due.astimezone(zone) for due in islice(times(cron, zone, moment(after_us)), count)]


def arrive(schedule: Schedule, now_us: int) -> Arrival:
    """What is due of a schedule whose time has come. A poll misses nothing: the next check finds what the last did not."""
    first_us = schedule.next_us
    assert first_us is not None
    if schedule.is_poll:
        return Arrival(first_us, None, next_due(schedule, max(now_us, first_us)))
    next_us, last_us = next_due(schedule, max(now_us, first_us)), _latest(schedule, first_us, now_us)
    if now_us - last_us <= LATE_US or schedule.catch_up == "once":
        return Arrival(last_us, _missed(schedule, first_us, last_us - 1), next_us)
    return Arrival(None, _missed(schedule, first_us, last_us), next_us)


def _missed(schedule: Schedule, first_us: int, until_us: int) -> Missed | None:
    """Those from the first one until a moment."""
    if until_us < first_us:
        return None
    after = times(schedule.cron, find_zone(schedule.timezone), moment(first_us - 1))
    found = [micros(due) for due in islice(takewhile(lambda due: micros(due) <= until_us, after), COUNTED)]
    if not found:
        return None
    last_us = found[-1] if len(found) < COUNTED else _latest(schedule, first_us, until_us)
    return Missed(first_us, last_us, len(found))


def _latest(schedule: Schedule, first_us: int, now_us: int) -> int:
    """The last due time until now; found from behind, as there may have been very many."""
    zone = find_zone(schedule.timezone)
    for back in _LOOK_BACK:
        start_us = max(first_us, now_us - back // timedelta(microseconds=1))
        near = takewhile(lambda due: micros(due) <= now_us, times(schedule.cron, zone, moment(start_us - 1)))
        latest = max(near, default=None)
        if latest is not None:
            return micros(latest)
    return first_us


def _shown(at_us: int) -> str:
    return f"{moment(at_us):%Y-%m-%d %H:%M} UTC"
