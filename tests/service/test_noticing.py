"""Noticing: at once what this process says, soon what others write, and no more often than that."""

from __future__ import annotations

import asyncio

from holdfast.service import Noticing
from holdfast.stores import MemoryJobs
from holdfast.testing import ManualClock
from holdfast.testing._job_base import added


class Asked(MemoryJobs):
    """Counts how often it is asked whether anything is new."""

    times = 0

    async def stamp(self) -> int:
        self.times += 1
        return await super().stamp()


async def noticed(noticing: Noticing, clock: ManualClock, after: float) -> asyncio.Task[None]:
    """A waiter that has found nothing new and sleeps."""
    waiting = asyncio.create_task(noticing.changed(clock.monotonic() + after))
    await clock.until_sleeping()
    return waiting


async def test_the_first_look_is_at_once_and_the_next_when_the_time_has_come() -> None:
    jobs, clock = Asked(), ManualClock()
    noticing = Noticing(jobs, clock)
    await noticing.changed(1.0)
    waiting = await noticed(noticing, clock, 1.0)
    await added(jobs)
    assert not waiting.done()
    assert jobs.times == 1
    clock.advance(0.05)
    await waiting
    assert jobs.times == 2


async def test_a_store_that_changes_all_the_time_is_looked_at_no_more_often() -> None:
    jobs, clock = Asked(), ManualClock()
    noticing = Noticing(jobs, clock)
    await noticing.changed(1.0)
    for looks in range(2, 6):
        await added(jobs)
        waiting = await noticed(noticing, clock, 1.0)
        clock.advance(0.05)
        await waiting
        assert jobs.times == looks


async def test_a_wake_up_ends_the_wait_and_is_not_lost_when_nobody_waits() -> None:
    jobs, clock = Asked(), ManualClock()
    noticing = Noticing(jobs, clock)
    await noticing.changed(1.0)
    waiting = await noticed(noticing, clock, 1.0)
    noticing.wake()
    await waiting
    noticing.wake()
    await noticing.changed(1.0)


async def test_the_deadline_ends_the_wait() -> None:
    jobs, clock = Asked(), ManualClock()
    noticing = Noticing(jobs, clock)
    await noticing.changed(1.0)
    waiting = await noticed(noticing, clock, 0.02)
    clock.advance(0.02)
    await waiting
