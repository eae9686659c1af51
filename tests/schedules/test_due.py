"""What is due of a schedule at a moment, and what was missed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.schedules.support import utc

from holdfast.ports import Schedule
from holdfast.schedules import next_due
from holdfast.schedules._cron import micros
from holdfast.schedules._due import COUNTED, arrive


def at(text: str) -> int:
    return micros(utc(text if "-" in text else f"2026-06-01 {text}"))


def schedule(next_at: str, **settings: Any) -> Schedule:
    values: dict[str, Any] = {"cron": "0 * * * *", "next_us": at(next_at)}
    return Schedule("id", "name", "flow", 0, **values | settings)


def test_the_next_due_time_is_after_the_moment_and_never_at_it() -> None:
    hourly = schedule("12:00")
    assert next_due(hourly, at("11:59")) == at("12:00")
    assert next_due(hourly, at("12:00") - 1) == at("12:00")
    assert next_due(hourly, at("12:00")) == at("13:00")


def test_a_poll_is_due_so_many_seconds_after_the_moment() -> None:
    assert next_due(schedule("12:00", cron="", every_seconds=90), at("12:00")) == at("12:01:30")


@pytest.mark.parametrize(
    ("now", "catch_up", "due", "missed"),
    [
        ("12:00", "none", "12:00", None),
        ("12:01", "none", "12:00", None),
        ("12:02", "none", None, ("12:00", "12:00", 1)),
        ("12:02", "once", "12:00", None),
        ("13:00:30", "none", "13:00", ("12:00", "12:00", 1)),
        ("15:30", "none", None, ("12:00", "15:00", 4)),
        ("15:30", "once", "15:00", ("12:00", "14:00", 3)),
        ("15:00", "once", "15:00", ("12:00", "14:00", 3)),
    ],
)
def test_what_nobody_saw_to_in_time_was_missed(
    now: str, catch_up: str, due: str | None, missed: tuple[str, str, int] | None
) -> None:
    arrival = arrive(schedule("12:00", catch_up=catch_up), at(now))
    assert arrival.due_us == (None if due is None else at(due))
    found = arrival.missed
    assert (found and (found.first_us, found.last_us, found.number)) == (
        missed and (at(missed[0]), at(missed[1]), missed[2])
    )
    assert arrival.next_us == next_due(schedule("12:00"), at(now))


def test_a_year_of_missed_minutes_is_counted_so_far_and_its_last_is_found() -> None:
    arrival = arrive(schedule("2025-06-01 12:00", cron="* * * * *"), at("12:00:30"))
    assert arrival.due_us == at("12:00")
    assert arrival.missed is not None
    assert (arrival.missed.last_us, arrival.missed.number) == (at("11:59"), COUNTED)
    assert str(arrival.missed).startswith("missed 1000 or more from 2025-06-01 12:00 UTC to 2026-06-01 11:59 UTC")


def test_one_that_is_due_every_four_years_is_found_from_far_away() -> None:
    arrival = arrive(schedule("2000-02-29 00:00", cron="0 0 29 2 *", catch_up="once"), at("12:00"))
    assert arrival.due_us == at("2024-02-29 00:00")
    assert arrival.next_us == at("2028-02-29 00:00")


def test_a_poll_misses_nothing() -> None:
    arrival = arrive(schedule("12:00", cron="", every_seconds=60), at("2026-06-03 00:00"))
    assert (arrival.due_us, arrival.missed, arrival.next_us) == (at("12:00"), None, at("2026-06-03 00:01"))


def test_a_clock_that_was_put_back_makes_nothing_due_before_its_time() -> None:
    arrival = arrive(schedule("12:00"), at("11:00"))
    assert arrival.next_us == at("13:00")
