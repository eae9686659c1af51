"""What every `ScheduleStore` must do. Subclass the suite in your tests and say how to make yours.

    class TestMine(ScheduleStoreConformance):
        def make_stores(self) -> tuple[ScheduleStore, JobStore]:
            return MySchedules(...), MyJobs(...)

Wants pytest with `asyncio_mode = "auto"`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from holdfast.errors import ClosedError, UsageError
from holdfast.ids import new_id
from holdfast.ports import KEPT_TICKS, SCHEDULE_LABEL, Job, JobQuery, JobStatus, JobStore, Schedule, ScheduleStore, Tick
from holdfast.testing._job_base import make_job, moved, refused, running


def make_schedule(**changes: Any) -> Schedule:
    """A schedule that is due at 100."""
    values: dict[str, Any] = {"id": new_id(), "name": new_id(), "flow": "hello", "created_us": 1, "cron": "@daily"}
    return Schedule(**(values | {"next_us": 100} | changes))


def make_tick(schedule: Schedule, due_us: int = 100, **changes: Any) -> Tick:
    values: dict[str, Any] = {"at_us": due_us + 1, "outcome": "nothing"}
    return Tick(schedule.id, due_us, **(values | changes))


def fire(schedule: Schedule, due_us: int = 100, **changes: Any) -> tuple[Tick, Job]:
    """A tick that fires a job, and the job."""
    job = make_job(labels={SCHEDULE_LABEL: schedule.name})
    return make_tick(schedule, due_us, outcome="fired", job_id=job.id, **changes), job


async def added(store: ScheduleStore, **changes: Any) -> Schedule:
    schedule = make_schedule(**changes)
    await store.add(schedule)
    return schedule


async def read(store: ScheduleStore, schedule: Schedule) -> Schedule:
    found = await store.schedule(schedule.id)
    assert found is not None
    return found


async def jobs_in(jobs: JobStore) -> list[str]:
    return sorted(job.id for job in await jobs.jobs(JobQuery(limit=1000)))


class ScheduleStoreConformance(ABC):
    """Every promise of `holdfast.ports.ScheduleStore`. Fill `make_stores`; and `make_twin` if storage can be shared."""

    @abstractmethod
    def make_stores(self) -> tuple[ScheduleStore, JobStore]:
        """A schedule store and the job store beside it, on storage that is new and empty."""

    def make_twin(self, schedules: ScheduleStore) -> ScheduleStore | None:
        """Another store object on the same storage, as another process would have; None if it cannot be shared."""
        return None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[ScheduleStore, JobStore]]:
        schedules, jobs = self.make_stores()
        try:
            yield schedules, jobs
        finally:
            await schedules.aclose()
            await jobs.aclose()

    # -- schedules -------------------------------------------------------------------------------------------------

    async def test_a_schedule_comes_back_as_it_was_stored_by_id_and_by_name(self) -> None:
        whole = make_schedule(
            name="nightly", cron="", timezone="Europe/Berlin", every_seconds=5, command=("a", "b c"), inputs=b'{"x":[1]}',
            labels={"team": "web"}, overlap="queue", cooldown_seconds=3, catch_up="once", pause_after_errors=0,
            reason="because", errors=2, cursor=b'"\xc3\xa4"', queued_us=7, fired_us=8, held_until_us=9,
        )  # fmt: skip
        async with self.opened() as (store, _):
            await store.add(whole)
            assert await store.schedule(whole.id) == whole
            assert await store.schedule("nightly") == whole
            assert await store.schedule("nobody") is None

    async def test_a_text_command_stays_a_text(self) -> None:
        async with self.opened() as (store, _):
            schedule = await added(store, cron="", command="echo 1")
            assert (await read(store, schedule)).command == "echo 1"

    async def test_a_name_or_an_id_is_given_once(self) -> None:
        async with self.opened() as (store, _):
            known = await added(store, name="nightly")
            await refused(store.add(make_schedule(name="nightly")), UsageError, "'nightly'", "already")
            await refused(store.add(make_schedule(id=known.id)), UsageError, known.id, "already")
            assert await store.schedules() == [known]

    async def test_schedules_are_listed_by_name(self) -> None:
        async with self.opened() as (store, _):
            for name in "bca":
                await added(store, name=name)
            assert [schedule.name for schedule in await store.schedules()] == ["a", "b", "c"]

    async def test_a_removed_schedule_is_gone_with_its_ticks_and_its_jobs_stay(self) -> None:
        async with self.opened() as (store, jobs):
            schedule = await added(store)
            tick, job = fire(schedule)
            await store.record(schedule, [tick], [job])
            assert await store.remove(schedule.id) is True
            assert await store.remove(schedule.id) is False
            assert (await store.schedules(), await store.ticks(schedule.id), await store.last_ticks()) == ([], [], {})
            assert await jobs_in(jobs) == [job.id]
            await store.add(schedule)  # its name and its due times are free again
            assert await store.ticks(schedule.id) == []

    # -- recording -------------------------------------------------------------------------------------------------

    async def test_a_record_stores_schedule_ticks_and_jobs_together(self) -> None:
        async with self.opened() as (store, jobs):
            schedule = await added(store)
            tick, job = fire(schedule)
            assert await store.record(replace(schedule, next_us=200, cursor=b"5"), [tick], [job], by="schedule x")
            assert await read(store, schedule) == replace(schedule, next_us=200, cursor=b"5", version=1)
            (stored,) = await store.ticks(schedule.id)
            assert replace(stored, id=0) == tick
            (change,) = await jobs.changes(job_id=job.id)
            assert (change.target, change.by) == (JobStatus.QUEUED, "schedule x")

    async def test_who_read_an_older_version_changes_nothing(self) -> None:
        async with self.opened() as (store, jobs):
            schedule = await added(store)
            assert await store.record(replace(schedule, next_us=200))
            tick, job = fire(schedule)
            assert not await store.record(replace(schedule, next_us=300), [tick], [job])
            assert (await read(store, schedule)).next_us == 200
            assert (await store.ticks(schedule.id), await jobs_in(jobs)) == ([], [])

    async def test_what_is_recorded_of_a_removed_schedule_is_dropped(self) -> None:
        async with self.opened() as (store, jobs):
            schedule = await added(store)
            await store.remove(schedule.id)
            tick, job = fire(schedule)
            assert not await store.record(schedule, [tick], [job])
            assert (await store.schedules(), await jobs_in(jobs)) == ([], [])

    async def test_no_due_time_fires_twice_even_if_its_schedule_was_turned_back(self) -> None:
        async with self.opened() as (store, jobs):
            schedule = await added(store)
            tick, job = fire(schedule)
            await store.record(replace(schedule, next_us=200), [tick], [job])
            back = replace(await read(store, schedule), next_us=100)
            await store.record(back)
            again, other = fire(schedule)
            later, third = fire(schedule, 200)
            assert await store.record(replace(back, version=2, next_us=300), [again, later], [other, third])
            assert (await read(store, schedule)).next_us == 300
            assert [one.job_id for one in await store.ticks(schedule.id)] == [third.id, job.id]
            assert await jobs_in(jobs) == sorted([job.id, third.id])

    async def test_a_queued_tick_is_replaced_by_what_came_of_it(self) -> None:
        async with self.opened() as (store, jobs):
            schedule = await added(store)
            await store.record(schedule, [make_tick(schedule, outcome="queued", reason="waits")])
            await store.record(replace(schedule, version=1), [make_tick(schedule, 150)])
            tick, job = fire(schedule)
            assert await store.record(replace(schedule, version=2), [tick], [job])
            newest, replaced = await store.ticks(schedule.id)
            assert (newest.due_us, replace(replaced, id=0)) == (150, tick)
            assert replaced.id < newest.id
            assert await jobs_in(jobs) == [job.id]

    async def test_a_job_that_is_there_already_is_not_added_again(self) -> None:
        async with self.opened() as (store, jobs):
            schedule = await added(store)
            tick, job = fire(schedule)
            await jobs.add([job])
            assert await store.record(schedule, [tick], [job])
            assert len(await jobs.changes(job_id=job.id)) == 1

    async def test_several_jobs_of_one_due_time_have_a_tick_each(self) -> None:
        async with self.opened() as (store, jobs):
            schedule = await added(store)
            pairs = [fire(schedule, number=number) for number in range(3)]
            await store.record(schedule, [tick for tick, _ in pairs], [job for _, job in pairs])
            assert [tick.number for tick in await store.ticks(schedule.id)] == [2, 1, 0]
            assert len(await jobs_in(jobs)) == 3

    async def test_a_job_that_cannot_be_new_is_refused_and_nothing_is_stored(self) -> None:
        async with self.opened() as (store, _):
            schedule = await added(store)
            tick, job = fire(schedule)
            await refused(store.record(schedule, [tick], [replace(job, status=JobStatus.RUNNING)]), UsageError, "new")
            assert (await store.ticks(schedule.id), await read(store, schedule)) == ([], schedule)

    async def test_of_many_that_record_at_once_one_does(self) -> None:
        async with self.opened() as (store, jobs):
            schedule = await added(store)
            twin = self.make_twin(store)
            stores = [store, store if twin is None else twin]

            async def try_to(number: int) -> bool:
                tick, job = fire(schedule)
                return await stores[number % 2].record(schedule, [tick], [job])

            done = await asyncio.gather(*map(try_to, range(20)))
            if twin is not None:
                await twin.aclose()
            assert sum(done) == 1
            assert (len(await store.ticks(schedule.id)), len(await jobs_in(jobs))) == (1, 1)

    # -- what is due -----------------------------------------------------------------------------------------------

    async def test_due_are_those_whose_time_has_come_and_that_nobody_holds(self) -> None:
        async with self.opened() as (store, _):
            late = await added(store, next_us=90)
            exact = await added(store, next_us=100)
            queued = await added(store, next_us=500, queued_us=95)
            await added(store, next_us=101)
            await added(store, next_us=None)
            await added(store, next_us=50, held_until_us=101)
            freed = await added(store, next_us=99, held_until_us=100)
            due = [schedule.id for schedule in await store.due(now_us=100)]
            assert due == [late.id, queued.id, freed.id, exact.id]

    async def test_the_next_time_to_look_is_the_first_due_time_or_end_of_a_hold(self) -> None:
        async with self.opened() as (store, _):
            assert await store.next_due() is None
            await added(store, next_us=None)
            assert await store.next_due() is None
            await added(store, next_us=300)
            assert await store.next_due() == 300
            await added(store, next_us=50, held_until_us=200)
            assert await store.next_due() == 200

    async def test_active_jobs_are_those_of_the_schedule_that_have_not_ended(self) -> None:
        async with self.opened() as (store, jobs):
            labels = {SCHEDULE_LABEL: "nightly"}
            first, second = await running(jobs, labels=labels), await running(jobs, labels=labels)
            await running(jobs, labels={SCHEDULE_LABEL: "other"})
            await running(jobs)
            assert await store.active_jobs("nightly") == [first.id]
            assert await store.active_jobs("nightly", limit=5) == [first.id, second.id]
            second = await moved(jobs, second, JobStatus.WAITING)
            for ending in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED):
                await moved(jobs, await running(jobs, labels=labels), ending)
            await moved(jobs, first, JobStatus.FAILED)
            assert await store.active_jobs("nightly", limit=5) == [second.id]

    # -- ticks -----------------------------------------------------------------------------------------------------

    async def test_ticks_are_read_page_by_page_newest_first(self) -> None:
        async with self.opened() as (store, _):
            schedule, other = await added(store), await added(store)
            await store.record(schedule, [make_tick(schedule, due) for due in range(5)])
            await store.record(other, [make_tick(other, 9)])
            first = await store.ticks(schedule.id, limit=2)
            rest = await store.ticks(schedule.id, before=first[-1].id)
            assert [tick.due_us for tick in (*first, *rest)] == [4, 3, 2, 1, 0]
            last = await store.last_ticks()
            assert {key: tick.due_us for key, tick in last.items()} == {schedule.id: 4, other.id: 9}

    async def test_old_ticks_go_and_those_of_other_schedules_stay(self) -> None:
        async with self.opened() as (store, _):
            schedule, other = await added(store), await added(store)
            await store.record(other, [make_tick(other)])
            await store.record(schedule, [make_tick(schedule, due) for due in range(KEPT_TICKS + 3)])
            ticks = await store.ticks(schedule.id, limit=2 * KEPT_TICKS)
            assert (ticks[0].due_us, ticks[-1].due_us, len(ticks)) == (KEPT_TICKS + 2, 3, KEPT_TICKS)
            assert len(await store.ticks(other.id)) == 1

    # -- noticing, ending ------------------------------------------------------------------------------------------

    async def test_the_stamp_moves_with_every_write(self) -> None:
        async with self.opened() as (store, jobs):
            stamps = [await store.stamp()]
            schedule = await added(store)
            stamps.append(await store.stamp())
            await store.record(schedule)
            stamps.append(await store.stamp())
            await jobs.add([make_job()])
            stamps.append(await store.stamp())
            await store.remove(schedule.id)
            stamps.append(await store.stamp())
            assert len(set(stamps)) == len(stamps)

    async def test_a_twin_sees_what_was_stored(self) -> None:
        async with self.opened() as (store, _):
            schedule = await added(store)
            twin = self.make_twin(store)
            if twin is not None:
                assert await twin.schedules() == [schedule]
                await twin.aclose()

    async def test_a_closed_store_says_so(self) -> None:
        async with self.opened() as (store, _):
            await store.schedules()
            await store.aclose()
            await store.aclose()
            await refused(store.schedules(), ClosedError)
