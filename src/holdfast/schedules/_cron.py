"""Cron expressions in time zones, by cronsim: read, checked, and followed from any moment. Pure functions.

Clock changes go as in Debian's cron. A time of day that the spring gap leaves out counts at the end of the gap; one that comes
twice in autumn counts the first time. Expressions whose minute or hour begins with `*` follow the time that really passes.
"""

from __future__ import annotations

import functools
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim, CronSimError

from holdfast.errors import ConfigurationError, UsageError
from holdfast.flowfiles._nearest import did_you_mean

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day of month": "1-31, L for the last",
    "month": "1-12 or JAN-DEC",
    "day of week": "0-7 or SUN-SAT, FRI#2 for the second one of a month",
}
LONGEST = 200
_EPOCH = datetime.fromtimestamp(0, UTC)


def check_cron(cron: str, timezone: str = "UTC") -> None:
    """Raise UsageError, naming the field at fault and where it is, unless this is a cron expression that is due some time."""
    zone = find_zone(timezone)
    if len(cron) > LONGEST:
        raise UsageError(f"a cron expression has {LONGEST} characters at most, not {len(cron)}")
    fields = _expand(cron).split()
    if cron.strip().startswith("@") and cron.strip() not in MACROS:
        raise UsageError(f"{cron!r} is no cron expression; there are: {', '.join(MACROS)}")
    if len(fields) != len(FIELDS):
        raise UsageError(
            f"a cron expression has five fields (minute, hour, day of month, month, day of week), and {cron!r} has "
            f"{len(fields)}; what is due every few seconds is a poll"
        )
    for number, (field, (name, allowed)) in enumerate(zip(fields, FIELDS.items(), strict=True)):
        if not _is_field(field, number):
            column = _column(cron, number)
            raise UsageError(f"{cron!r}, column {column}: {field!r} is no {name}; write {allowed}")
    if not _is_ever_due(cron, zone):
        raise UsageError(f"{cron!r} is never due: no day fits")


def _is_ever_due(cron: str, zone: tzinfo) -> bool:
    try:
        return next(times(cron, zone, _EPOCH), None) is not None
    except CronSimError:  # no month has so many days
        return False


def _is_field(field: str, number: int) -> bool:
    alone = ["*"] * len(FIELDS)
    alone[number] = field
    try:
        CronSim(" ".join(alone), _EPOCH)
    except CronSimError:
        return False
    return True


def _column(cron: str, number: int) -> int:
    at = 0
    for field in cron.split()[: number + 1]:
        at = cron.index(field, at) + len(field)
    return at - len(cron.split()[number]) + 1


def _expand(cron: str) -> str:
    return MACROS.get(cron.strip(), cron)


@functools.cache
def find_zone(timezone: str) -> tzinfo:
    """A time zone, as `Europe/Berlin`. Raises UsageError if there is none of that name, ConfigurationError if there are none."""
    if timezone == "UTC":
        return UTC  # needs no data of the system
    try:
        return zoneinfo.ZoneInfo(timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = zoneinfo.available_timezones()
        if not known:
            raise ConfigurationError(
                "this system has no time zones: install its package tzdata, or `pip install tzdata`; UTC works without"
            ) from error
        raise UsageError(f"there is no time zone {timezone!r:.80}{did_you_mean(timezone, known)}") from error


def times(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """The due times after a moment, in order and in UTC. Ends when there is none for fifty years."""
    last = after
    for found in CronSim(_expand(cron), after.astimezone(zone)):
        due = found.astimezone(UTC)
        if due > last:  # in the hour that autumn repeats a time of day may have been before
            last = due
            yield due


def moment(at_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at_us)


def micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
