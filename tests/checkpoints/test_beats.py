"""One heartbeat for all runs of a process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from holdfast.checkpoints._beats import Heartbeat, heartbeat_of
from holdfast.testing import ManualClock
from holdfast.threads import LoopThread

SECONDS = 20.0


class Hold:
    """Something that is renewed."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.renewed: asyncio.Queue[None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._problem = problem

    async def renew(self) -> None:
        self._loop.call_soon_threadsafe(self.renewed.put_nowait, None)
        if self._problem is not None:
            raise self._problem


@pytest_asyncio.fixture
async def loop_thread() -> AsyncIterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.stop()


async def tasks_on(loop_thread: LoopThread) -> int:
    async def count() -> int:
        await asyncio.sleep(0)
        return len(asyncio.all_tasks()) - 1

    return await asyncio.wrap_future(loop_thread.submit(count()))


async def test_all_holds_are_renewed_by_one_task(loop_thread: LoopThread) -> None:
    clock = ManualClock()
    holds = [Hold() for _ in range(3)]
    for hold in holds:
        heartbeat_of(loop_thread, clock, SECONDS).add(hold.renew, loop_thread)
    for _ in range(2):
        await clock.until_sleeping()
        assert await tasks_on(loop_thread) == 1
        clock.advance(SECONDS)
        for hold in holds:
            await hold.renewed.get()


async def test_a_heartbeat_that_nobody_needs_stops_and_begins_again(loop_thread: LoopThread) -> None:
    clock, hold = ManualClock(), Hold()
    heartbeat = Heartbeat(clock, SECONDS)
    heartbeat.add(hold.renew, loop_thread)
    heartbeat.remove(hold.renew)
    await clock.until_sleeping()
    clock.advance(SECONDS)
    while await tasks_on(loop_thread):
        pass
    assert hold.renewed.empty()
    heartbeat.add(hold.renew, loop_thread)
    await clock.until_sleeping()
    clock.advance(SECONDS)
    await hold.renewed.get()


async def test_a_heartbeat_begins_again_when_its_loop_was_stopped(loop_thread: LoopThread) -> None:
    clock, hold = ManualClock(), Hold()
    heartbeat = Heartbeat(clock, SECONDS)
    heartbeat.add(hold.renew, loop_thread)
    await clock.until_sleeping()
    loop_thread.stop()
    other = Hold()
    heartbeat.add(other.renew, loop_thread)
    await clock.until_sleeping()
    clock.advance(SECONDS)
    await other.renewed.get()
    await hold.renewed.get()


async def test_what_goes_wrong_with_one_hold_does_not_keep_the_others_from_being_renewed(
    loop_thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    clock, good, bad = ManualClock(), Hold(), Hold(ValueError("odd"))
    heartbeat = Heartbeat(clock, SECONDS)
    with caplog.at_level(logging.ERROR):
        for hold in (bad, good):
            heartbeat.add(hold.renew, loop_thread)
        for _ in range(2):
            await clock.until_sleeping()
            clock.advance(SECONDS)
            await good.renewed.get()
    assert "a hold could not be renewed" in caplog.text
