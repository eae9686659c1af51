"""`ScheduleService`: everything that people ask of schedules. It works on the store alone, so it needs no worker and no server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.clock import Clock, SystemClock
from holdfast.errors import IllegalTransitionError, UnknownScheduleError, UsageError
from holdfast.ids import IdFactory, new_id
from holdfast.ports import SCHEDULE_LABEL, CatchUp, Overlap, Schedule, ScheduleStore, Tick
from holdfast.schedules._cron import check_cron, find_zone
from holdfast.schedules._due import next_due, upcoming
from holdfast.schedules._flows import check_inputs, load_scheduled, make_job
from holdfast.schedules._judging import job_id, paused
from holdfast.schedules._telling import Tell, nobody, story, tell_stored
from holdfast.serde import encode

TRIES = 50
"""How often something is decided anew because the schedule changed in between."""
_NAME = re.compile(r"[^\s/\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,99}")
_CALL = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class ScheduleSpec(Struct, frozen=True, kw_only=True):
    """What is needed to make a schedule, or to change it. Fields are as in `Schedule`."""

    name: str
    flow: str
    cron: str = ""
    timezone: str = "UTC"
    every_seconds: int = 0
    command: str | Sequence[str] = ""
    call: str = ""
    inputs: Mapping[str, Any] = {}
    labels: Mapping[str, str] = {}
    overlap: Overlap = "skip"
    cooldown_seconds: int = 0
    catch_up: CatchUp = "none"
    pause_after_errors: int = 5


class ScheduleService:
    """Make schedules and ask things of them.

    `by` names who asks, for the history of jobs that are fired by hand. `changed` is called after every write, to wake the ticker
    of this process.
    """

    def __init__(
        self,
        schedules: ScheduleStore,
        project: Path,
        *,
        clock: Clock | None = None,
        ids: IdFactory = new_id,
        by: str = "",
        changed: Callable[[], None] = lambda: None,
        tell: Tell = nobody,
    ) -> None:
        self.schedules, self.project = schedules, project
        self._tell = tell
        self._clock: Clock = clock or SystemClock()
        self._ids, self._by, self._changed = ids, by, changed

    # -- making ----------------------------------------------------------------------------------------------------

    async def add(self, spec: ScheduleSpec) -> Schedule:
        """Make a schedule. Raises UsageError, FlowFileError or FlowInputError, storing nothing, if it could never fire."""
        made = await self._checked(spec, Schedule(self._ids(), spec.name, spec.flow, self._now_us()))
        await self.schedules.add(made)
        self._changed()
        return made

    async def change(self, schedule_id: str, spec: ScheduleSpec) -> Schedule:
        """Give a schedule other settings; its cursor, its ticks and whether it is paused stay. Raises as `add` does."""
        known = await self.get(schedule_id)
        if spec.name != known.name:
            raise UsageError(f"a schedule keeps its name, {known.name!r}: its jobs are known by it; make another one")
        await self._checked(spec, known)

        def changed(schedule: Schedule) -> tuple[Schedule, list[Tick]]:
            after = _described(schedule, spec)
            is_active = after.status == "active"
            return replace(after, held_until_us=0, next_us=next_due(after, self._now_us()) if is_active else None), []

        return await self._ask(schedule_id, changed)

    async def _checked(self, spec: ScheduleSpec, known: Schedule) -> Schedule:
        check_spec(spec)
        made = _described(known, spec)
        if made.is_poll:  # what else its jobs are given is known only then
            check_inputs(await asyncio.to_thread(load_scheduled, self.project, spec.flow), spec.inputs)
        else:
            await asyncio.to_thread(make_job, made, self.project, "", {}, 0)
        return replace(made, next_us=next_due(made, self._now_us()))

    async def remove(self, schedule_id: str) -> None:
        """Forget a schedule and its ticks; its jobs stay. Raises UnknownScheduleError if there is none."""
        if not await self.schedules.remove((await self.get(schedule_id)).id):
            raise _unknown(schedule_id)
        self._changed()

    # -- asking ----------------------------------------------------------------------------------------------------

    async def pause(self, schedule_id: str, reason: str = "") -> Schedule:
        """Let a schedule fire no more until it is resumed. Raises IllegalTransitionError if it is paused already."""

        def change(schedule: Schedule) -> tuple[Schedule, list[Tick]]:
            if schedule.status == "paused":
                raise IllegalTransitionError(f"schedule {schedule.name!r} is paused already")
            return paused(schedule, reason or "paused", self._now_us())

        return await self._ask(schedule_id, change)

    async def resume(self, schedule_id: str) -> Schedule:
        """Let a paused schedule fire again, from its next due time on. Raises IllegalTransitionError if it is not paused."""

        def change(schedule: Schedule) -> tuple[Schedule, list[Tick]]:
            if schedule.status == "active":
                raise IllegalTransitionError(f"schedule {schedule.name!r} is not paused")
            next_us = next_due(schedule, self._now_us())
            return replace(schedule, status="active", reason="", errors=0, next_us=next_us), []

        return await self._ask(schedule_id, change)

    async def _ask(self, schedule_id: str, change: Callable[[Schedule], tuple[Schedule, list[Tick]]]) -> Schedule:
        for _ in range(TRIES):
            before = await self.get(schedule_id)
            after, ticks = change(before)
            if await self.schedules.record(after, ticks):
                tell_stored(self._tell, before, after, ticks)
                self._changed()
                return replace(after, version=after.version + 1)
        raise IllegalTransitionError(f"schedule {schedule_id} keeps changing; try again")

    async def fire(self, schedule_id: str) -> Tick:
        """Fire once, now, whatever overlap, cooldown and pause say; a poll fires without its check, and its cursor stays.

        Raises UsageError, FlowFileError or FlowInputError if the flow or its inputs cannot be used: that is told, and not counted.
        """
        reason = f"by hand: {self._by}" if self._by else "by hand"
        for _ in range(TRIES):
            schedule, now_us = await self.get(schedule_id), self._now_us()
            due_us = await self._free_moment(schedule, now_us)
            made = job_id(schedule.id, due_us, 0)
            job = await asyncio.to_thread(make_job, schedule, self.project, made, {}, now_us)
            tick = Tick(schedule.id, due_us, now_us, "fired", reason, made)
            if await self.schedules.record(replace(schedule, fired_us=now_us), [tick], [job], by=self._by):
                self._tell(*story(schedule, tick))
                self._changed()
                return next((one for one in await self.schedules.ticks(schedule.id) if one.job_id == made), tick)
        raise IllegalTransitionError(f"schedule {schedule_id} keeps changing; try again")

    async def _free_moment(self, schedule: Schedule, now_us: int) -> int:
        """A due time that no tick has, as it is now."""
        taken = {tick.due_us for tick in await self.schedules.ticks(schedule.id)}
        while now_us in taken:
            now_us += 1
        return now_us

    # -- reading ---------------------------------------------------------------------------------------------------

    async def get(self, schedule_id: str) -> Schedule:
        """A schedule by its id or its name. Raises UnknownScheduleError if there is none."""
        found = await self.schedules.schedule(schedule_id)
        if found is None:
            raise _unknown(schedule_id)
        return found

    async def browse(self) -> list[tuple[Schedule, Tick | None]]:
        """All schedules by name, each with its last tick."""
        last = await self.schedules.last_ticks()
        return [(schedule, last.get(schedule.id)) for schedule in await self.schedules.schedules()]

    def preview(self, cron: str, timezone: str = "UTC", count: int = 5) -> list[datetime]:
        """The next due times, in their own time zone. Raises UsageError if it is no cron expression."""
        check_cron(cron, timezone)
        return upcoming(cron, timezone, self._now_us(), count)

    def _now_us(self) -> int:
        return self._clock.time_ns() // 1000


def check_spec(spec: ScheduleSpec) -> None:
    """Raise UsageError, saying what to write instead, for settings that do not go together."""
    if not _NAME.fullmatch(spec.name):
        raise UsageError(f"{spec.name!r:.120} is no name for a schedule; write up to 100 characters, none of them /")
    if SCHEDULE_LABEL in spec.labels:
        raise UsageError(f"the label {SCHEDULE_LABEL!r} is the schedule's name; choose another label")
    _check_kind(spec)
    for name in ("cooldown_seconds", "pause_after_errors"):
        if getattr(spec, name) < 0:
            raise UsageError(f"{name} cannot be below 0")


def _check_kind(spec: ScheduleSpec) -> None:
    check = bool(spec.command) + bool(spec.call)
    if spec.cron:
        if check or spec.every_seconds:
            raise UsageError("a schedule goes by cron or is a poll: leave out cron, or every and the check")
        check_cron(spec.cron, spec.timezone)
        return
    find_zone(spec.timezone)
    if spec.every_seconds < 1 and not check:
        raise UsageError("say when: a cron expression, or how often to poll and with which check")
    if spec.every_seconds < 1:
        raise UsageError("say how often to poll: every 1 second at the most")
    if check != 1:
        raise UsageError("a poll needs one check: a command, or a call as module:function")
    if spec.call and not _CALL.fullmatch(spec.call):
        raise UsageError(f"{spec.call!r:.120} is no function; write module:function")
    if any("\0" in word for word in ([spec.command] if isinstance(spec.command, str) else spec.command)):
        raise UsageError("a command cannot hold a zero byte")


def _described(schedule: Schedule, spec: ScheduleSpec) -> Schedule:
    return replace(
        schedule,
        flow=spec.flow,
        cron=spec.cron,
        timezone=spec.timezone,
        every_seconds=spec.every_seconds,
        command=spec.command if isinstance(spec.command, str) else tuple(spec.command),
        call=spec.call,
        inputs=encode(spec.inputs),
        labels=dict(spec.labels),
        overlap=spec.overlap,
        cooldown_seconds=spec.cooldown_seconds,
        catch_up=spec.catch_up,
        pause_after_errors=spec.pause_after_errors,
    )


def _unknown(schedule_id: str) -> UnknownScheduleError:
    return UnknownScheduleError(f"there is no schedule {schedule_id!r:.200}; `holdfast schedule list` lists them")
