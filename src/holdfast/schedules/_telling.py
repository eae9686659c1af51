"""What is told of schedules in this process, once it is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from holdfast.events import BaseEvent
from holdfast.events.families.schedule import (
    SchedulePausedEvent,
    ScheduleResumedEvent,
    ScheduleTickCompletedEvent,
    ScheduleTickFailedEvent,
    ScheduleTickSkippedEvent,
    ScheduleTickStartedEvent,
)
from holdfast.ports import Schedule, Tick


class Tell(Protocol):
    """Takes events that follow from one another: `event_bus.tell_outside`, with a source."""

    def __call__(self, *events: BaseEvent) -> None: ...


def nobody(*events: BaseEvent) -> None:
    """Tells nobody."""


def tell_stored(tell: Tell, before: Schedule, after: Schedule, ticks: Sequence[Tick]) -> None:
    """Tell what came of due times, and whether the schedule fires no more, or again."""
    for tick in ticks:
        tell(*story(after, tick))
    if before.status != after.status and after.status == "paused":
        tell(SchedulePausedEvent(schedule=after.name, reason=after.reason))
    elif before.status != after.status:
        tell(ScheduleResumedEvent(schedule=after.name))


def story(schedule: Schedule, tick: Tick) -> Iterator[BaseEvent]:
    """The events of one due time."""
    due = datetime.fromtimestamp(tick.due_us / 1e6, UTC)
    yield ScheduleTickStartedEvent(schedule=schedule.name, due_at=due.isoformat(timespec="seconds"))
    if tick.outcome in ("fired", "nothing"):
        cursor = msgspec.json.decode(schedule.cursor)
        yield ScheduleTickCompletedEvent(schedule=schedule.name, job_id=tick.job_id, cursor=cursor)
    elif tick.outcome == "failed":
        yield ScheduleTickFailedEvent(schedule=schedule.name, error=tick.reason, errors_in_a_row=schedule.errors)
    else:
        yield ScheduleTickSkippedEvent(schedule=schedule.name, reason=tick.reason or tick.outcome)
