"""What people ask of schedules."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.schedules.support import Desk, utc

from holdfast.errors import FlowFileError, FlowInputError, IllegalTransitionError, UnknownScheduleError, UsageError
from holdfast.schedules import ScheduleSpec
from holdfast.schedules._cron import micros
from holdfast.schedules._judging import job_id

POLL = {"cron": "", "every_seconds": 60, "command": "true"}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"name": ""}, "'' is no name for a schedule"),
        ({"name": "a/b"}, "is no name"),
        ({"name": "x" * 101}, "up to 100 characters"),
        ({"name": "a\nb"}, "is no name"),
        ({"cron": "", "every_seconds": 0}, "say when: a cron expression, or how often to poll"),
        ({"cron": "61 * * * *"}, "column 1: '61' is no minute"),
        ({"timezone": "Nowhere"}, "there is no time zone 'Nowhere'"),
        ({"every_seconds": 5}, "goes by cron or is a poll"),
        ({"command": "true"}, "goes by cron or is a poll"),
        (POLL | {"command": ""}, "a poll needs one check"),
        (POLL | {"call": "a:b"}, "a poll needs one check"),
        (POLL | {"every_seconds": 0}, "say how often to poll"),
        (POLL | {"command": "", "call": "nothing"}, "'nothing' is no function; write module:function"),
        (POLL | {"command": ("a", "b\0")}, "zero byte"),
        (POLL | {"timezone": "Nowhere"}, "no time zone"),
        ({"cooldown_seconds": -1}, "cooldown_seconds cannot be below 0"),
        ({"pause_after_errors": -1}, "pause_after_errors cannot be below 0"),
        ({"labels": {"schedule": "x"}}, "the label 'schedule' is the schedule's name"),
        ({"flow": "nothing"}, "the project has no flow 'nothing'"),
        ({"flow": "../outside.flow.yaml"}, "schedules are for flows inside of it"),
    ],
)
async def test_what_could_never_fire_is_refused_and_the_remedy_named(desk: Desk, settings: Any, says: str) -> None:
    (desk.project.parent / "outside.flow.yaml").write_text("name: outside\nsteps: {a: {run: ls}}\n")
    spec = {"name": "nightly", "flow": "hello", "cron": "0 * * * *"} | settings
    with pytest.raises(UsageError) as refused:
        await desk.service.add(ScheduleSpec(**spec))
    assert says in str(refused.value)
    assert await desk.store.schedules() == []


async def test_a_flow_that_cannot_be_used_is_refused_when_the_schedule_is_made(desk: Desk) -> None:
    (desk.project / "flows" / "broken.flow.yaml").write_text("name: broken\nstepz: {}\n")
    with pytest.raises(FlowFileError, match="stepz"):
        await desk.add(flow="broken")
    with pytest.raises(FlowInputError, match="item"):
        await desk.add(flow="needy")
    with pytest.raises(FlowInputError, match="whom"):
        await desk.add(inputs={"whom": "you"})
    poll: dict[str, Any] = {"every_seconds": 5, "command": "true"}
    with pytest.raises(FlowInputError, match="whom"):
        await desk.add(flow="needy", inputs={"whom": "you"}, **poll)
    with pytest.raises(FlowInputError, match="sensitive"):
        await desk.add(flow="secret", inputs={"key": "hunter2"}, **poll)
    assert await desk.store.schedules() == []
    await desk.add(flow="needy", **poll)  # its check says what its jobs are given


async def test_a_name_is_given_once(desk: Desk) -> None:
    await desk.add()
    with pytest.raises(UsageError, match="there is a schedule 'nightly' already"):
        await desk.add()


async def test_a_schedule_is_paused_and_resumed_from_its_next_due_time_on(desk: Desk) -> None:
    await desk.add()
    paused = await desk.service.pause("nightly", "holidays")
    assert (paused.status, paused.reason, paused.next_us) == ("paused", "holidays", None)
    with pytest.raises(IllegalTransitionError, match="is paused already"):
        await desk.service.pause("nightly")
    await desk.look("15:30")
    resumed = await desk.service.resume("nightly")
    assert (resumed.status, resumed.next_us) == ("active", micros(utc("2026-06-01 16:00")))
    assert resumed == await desk.service.get("nightly")
    with pytest.raises(IllegalTransitionError, match="is not paused"):
        await desk.service.resume("nightly")
    assert await desk.ticks() == []


async def test_a_schedule_fires_by_hand_whatever_holds_it_back(desk: Desk) -> None:
    await desk.add(cooldown_seconds=3600)
    await desk.service.pause("nightly")
    ticks = [await desk.service.fire("nightly") for _ in range(3)]
    jobs = await desk.all_jobs()
    assert [job.id for job in jobs] == [tick.job_id for tick in ticks]
    stored = await desk.ticks()
    assert {(tick.outcome, tick.reason) for tick in stored} == {("fired", "by hand: tester")}
    assert [job.labels for job in jobs] == [{"schedule": "nightly"}] * 3
    assert (await desk.jobs.changes(job_id=jobs[0].id))[0].by == "tester"
    assert (await desk.service.get("nightly")).status == "paused"


async def test_a_fire_by_hand_counts_for_overlap_and_cooldown(desk: Desk) -> None:
    await desk.add(cooldown_seconds=3600)
    await desk.service.fire("nightly")
    await desk.look("12:00")
    await desk.end()
    await desk.look("12:30")
    assert (await desk.ticks())[-1].reason.startswith("previous still running")
    await desk.look("13:00:30")
    assert await desk.outcomes() == ["fired", "skipped", "fired"]


async def test_a_fire_by_hand_that_cannot_be_is_told_and_not_counted(desk: Desk) -> None:
    await desk.add()
    (desk.project / "flows" / "hello.flow.yaml").unlink()
    with pytest.raises(UsageError, match="has no flow 'hello'"):
        await desk.service.fire("nightly")
    assert ((await desk.service.get("nightly")).errors, await desk.ticks()) == (0, [])


async def test_a_poll_fires_by_hand_without_its_check(desk: Desk) -> None:
    await desk.add(every_seconds=60, command="exit 1", inputs={"who": "me"})
    await desk.service.fire("nightly")
    (job,) = await desk.all_jobs()
    assert (json.loads(job.inputs), (await desk.service.get("nightly")).cursor) == ({"who": "me"}, b"null")


async def test_settings_change_and_what_was_learnt_stays(desk: Desk) -> None:
    made = await desk.add()
    await desk.look("12:00")
    spec = ScheduleSpec(name="nightly", flow="hello", cron="30 * * * *", overlap="allow", inputs={"who": "all"})
    changed = await desk.service.change("nightly", spec)
    assert (changed.id, changed.cron, changed.overlap) == (made.id, "30 * * * *", "allow")
    assert changed.next_us == micros(utc("2026-06-01 12:30"))
    assert len(await desk.ticks()) == 1
    with pytest.raises(UsageError, match="keeps its name, 'nightly'"):
        await desk.service.change("nightly", ScheduleSpec(name="other", flow="hello", cron="@daily"))
    with pytest.raises(UsageError, match="column 1"):
        await desk.service.change("nightly", ScheduleSpec(name="nightly", flow="hello", cron="x * * * *"))
    assert await desk.service.get("nightly") == changed
    await desk.service.pause("nightly")
    assert (await desk.service.change("nightly", spec)).next_us is None


async def test_what_is_queued_fires_once_overlaps_are_allowed(desk: Desk) -> None:
    await desk.add(overlap="queue")
    await desk.look("12:00")
    await desk.look("13:00")
    await desk.service.change("nightly", ScheduleSpec(name="nightly", flow="hello", cron="0 * * * *", overlap="allow"))
    await desk.look("13:00:01")
    assert await desk.outcomes() == ["fired", "fired"]


async def test_one_who_asks_for_a_schedule_that_is_not_there_is_told(desk: Desk) -> None:
    service = desk.service
    for ask in (service.get, service.pause, service.resume, service.fire, service.remove):
        with pytest.raises(UnknownScheduleError, match="there is no schedule 'nobody'"):
            await ask("nobody")


async def test_schedules_are_browsed_with_what_came_last(desk: Desk) -> None:
    await desk.add(name="b")
    await desk.add(name="a", cron="0 13 * * *")
    await desk.look("12:00")
    assert [(schedule.name, last and last.outcome) for schedule, last in await desk.service.browse()] == [
        ("a", None),
        ("b", "fired"),
    ]
    await desk.service.remove("b")
    assert [schedule.name for schedule, _ in await desk.service.browse()] == ["a"]


def test_a_preview_shows_due_times_in_their_own_zone(desk: Desk) -> None:
    due = desk.service.preview("30 2 * * *", "Europe/Berlin", 2)
    assert [one.isoformat() for one in due] == ["2026-06-02T02:30:00+02:00", "2026-06-03T02:30:00+02:00"]
    with pytest.raises(UsageError):
        desk.service.preview("30 2 * *")


def test_the_id_of_a_job_follows_from_its_due_time() -> None:
    one = job_id("a", 1_780_000_000_000_000, 0)
    assert one == job_id("a", 1_780_000_000_000_000, 0)
    others = [job_id("b", 1_780_000_000_000_000, 0), job_id("a", 1_780_000_000_000_001, 0),
              job_id("a", 1_780_000_000_000_000, 1)]  # fmt: skip
    assert len({one, *others}) == 4
    assert one[14] == "7"
    assert job_id("a", 1_780_000_000_000_000, 0) < job_id("a", 1_780_000_001_000_000, 0)
