"""Due times of cron expressions, also where clocks change."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedules.support import utc

from holdfast.errors import ConfigurationError, UsageError
from holdfast.schedules import check_cron, upcoming
from holdfast.schedules._cron import MACROS, find_zone, micros, times

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def shown(cron: str, zone: str, after: str, count: int) -> list[str]:
    return [f"{due:%m-%d %H:%M%z}" for due in upcoming(cron, zone, micros(utc(after)), count)]


@pytest.mark.parametrize(
    ("cron", "zone", "after", "due"),
    [
        # a time that spring leaves out counts at the end of the gap
        ("30 2 * * *", BERLIN, "2026-03-27 12:00", ["03-28 02:30+0100", "03-29 03:00+0200", "03-30 02:30+0200"]),
        ("30 2 * * *", NEW_YORK, "2026-03-07 00:00", ["03-07 02:30-0500", "03-08 03:00-0400", "03-09 02:30-0400"]),
        # with one that is due then anyway: once
        ("0 2,3 * * *", BERLIN, "2026-03-29 00:00", ["03-29 03:00+0200", "03-30 02:00+0200"]),
        # a time that autumn has twice counts the first time
        ("30 2 * * *", BERLIN, "2026-10-24 12:00", ["10-25 02:30+0200", "10-26 02:30+0100"]),
        ("30 1 * * *", NEW_YORK, "2026-10-31 12:00", ["11-01 01:30-0400", "11-02 01:30-0500"]),
        # also for one who begins to look between the two
        ("30 2 * * *", BERLIN, "2026-10-25 00:45", ["10-26 02:30+0100"]),
        ("30 2 * * *", BERLIN, "2026-10-25 01:15", ["10-26 02:30+0100"]),
        # what begins with a star follows the time that passes
        ("0 * * * *", BERLIN, "2026-03-29 00:30", ["03-29 03:00+0200", "03-29 04:00+0200"]),
        ("0 * * * *", BERLIN, "2026-10-24 23:30", ["10-25 02:00+0200", "10-25 02:00+0100", "10-25 03:00+0100"]),
        ("*/30 * * * *", NEW_YORK, "2026-11-01 05:10", ["11-01 01:30-0400", "11-01 01:00-0500", "11-01 01:30-0500"]),
        # midnight itself may be left out
        ("@daily", "America/Santiago", "2026-09-05 12:00", ["09-06 01:00-0300", "09-07 00:00-0300"]),
        ("0 0 29 2 *", "UTC", "2026-01-01 00:00", ["02-29 00:00+0000"]),
        ("0 12 L * *", BERLIN, "2028-02-01 00:00", ["02-29 12:00+0100", "03-31 12:00+0200"]),
        ("0 9 * * MON-FRI", "UTC", "2026-06-05 09:00", ["06-08 09:00+0000"]),
        ("0 9 * * 7", "UTC", "2026-06-05 09:00", ["06-07 09:00+0000"]),
    ],
)
def test_due_times_where_clocks_change_and_on_odd_days(cron: str, zone: str, after: str, due: list[str]) -> None:
    assert shown(cron, zone, after, len(due)) == due


def test_leap_days_come_every_four_years() -> None:
    assert [due.year for due in upcoming("0 0 29 2 *", "UTC", micros(utc("2026-01-01")), 3)] == [2028, 2032, 2036]


@pytest.mark.parametrize("macro", MACROS)
def test_macros_stand_for_what_cron_says_they_do(macro: str) -> None:
    after = micros(utc("2026-06-03 10:20"))  # a Wednesday
    first = {
        "@yearly": "2027-01-01 00:00", "@annually": "2027-01-01 00:00", "@monthly": "2026-07-01 00:00",
        "@weekly": "2026-06-07 00:00", "@daily": "2026-06-04 00:00", "@midnight": "2026-06-04 00:00",
        "@hourly": "2026-06-03 11:00",
    }  # fmt: skip
    check_cron(macro)
    assert upcoming(macro, "UTC", after, 1) == [utc(first[macro])]


@pytest.mark.parametrize(
    ("cron", "says"),
    [
        ("60 * * * *", "'60 * * * *', column 1: '60' is no minute; write 0-59"),
        ("0  25 * * *", "'0  25 * * *', column 4: '25' is no hour; write 0-23"),
        ("0 0 0 * *", "column 5: '0' is no day of month"),
        ("0 0 1 13 *", "column 7: '13' is no month"),
        ("0 0 * * FOO", "column 9: 'FOO' is no day of week"),
        ("5 5 * * 5 ", "ok"),
        ("*/0 * * * *", "column 1: '*/0' is no minute"),
        ("* * * *", "five fields (minute, hour, day of month, month, day of week), and '* * * *' has 4"),
        ("* * * * * *", "has 6; what is due every few seconds is a poll"),
        ("", "'' has 0"),
        ("@dayly", "'@dayly' is no cron expression; there are: @yearly"),
        ("@reboot", "is no cron expression"),
        ("0 0 31 2 *", "'0 0 31 2 *' is never due"),
        ("0 0 */31 2 5#5", "is never due"),
        ("9" * 5000 + " * * * *", "200 characters at most"),
        ("٣ * * * *", "column 1: '٣' is no minute"),
    ],
)
def test_a_bad_expression_is_refused_with_the_place_and_the_remedy(cron: str, says: str) -> None:
    if says == "ok":
        check_cron(cron)
        return
    with pytest.raises(UsageError) as refused:
        check_cron(cron)
    assert says in str(refused.value)


@pytest.mark.parametrize("zone", ["Europe/Berln", "../../etc/passwd", "", "/etc/localtime", "x" * 5000])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="there is no time zone"):
        find_zone(zone)


def test_the_zone_that_was_meant_is_named() -> None:
    with pytest.raises(UsageError, match=r"did you mean Europe/Berlin\?"):
        check_cron("@daily", "Europe/Berln")


def test_a_system_without_time_zones_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    with pytest.raises(ConfigurationError, match="pip install tzdata"):
        find_zone("Nowhere/Without_data")
    assert find_zone("UTC") is UTC


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "30", "*/15", "1-50/7", "59"]),
    st.sampled_from(["*", "0", "2", "1-4", "*/3", "23"]),
    st.sampled_from(["*", "1", "29", "L", "*/9"]),
    st.sampled_from(["*", "2", "3,10", "NOV"]),
    st.sampled_from(["*", "SUN", "1-5", "0#1"]),
)


@settings(max_examples=150, deadline=None)
@given(
    FIELDS.map(" ".join),
    st.sampled_from(["UTC", BERLIN, NEW_YORK, "Australia/Lord_Howe", "Asia/Kathmandu", "America/Santiago"]),
    st.integers(0, 3 * 366 * 86400),
)
def test_due_times_rise_and_are_the_same_wherever_one_begins_to_look(cron: str, zone: str, seconds: int) -> None:
    """What a restarted process finds due next is what the one before would have found."""
    after = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    found, last = [], after
    for due, _ in zip(times(cron, find_zone(zone), after), range(4), strict=False):
        assert due > last
        assert next(times(cron, find_zone(zone), last)) == due
        assert next(times(cron, find_zone(zone), due - timedelta(microseconds=1))) == due
        last = due
        found.append(due)
    assert all(due.second == 0 for due in found)
