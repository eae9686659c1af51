"""Both clocks do what a clock must; the manual one does nothing else."""

from __future__ import annotations

import asyncio

from holdfast.clock import Clock, SystemClock
from holdfast.testing import ManualClock
from holdfast.testing.conformance import ClockConformance


class TestSystemClock(ClockConformance):
    def make_clock(self) -> Clock:
        return SystemClock()

    async def let_pass(self, clock: Clock, seconds: float) -> None:
        await asyncio.sleep(seconds * 1.5)


class TestManualClock(ClockConformance):
    def make_clock(self) -> Clock:
        return ManualClock()

    async def let_pass(self, clock: Clock, seconds: float) -> None:
        assert isinstance(clock, ManualClock)
        await asyncio.sleep(0)
        clock.advance(seconds)


async def test_time_stands_still_until_it_is_told_to_pass() -> None:
    clock = ManualClock(start_ns=5)
    sleeping = asyncio.create_task(clock.sleep(10))
    await clock.until_sleeping()
    clock.advance(9.999)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(0.001)
    await sleeping
    assert clock.time_ns() == 10_000_000_005
    assert clock.monotonic() == 10


async def test_until_sleeping_counts_only_those_who_still_sleep() -> None:
    clock = ManualClock()
    gone = asyncio.create_task(clock.sleep(10))
    await clock.until_sleeping()
    gone.cancel()
    await asyncio.wait({gone})
    watching = asyncio.create_task(clock.until_sleeping(2))
    sleepers = [asyncio.create_task(clock.sleep(1))]
    for _ in range(3):
        await asyncio.sleep(0)
    assert not watching.done()
    sleepers.append(asyncio.create_task(clock.sleep(1)))
    await watching
    clock.advance(1)
    await asyncio.gather(*sleepers)


async def test_sleepers_of_another_loop_are_woken_too() -> None:
    clock = ManualClock()
    other = asyncio.create_task(asyncio.to_thread(asyncio.run, clock.sleep(3)))
    await clock.until_sleeping()
    clock.advance(3)
    await other
