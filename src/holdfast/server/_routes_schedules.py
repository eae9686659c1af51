"""Schedules over HTTP: list, make, change, steer, and what came of each due time."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from holdfast.ports import CatchUp, Overlap, Schedule, ScheduleStatus, Tick, TickOutcome
from holdfast.schedules import ScheduleSpec
from holdfast.server._backend import Backend
from holdfast.server._endpoint import Call, Endpoint, Limit, Name, Nothing, Position, Words
from holdfast.server._flow_files import flow_file, reference_of
from holdfast.server._views import moment

Seconds: TypeAlias = Annotated[int, Meta(ge=0, le=366 * 86400)]
Word: TypeAlias = Annotated[str, Meta(max_length=10000, pattern=r"^[^\x00]*$")]
Cron: TypeAlias = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class TickView(Struct, frozen=True):
    """What came of one due time."""

    id: int
    due: datetime
    at: datetime
    """when somebody saw to it"""
    outcome: TickOutcome
    """`queued` becomes `fired` when its turn comes; `missed` may stand for many; `nothing` is a poll that had no reason to fire"""
    reason: str
    job_id: str | None


class ScheduleView(Struct, frozen=True):
    """A schedule."""

    id: str
    name: str
    flow: str
    kind: Literal["cron", "poll"]
    cron: str
    """empty for a poll"""
    timezone: str
    every_seconds: int
    """of a poll; else 0"""
    command: str | list[str]
    """the check of a poll: a shell command, or a program and its arguments; else empty"""
    call: str
    """the check of a poll as `module:function`; else empty"""
    inputs: Any
    labels: dict[str, str]
    overlap: Overlap
    cooldown_seconds: int
    catch_up: CatchUp
    pause_after_errors: int
    """0 for never"""
    status: ScheduleStatus
    reason: str
    """why it is paused"""
    errors: int
    """in a row"""
    cursor: Any
    """how far a poll has come, by its own words"""
    next_at: datetime | None
    last_tick: TickView | None
    created: datetime


class NewSchedule(Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule for a flow of the project: `cron`, or `every_seconds` with `command` or `call`."""

    name: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f/]+$")]
    flow: Annotated[str, Meta(min_length=1, max_length=400, pattern=r"^[^\x00-\x1f\x7f]+$")]
    """a name, `kit/flow`, or a path inside the project"""
    cron: Cron = ""
    """five fields, or `@daily` and the like"""
    timezone: Name = "UTC"
    every_seconds: Seconds = 0
    command: Word | Annotated[list[Word], Meta(max_length=100)] = ""
    """prints `{"fire": true or false or a list of inputs, "cursor": …}`; the cursor comes back in `HOLDFAST_CURSOR`"""
    call: Annotated[str, Meta(max_length=400)] = ""
    """a function, `module:function`, that is given the cursor and returns the same"""
    inputs: dict[Name, Any] = {}
    labels: Annotated[dict[Name, Name], Meta(max_length=50)] = {}
    overlap: Overlap = "skip"
    cooldown_seconds: Seconds = 0
    catch_up: CatchUp = "none"
    pause_after_errors: Annotated[int, Meta(ge=0, le=1000000)] = 5


class PauseReason(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a schedule is paused."""

    reason: Words = ""


class TicksQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which ticks, newest first."""

    before: Position = 0
    """what an earlier page gave as `next`"""
    limit: Limit = 50


class TickPage(Struct, frozen=True):
    """Some of a schedule's ticks. The last thousand are kept."""

    ticks: list[TickView]
    next: int | None
    """what to give as `before` for the next page; null when there is none"""


class PreviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A cron expression to be tried."""

    cron: Cron
    timezone: Name = "UTC"
    count: Annotated[int, Meta(ge=1, le=50)] = 5


# -- views ---------------------------------------------------------------------------------------------------------


def tick_view(tick: Tick) -> TickView:
    return TickView(tick.id, moment(tick.due_us), moment(tick.at_us), tick.outcome, tick.reason, tick.job_id)


def schedule_view(schedule: Schedule, last: Tick | None) -> ScheduleView:
    command = schedule.command
    return ScheduleView(
        id=schedule.id, name=schedule.name, flow=schedule.flow, kind="poll" if schedule.is_poll else "cron",
        cron=schedule.cron, timezone=schedule.timezone, every_seconds=schedule.every_seconds,
        command=command if isinstance(command, str) else [*command], call=schedule.call,
        inputs=msgspec.json.decode(schedule.inputs), labels=schedule.labels, overlap=schedule.overlap,
        cooldown_seconds=schedule.cooldown_seconds, catch_up=schedule.catch_up,
        pause_after_errors=schedule.pause_after_errors, status=schedule.status, reason=schedule.reason,
        errors=schedule.errors, cursor=msgspec.json.decode(schedule.cursor),
        next_at=None if schedule.next_us is None else moment(schedule.next_us),
        last_tick=None if last is None else tick_view(last), created=moment(schedule.created_us),
    )  # fmt: skip


async def _view(backend: Backend, schedule: Schedule) -> ScheduleView:
    last = await backend.schedule_store.ticks(schedule.id, limit=1)
    return schedule_view(schedule, last[0] if last else None)


# -- routes --------------------------------------------------------------------------------------------------------


async def browse(backend: Backend, call: Call[Nothing, None]) -> list[ScheduleView]:
    return [schedule_view(schedule, last) for schedule, last in await backend.schedules(call.who).browse()]


async def preview(backend: Backend, call: Call[PreviewQuery, None]) -> list[datetime]:
    query, service = call.query, backend.schedules(call.who)
    return await asyncio.to_thread(service.preview, query.cron, query.timezone, query.count)


def _spec(backend: Backend, new: NewSchedule) -> ScheduleSpec:
    """Raises Refused if the project has no such flow."""
    file = flow_file(backend.project, new.flow)
    assert backend.project is not None
    given = {name: getattr(new, name) for name in NewSchedule.__struct_fields__}
    return ScheduleSpec(**given | {"flow": reference_of(backend.project, file)})


async def create(backend: Backend, call: Call[Nothing, NewSchedule]) -> ScheduleView:
    service, spec = backend.schedules(call.who), await asyncio.to_thread(_spec, backend, call.body)
    return await _view(backend, await service.add(spec))


async def show(backend: Backend, call: Call[Nothing, None]) -> ScheduleView:
    return await _view(backend, await backend.schedules(call.who).get(call.path["schedule_id"]))


async def change(backend: Backend, call: Call[Nothing, NewSchedule]) -> ScheduleView:
    service, schedule_id = backend.schedules(call.who), call.path["schedule_id"]
    await service.get(schedule_id)
    spec = await asyncio.to_thread(_spec, backend, call.body)
    return await _view(backend, await service.change(schedule_id, spec))


async def remove(backend: Backend, call: Call[Nothing, None]) -> None:
    await backend.schedules(call.who).remove(call.path["schedule_id"])


async def pause(backend: Backend, call: Call[Nothing, PauseReason]) -> ScheduleView:
    service = backend.schedules(call.who)
    return await _view(backend, await service.pause(call.path["schedule_id"], call.body.reason))


async def resume(backend: Backend, call: Call[Nothing, Nothing]) -> ScheduleView:
    return await _view(backend, await backend.schedules(call.who).resume(call.path["schedule_id"]))


async def fire(backend: Backend, call: Call[Nothing, Nothing]) -> TickView:
    return tick_view(await backend.schedules(call.who).fire(call.path["schedule_id"]))


async def ticks(backend: Backend, call: Call[TicksQuery, None]) -> TickPage:
    schedule, query = await backend.schedules(call.who).get(call.path["schedule_id"]), call.query
    found = await backend.schedule_store.ticks(schedule.id, before=query.before, limit=query.limit)
    return TickPage([*map(tick_view, found)], found[-1].id if len(found) == query.limit else None)


ONE = "/api/v1/schedules/{schedule_id}"


def _look(path: str, handler: Any, summary: str, answer: Any, **more: Any) -> Endpoint:
    return Endpoint(
        method="GET", path=path, role="read", handler=handler, summary=summary, group="schedules", answer=answer, **more
    )


def _do(name: str, handler: Any, summary: str, answer: Any = ScheduleView, body: type[Struct] = Nothing) -> Endpoint:
    return Endpoint(
        method="POST", path=f"{ONE}/{name}", role="operate", handler=handler, summary=summary, group="schedules",
        body=body, answer=answer,
    )  # fmt: skip


ENDPOINTS = (
    _look("/api/v1/schedules", browse, "List schedules, by name", list[ScheduleView]),
    Endpoint(  # admin, as is every change: the check of a poll runs any program
        method="POST", path="/api/v1/schedules", role="admin", handler=create, summary="Make a schedule",
        group="schedules", body=NewSchedule, answer=ScheduleView, status=201,
    ),
    _look("/api/v1/schedules/preview", preview, "Show when a cron expression is due next", list[datetime],
          query=PreviewQuery),
    _look(ONE, show, "Show a schedule", ScheduleView),
    Endpoint(
        method="PUT", path=ONE, role="admin", handler=change, summary="Give a schedule other settings",
        group="schedules", body=NewSchedule, answer=ScheduleView,
    ),
    Endpoint(
        method="DELETE", path=ONE, role="admin", handler=remove, summary="Remove a schedule and its ticks; its jobs stay",
        group="schedules", status=204,
    ),
    _do("pause", pause, "Let it fire no more", body=PauseReason),
    _do("resume", resume, "Let it fire again, from its next due time on"),
    _do("fire", fire, "Fire it once, now", TickView),
    _look(f"{ONE}/ticks", ticks, "List what came of its due times, newest first", TickPage, query=TicksQuery),
)  # fmt: skip
