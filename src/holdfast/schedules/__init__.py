"""Schedules: flows that are run by themselves, by cron or when a poll says so.

Which times are due and what becomes of one is decided by pure functions. A `Ticker` asks them, makes the checks of polls, and
writes down what came of it together with the jobs that are fired, in one transaction. Imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.schedules._cron import check_cron as check_cron
    from holdfast.schedules._due import next_due as next_due
    from holdfast.schedules._due import upcoming as upcoming
    from holdfast.schedules._service import ScheduleService as ScheduleService
    from holdfast.schedules._service import ScheduleSpec as ScheduleSpec
    from holdfast.schedules._ticker import Ticker as Ticker

_WHERE = {
    "ScheduleService": "_service",
    "ScheduleSpec": "_service",
    "Ticker": "_ticker",
    "check_cron": "_cron",
    "next_due": "_due",
    "upcoming": "_due",
}

__all__ = ["ScheduleService", "ScheduleSpec", "Ticker", "check_cron", "next_due", "upcoming"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.schedules' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.schedules.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
