"""What listeners hear of schedules: each due time from beginning to end, once it is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.schedules.support import Desk

from holdfast import Runtime
from holdfast.events import BaseEvent
from holdfast.events.families.schedule import (
    SchedulePausedEvent,
    ScheduleResumedEvent,
    ScheduleTickCompletedEvent,
    ScheduleTickFailedEvent,
    ScheduleTickSkippedEvent,
    ScheduleTickStartedEvent,
)


@pytest.fixture
def desk(tmp_path: Path, runtime: Runtime) -> Desk:
    return Desk(tmp_path, tell=lambda *events: runtime.event_bus.tell_outside("schedules", *events))


@pytest.fixture
def heard(runtime: Runtime) -> list[BaseEvent]:
    events: list[BaseEvent] = []

    @runtime.event_bus.on(BaseEvent)
    def note(source: Any, event: BaseEvent) -> None:
        events.append(event)

    return events


async def test_a_due_time_that_fires_is_told_with_its_job_and_as_one_scope(desk: Desk, heard: list[BaseEvent]) -> None:
    await desk.add()
    await desk.look("12:00")
    started, completed = heard
    (job,) = await desk.all_jobs()
    assert isinstance(started, ScheduleTickStartedEvent)
    assert (started.schedule, started.due_at) == ("nightly", "2026-06-01T12:00:00+00:00")
    assert isinstance(completed, ScheduleTickCompletedEvent)
    assert (completed.job_id, completed.started_event_id) == (job.id, started.event_id)


async def test_what_is_held_back_or_fails_is_told_with_the_reason_and_errors_pause(
    desk: Desk, heard: list[BaseEvent]
) -> None:
    await desk.add()
    await desk.look("12:00")
    await desk.look("13:00")
    assert [event.type for event in heard[2:]] == ["schedule_tick_started", "schedule_tick_skipped"]
    assert isinstance(skipped := heard[-1], ScheduleTickSkippedEvent)
    assert skipped.reason.startswith("previous still running")
    heard.clear()
    await desk.add(name="broken", flow="hello", pause_after_errors=1, overlap="allow")
    (desk.project / "flows" / "hello.flow.yaml").unlink()
    await desk.look("14:00")
    mine = [event for event in heard if getattr(event, "schedule", "") == "broken"]
    assert [type(event) for event in mine] == [ScheduleTickStartedEvent, ScheduleTickFailedEvent, SchedulePausedEvent]
    assert isinstance(failed := mine[1], ScheduleTickFailedEvent)
    assert "hello" in failed.error
    assert failed.errors_in_a_row == 1


async def test_pausing_resuming_and_firing_by_hand_are_told_and_other_settings_are_not(
    desk: Desk, heard: list[BaseEvent]
) -> None:
    schedule = await desk.add()
    await desk.service.pause(schedule.id, "holidays")
    await desk.service.resume(schedule.id)
    await desk.service.fire(schedule.id)
    assert [type(event) for event in heard] == [
        SchedulePausedEvent, ScheduleResumedEvent, ScheduleTickStartedEvent, ScheduleTickCompletedEvent,
    ]  # fmt: skip
    assert isinstance(paused := heard[0], SchedulePausedEvent)
    assert paused.reason == "holidays"


async def test_who_is_too_late_tells_nothing(desk: Desk, heard: list[BaseEvent]) -> None:
    schedule = await desk.add()
    await desk.look("12:00")
    told = len(heard)
    async with asyncio.TaskGroup() as group:  # another process, which read the schedule before
        await desk.new_ticker()._see_to(schedule, group)
    assert len(heard) == told == 2
    assert len(await desk.all_jobs()) == 1
