"""What every implementation of a port must do. Subclass a suite in your tests and say how to make yours."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from holdfast.clock import Clock


class ClockConformance(ABC):
    """For `holdfast.clock.Clock`."""

    @abstractmethod
    def make_clock(self) -> Clock:
        """The clock under test."""

    @abstractmethod
    async def let_pass(self, clock: Clock, seconds: float) -> None:
        """Make at least `seconds` go by on it."""

    async def test_both_times_move_forward_together(self) -> None:
        clock = self.make_clock()
        wall, steady = clock.time_ns(), clock.monotonic()
        await self.let_pass(clock, 0.002)
        assert clock.monotonic() - steady >= 0.002
        assert clock.time_ns() - wall >= 1_500_000

    async def test_sleep_returns_once_the_time_has_passed_and_not_before(self) -> None:
        clock = self.make_clock()
        began = clock.monotonic()
        sleeping = asyncio.create_task(clock.sleep(0.002))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not sleeping.done() or clock.monotonic() - began >= 0.002
        await self.let_pass(clock, 0.002)
        await sleeping
        assert clock.monotonic() - began >= 0.002

    async def test_sleepers_wake_in_the_order_of_their_deadlines(self) -> None:
        clock = self.make_clock()
        woken: list[str] = []

        async def nap(name: str, seconds: float) -> None:
            await clock.sleep(seconds)
            woken.append(name)

        naps = [asyncio.create_task(nap("long", 0.04)), asyncio.create_task(nap("short", 0.002))]
        await asyncio.sleep(0)
        await self.let_pass(clock, 0.002)
        await naps[1]
        await self.let_pass(clock, 0.05)
        await naps[0]
        assert woken == ["short", "long"]

    async def test_no_time_at_all_still_lets_others_run(self) -> None:
        clock = self.make_clock()
        turns: list[str] = []
        other = asyncio.create_task(_note(turns))
        await clock.sleep(0)
        await other
        assert turns == ["other"]

    async def test_a_cancelled_sleep_ends_at_once(self) -> None:
        clock = self.make_clock()
        sleeping = asyncio.create_task(clock.sleep(3600))
        await asyncio.sleep(0)
        sleeping.cancel()
        done, _ = await asyncio.wait({sleeping}, timeout=5)
        assert sleeping in done
        assert sleeping.cancelled()


async def _note(turns: list[str]) -> None:
    turns.append("other")
