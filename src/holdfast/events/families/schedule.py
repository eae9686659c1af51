"""Schedules: every tick and what came of it."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class ScheduleTickStartedEvent(BaseEvent):
    """A schedule is due and decides what to do."""

    type: ClassVar[str] = "schedule_tick_started"
    opens: ClassVar[ScopeKind | None] = "schedule"

    schedule: str
    due_at: str = ""


class ScheduleTickCompletedEvent(BaseEvent):
    """A tick did its work, and submitted a job if there was a reason to."""

    type: ClassVar[str] = "schedule_tick_completed"
    closes: ClassVar[ScopeKind | None] = "schedule"

    schedule: str
    job_id: str | None = None
    cursor: Any = None


class ScheduleTickSkippedEvent(BaseEvent):
    """A tick submitted nothing because of an overlap, a cooldown or a missed time."""

    type: ClassVar[str] = "schedule_tick_skipped"
    closes: ClassVar[ScopeKind | None] = "schedule"

    schedule: str
    reason: str = ""


class ScheduleTickFailedEvent(BaseEvent):
    """A tick ended in an error."""

    type: ClassVar[str] = "schedule_tick_failed"
    closes: ClassVar[ScopeKind | None] = "schedule"

    schedule: str
    error: str
    error_type: str = ""
    errors_in_a_row: int = 1


class SchedulePausedEvent(BaseEvent):
    """A schedule will not tick again until it is resumed."""

    type: ClassVar[str] = "schedule_paused"

    schedule: str
    reason: str = ""


class ScheduleResumedEvent(BaseEvent):
    """A paused schedule ticks again."""

    type: ClassVar[str] = "schedule_resumed"

    schedule: str
