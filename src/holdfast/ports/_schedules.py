"""Schedules: when a flow is run by itself, what came of each due time, and where both are kept (`ScheduleStore`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from holdfast.ports._jobs import Job

Overlap = Literal["skip", "queue", "allow"]
CatchUp = Literal["none", "once"]
ScheduleStatus = Literal["active", "paused"]
TickOutcome = Literal["fired", "queued", "skipped", "missed", "failed", "nothing"]

SCHEDULE_LABEL = "schedule"
"""The label, with the schedule's name, that every job of a schedule has."""
KEPT_TICKS = 1000
"""How many ticks of one schedule are kept, at least: a check every few seconds must not fill a disk."""


class Schedule(Struct, frozen=True):
    """A flow that is run by itself: at the times that `cron` says, or when a check that is made every so often says so."""

    id: str
    name: str
    """unique; jobs carry it as their label"""
    flow: str
    """a name, `kit/flow`, or a path inside the project: read anew each time"""
    created_us: int
    cron: str = ""
    """five fields, or `@daily` and the like; empty for a poll"""
    timezone: str = "UTC"
    """what `cron` goes by"""
    every_seconds: int = 0
    """how often a poll is made"""
    command: str | tuple[str, ...] = ""
    """the check of a poll: a shell command, or a program with its arguments"""
    call: str = ""
    """the check of a poll as `module:function`, instead of a command"""
    inputs: bytes = b"{}"
    """JSON; given to the flow each time"""
    labels: dict[str, str] = {}
    overlap: Overlap = "skip"
    """what becomes of a due time while an earlier job has not ended: it is left out, fires once that ended, or fires"""
    cooldown_seconds: int = 0
    """the shortest time from one fire to the next"""
    catch_up: CatchUp = "none"
    """what becomes of due times that passed while nobody looked: nothing, or one fire for the latest"""
    pause_after_errors: int = 5
    """errors in a row that pause it; 0 for never"""

    status: ScheduleStatus = "active"
    reason: str = ""
    """why it is paused"""
    errors: int = 0
    """in a row"""
    cursor: bytes = b"null"
    """JSON: how far a poll has come, by its own words"""
    next_us: int | None = None
    """the next due time; None while it is paused, or when there is none"""
    queued_us: int | None = None
    """a due time that fires once the earlier job has ended"""
    fired_us: int | None = None
    """when it fired last"""
    held_until_us: int = 0
    """until then somebody is making its check"""
    version: int = 0
    """raised by every change: whoever read an older one changes nothing"""

    @property
    def is_poll(self) -> bool:
        return not self.cron


class Tick(Struct, frozen=True):
    """What came of one due time, or of several that were missed."""

    schedule_id: str
    due_us: int
    at_us: int
    """when somebody saw to it"""
    outcome: TickOutcome
    reason: str = ""
    job_id: str | None = None
    number: int = 0
    """counts the jobs of one due time"""
    id: int = 0
    """given by the store; later ones are higher"""


class ScheduleStore(Protocol):
    """Where schedules and their ticks are kept, in the storage of the jobs they fire. May be called from any thread and loop;
    several processes may share one storage.

    What one call writes is stored as a whole or not at all, and durable when it returns. Each raises StoreUnavailableError when
    the storage cannot be read or written.
    """

    async def add(self, schedule: Schedule) -> None:
        """Store a new schedule. Raises UsageError if its id or its name is taken."""
        ...

    async def record(
        self, schedule: Schedule, ticks: Sequence[Tick] = (), jobs: Sequence[Job] = (), *, by: str = ""
    ) -> bool:
        """Replace a schedule, if what is stored has still its version, and with it add ticks and the jobs they fired: all or none.

        What is stored then has the next version. False, and nothing is stored, if it is another version by now or gone. A tick
        whose due time and number are written down already is left out, and its job with it, unless what is there is `queued`:
        that is replaced. So no due time fires twice, whatever its schedule was told meanwhile.
        The jobs need no others. Raises UsageError if one cannot be new.
        """
        ...

    async def remove(self, schedule_id: str) -> bool:
        """Forget a schedule and its ticks; its jobs stay. False if there is none."""
        ...

    async def schedule(self, schedule_id: str) -> Schedule | None:
        """One schedule, by its id or its name."""
        ...

    async def schedules(self) -> list[Schedule]:
        """All of them, by name."""
        ...

    async def due(self, *, now_us: int) -> list[Schedule]:
        """Active ones whose next time has come, or that have one queued, and that nobody holds; the longest due first."""
        ...

    async def next_due(self) -> int | None:
        """When to look again: the next due time, or the end of the hold on one that is due. None if there is nothing to come."""
        ...

    async def active_jobs(self, name: str, *, limit: int = 1) -> list[str]:
        """Jobs of the schedule with this name that have not ended, oldest first."""
        ...

    async def ticks(self, schedule_id: str, *, before: int = 0, limit: int = 100) -> list[Tick]:
        """Ticks of a schedule, newest first; `before` is the id of the last one of the page before."""
        ...

    async def last_ticks(self) -> dict[str, Tick]:
        """The newest tick of each schedule that has one, by its id."""
        ...

    async def stamp(self) -> int:
        """A number that differs from the last one if anything may have been written meanwhile, by whomever. Cheap."""
        ...

    async def aclose(self) -> None:
        """Let go of the storage. Twice is fine; any other use afterwards is a ClosedError."""
        ...
