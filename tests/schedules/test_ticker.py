"""What comes of due times. The clock is the test's; flows are real files, jobs and schedules are in memory."""

from __future__ import annotations

import asyncio
import json

import pytest
from msgspec.structs import replace
from tests.schedules.support import Desk, utc

from holdfast.errors import StoreUnavailableError
from holdfast.ports import Job, JobStatus, Schedule
from holdfast.schedules._cron import micros
from holdfast.schedules._judging import job_id
from holdfast.stores import MemorySchedules

S = JobStatus


async def test_a_due_schedule_fires_a_job_that_says_where_it_comes_from(desk: Desk) -> None:
    schedule = await desk.add(inputs={"who": "you"}, labels={"team": "web"})
    await desk.look("11:59:59")
    assert await desk.all_jobs() == []
    await desk.look("12:00:00")
    (job,), (tick,) = await desk.all_jobs(), await desk.ticks()
    assert (job.flow, job.status, json.loads(job.inputs)) == ("hello", S.QUEUED, {"who": "you"})
    assert job.labels == {"team": "web", "schedule": "nightly"}
    assert (tick.outcome, tick.due_us, tick.job_id) == ("fired", micros(utc("2026-06-01 12:00")), job.id)
    assert job.id == job_id(schedule.id, tick.due_us, 0)
    assert (await desk.jobs.changes(job_id=job.id))[0].by == "schedule nightly"
    assert (await desk.service.get("nightly")).next_us == micros(utc("2026-06-01 13:00"))


async def test_each_due_time_fires_once_however_often_one_looks(desk: Desk) -> None:
    await desk.add(overlap="allow")
    for at in ("12:00:00", "12:00:00", "12:00:01", "12:59:59", "13:00:00", "13:00:10"):
        await desk.look(at)
    assert await desk.outcomes() == ["fired", "fired"]
    assert len(await desk.all_jobs()) == 2


async def test_a_schedule_keeps_to_its_time_zone(desk: Desk) -> None:
    await desk.add(cron="30 2 * * *", timezone="America/New_York")
    await desk.look("2026-06-02 06:29")
    assert await desk.outcomes() == []
    await desk.look("2026-06-02 06:30")
    assert await desk.outcomes() == ["fired"]


class Broken(MemorySchedules):
    """Fails in the moment its caller is cancelled, as a store does that waits for what is being written."""

    is_called = asyncio.Event()

    async def due(self, *, now_us: int) -> list[Schedule]:
        self.is_called.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise StoreUnavailableError("the disk is full: make room") from None
        return []


async def test_it_leaves_when_it_is_told_to_although_the_store_is_away(desk: Desk) -> None:
    desk.store = broken = Broken(desk.jobs)
    async with asyncio.timeout(20), desk.new_ticker().ticking():
        await broken.is_called.wait()


# -- overlap ---------------------------------------------------------------------------------------------------------

UNENDED = (S.AWAITING_APPROVAL, S.QUEUED, S.RUNNING, S.WAITING, S.PAUSED)
CELLS = {
    **{("skip", status): "skipped" if status in UNENDED else "fired" for status in S},
    **{("queue", status): "queued" if status in UNENDED else "fired" for status in S},
    **{("allow", status): "fired" for status in S},
}


@pytest.mark.parametrize(("overlap", "status"), CELLS, ids=str)
async def test_what_a_due_time_becomes_while_the_last_job_is_in_each_status(
    desk: Desk, overlap: str, status: JobStatus
) -> None:
    await desk.add(overlap=overlap)
    await desk.look("12:00")
    (first,) = await desk.all_jobs()
    if status is S.AWAITING_APPROVAL:  # no scheduled job ever is, but one with its label may be
        await desk.end([first])
        await desk.jobs.add([_unapproved(first)])
    else:
        await desk.put(first, status)
    await desk.look("13:00")
    expected = CELLS[overlap, status]
    assert (await desk.outcomes())[1:] == [expected]
    tick = (await desk.ticks())[1]
    if expected == "skipped":
        assert tick.reason.startswith("previous still running: ")
    assert (tick.job_id is not None) == (expected == "fired")


def _unapproved(job: Job) -> Job:
    return replace(job, id="unapproved", status=S.AWAITING_APPROVAL)


@pytest.mark.parametrize("ending", [S.COMPLETED, S.FAILED, S.CANCELLED])
async def test_a_queued_due_time_fires_once_the_job_before_ended_however_it_did(desk: Desk, ending: JobStatus) -> None:
    await desk.add(overlap="queue")
    await desk.look("12:00")
    await desk.look("13:00")
    await desk.look("13:10")
    assert await desk.outcomes() == ["fired", "queued"]
    await desk.end(status=ending)
    await desk.look("13:20")
    ticks = await desk.ticks()
    assert [tick.outcome for tick in ticks] == ["fired", "fired"]
    assert (ticks[1].due_us, ticks[1].at_us) == (micros(utc("2026-06-01 13:00")), micros(utc("2026-06-01 13:20")))
    assert [job.id for job in await desk.all_jobs()] == [tick.job_id for tick in ticks]


async def test_at_most_one_is_queued(desk: Desk) -> None:
    await desk.add(overlap="queue")
    for at in ("12:00", "13:00", "14:00", "15:00"):
        await desk.look(at)
    assert await desk.outcomes() == ["fired", "queued", "skipped", "skipped"]
    assert (await desk.ticks())[2].reason == "another is queued already"
    await desk.end()
    await desk.look("15:10")
    assert await desk.outcomes() == ["fired", "fired", "skipped", "skipped"]
    await desk.look("16:00")  # behind the one that was queued there is room again
    assert (await desk.outcomes())[4:] == ["queued"]


async def test_a_schedule_that_is_paused_gives_up_what_it_had_queued(desk: Desk) -> None:
    await desk.add(overlap="queue")
    await desk.look("12:00")
    await desk.look("13:00")
    await desk.service.pause("nightly")
    await desk.end()
    await desk.look("13:20")
    assert await desk.outcomes() == ["fired", "skipped"]
    assert (await desk.ticks())[1].reason == "it was paused before its turn came"


# -- cooldown, catching up -------------------------------------------------------------------------------------------


async def test_a_cooldown_runs_from_the_last_fire(desk: Desk) -> None:
    await desk.add(cron="*/10 * * * *", overlap="allow", cooldown_seconds=1200)
    for at in ("12:00:05", "12:10", "12:20:04", "12:30", "12:40", "12:50"):
        await desk.look(at)
    assert await desk.outcomes() == ["fired", "skipped", "skipped", "fired", "skipped", "fired"]
    assert [tick.reason for tick in await desk.ticks()][1:3] == ["cooldown: 605 s left", "cooldown: 1 s left"]


async def test_a_clock_that_is_put_back_neither_ends_a_cooldown_nor_makes_it_endless(desk: Desk) -> None:
    await desk.add(cron="*/10 * * * *", overlap="allow", cooldown_seconds=3600)
    await desk.look("12:00")
    await _turn_back(desk, "2026-06-01 11:45")
    await desk.look("11:50")
    await _turn_back(desk, "2026-05-30 11:45")
    await desk.look("2026-05-30 11:50")
    assert await desk.outcomes() == ["fired", "skipped", "fired"]


async def _turn_back(desk: Desk, at: str) -> None:
    """Put the clock back, and let the schedule go by it."""
    desk.clock.set(utc(at))
    await desk.service.pause("nightly")
    await desk.service.resume("nightly")


async def test_missed_times_are_told_in_one_tick_and_none_fires_without_catch_up(desk: Desk) -> None:
    await desk.add()
    await desk.look("16:20")
    (tick,) = await desk.ticks()
    assert (tick.outcome, tick.job_id) == ("missed", None)
    assert tick.reason == "missed 5 from 2026-06-01 12:00 UTC to 2026-06-01 16:00 UTC: nobody served the queue"
    await desk.look("17:00")
    assert await desk.outcomes() == ["missed", "fired"]


async def test_with_catch_up_the_latest_missed_time_fires_once(desk: Desk) -> None:
    await desk.add(catch_up="once", overlap="allow")
    await desk.look("16:20")
    missed, fired = await desk.ticks()
    assert (missed.outcome, fired.outcome) == ("missed", "fired")
    assert missed.reason.startswith("missed 4 from 2026-06-01 12:00 UTC to 2026-06-01 15:00 UTC")
    assert fired.due_us == micros(utc("2026-06-01 16:00"))
    await desk.look("16:40")
    assert len(await desk.all_jobs()) == 1


async def test_what_is_caught_up_with_keeps_to_overlap_too(desk: Desk) -> None:
    await desk.add(catch_up="once")
    await desk.look("12:00")
    await desk.look("15:20")
    assert await desk.outcomes() == ["fired", "missed", "skipped"]


# -- errors ----------------------------------------------------------------------------------------------------------


async def test_so_many_errors_in_a_row_pause_a_schedule(desk: Desk) -> None:
    await desk.add(pause_after_errors=2)
    (desk.project / "flows" / "hello.flow.yaml").rename(desk.project / "gone")
    await desk.look("12:00")
    assert ((await desk.service.get("nightly")).status, (await desk.service.get("nightly")).errors) == ("active", 1)
    await desk.look("13:00")
    schedule = await desk.service.get("nightly")
    assert (schedule.status, schedule.errors, schedule.next_us) == ("paused", 2, None)
    assert (
        schedule.reason
        == "after 2 errors in a row: the project has no flow 'hello'; schedules are for flows inside of it"
    )
    assert await desk.outcomes() == ["failed", "failed"]
    await desk.look("14:00")
    assert await desk.outcomes() == ["failed", "failed"]
    (desk.project / "gone").rename(desk.project / "flows" / "hello.flow.yaml")
    resumed = await desk.service.resume("nightly")
    assert (resumed.status, resumed.errors, resumed.reason) == ("active", 0, "")
    await desk.look("15:00")
    assert await desk.outcomes() == ["failed", "failed", "fired"]


async def test_a_fire_ends_the_row_of_errors_and_a_skip_does_not(desk: Desk) -> None:
    await desk.add(pause_after_errors=2)
    flow, aside = desk.project / "flows" / "hello.flow.yaml", desk.project / "aside"
    text = flow.read_text()
    flow.write_text("name: hello\nstepz: {}\n")
    await desk.look("12:00")
    assert "stepz" in (await desk.ticks())[0].reason
    flow.write_text(text)
    await desk.look("13:00")
    assert (await desk.service.get("nightly")).errors == 0
    flow.rename(aside)
    await desk.look("14:00")
    assert await desk.outcomes() == ["failed", "fired", "skipped"]
    await desk.end()
    await desk.look("15:00")
    assert (await desk.service.get("nightly")).errors == 1


async def test_a_schedule_without_a_bound_goes_on_after_any_number_of_errors(desk: Desk) -> None:
    await desk.add(cron="* * * * *", pause_after_errors=0)
    (desk.project / "flows" / "hello.flow.yaml").unlink()
    for minute in range(10):
        await desk.look(f"12:{minute:02}")
    assert ((await desk.service.get("nightly")).status, await desk.outcomes()) == ("active", ["failed"] * 10)


async def test_inputs_that_stopped_fitting_are_an_error_of_the_tick(desk: Desk) -> None:
    await desk.add()
    (desk.project / "flows" / "hello.flow.yaml").write_text((desk.project / "flows" / "needy.flow.yaml").read_text())
    await desk.look("12:00")
    (tick,) = await desk.ticks()
    assert (tick.outcome, "item" in tick.reason) == ("failed", True)


async def test_a_time_zone_that_is_gone_pauses_the_schedule_and_no_other(desk: Desk) -> None:
    gone = await desk.add(name="gone")
    await desk.add()
    await desk.store.record(replace(gone, timezone="Atlantis/Capital"))
    await desk.look("12:00")
    assert ((await desk.service.get("gone")).status, await desk.outcomes()) == ("paused", ["fired"])
    assert "Atlantis" in (await desk.service.get("gone")).reason


# -- what changes meanwhile ------------------------------------------------------------------------------------------


async def test_a_clock_that_jumps_back_fires_nothing_twice(desk: Desk) -> None:
    await desk.add(overlap="allow")
    for at in ("12:00", "13:00", "11:30", "12:00", "12:59:59", "13:00", "13:30"):
        await desk.look(at)
    assert len(await desk.all_jobs()) == 2
    await desk.service.pause("nightly")
    desk.clock.set(utc("2026-06-01 11:40"))
    await desk.service.resume("nightly")  # from here on 12:00 is due once more
    await desk.look("12:00:10")
    await desk.look("13:00:10")
    assert len(await desk.all_jobs()) == 2
    await desk.look("14:00")
    assert await desk.outcomes() == ["fired"] * 3


async def test_a_schedule_that_is_removed_while_it_is_due_fires_nothing(desk: Desk) -> None:
    schedule = await desk.add()
    desk.clock.set(utc("2026-06-01 12:00"))
    (due,) = await desk.store.due(now_us=micros(desk.clock.now))
    await desk.service.remove("nightly")
    async with asyncio.TaskGroup() as group:
        await desk.ticker._see_to(due, group)
    assert (await desk.all_jobs(), await desk.store.ticks(schedule.id)) == ([], [])


async def test_a_schedule_that_is_paused_or_changed_while_it_is_due_fires_nothing(desk: Desk) -> None:
    await desk.add()
    desk.clock.set(utc("2026-06-01 12:00"))
    (due,) = await desk.store.due(now_us=micros(desk.clock.now))
    await desk.service.pause("nightly")
    async with asyncio.TaskGroup() as group:
        await desk.ticker._see_to(due, group)
    assert await desk.all_jobs() == []


async def test_two_tickers_that_see_one_due_time_fire_it_once(desk: Desk) -> None:
    await desk.add()
    other = desk.new_ticker()
    desk.clock.set(utc("2026-06-01 12:00"))
    async with asyncio.TaskGroup() as group:
        await asyncio.gather(desk.ticker.look(group), other.look(group))
    assert (len(await desk.all_jobs()), await desk.outcomes()) == (1, ["fired"])


# -- waiting ---------------------------------------------------------------------------------------------------------


async def test_it_looks_again_at_the_next_due_time_or_within_a_minute(desk: Desk) -> None:
    now = desk.clock.monotonic()
    assert await desk.look("11:59") == now + 60
    await desk.add()
    assert await desk.look("11:59:30") == now + 30
    assert await desk.look("12:00") == now + 60


async def test_a_ticker_that_waits_fires_when_the_time_comes_and_notices_what_others_add(desk: Desk) -> None:
    await desk.add(name="first")
    async with desk.ticker.ticking():
        await desk.clock.until_sleeping()
        desk.clock.advance(60)
        await desk.fired.acquire()
        await desk.add(name="second", cron="* * * * *")
        await desk.clock.until_sleeping()
        desk.clock.advance(0.5)  # noticed
        await desk.clock.until_sleeping()
        desk.clock.advance(59.5)
        await desk.fired.acquire()
    assert [job.labels["schedule"] for job in await desk.all_jobs()][:1] == ["first"]
