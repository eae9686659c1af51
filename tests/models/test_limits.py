"""Caps: never exceeded, fair among runs, free again whatever happens."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.context import Position, at
from holdfast.errors import UsageError
from holdfast.models import RequestLimits


async def wait_for_turn(limits: RequestLimits, run_id: str, order: list[str], name: str) -> None:
    with at(Position(run_id)):
        async with limits.slot("p"):
            order.append(name)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_runs_that_wait_take_turns() -> None:
    limits, order = RequestLimits({"p": 1}), list[str]()
    async with limits.slot("p"):
        waiting = [asyncio.create_task(wait_for_turn(limits, "busy", order, f"busy{n}")) for n in range(3)]
        await settle()
        waiting += [asyncio.create_task(wait_for_turn(limits, "small", order, "small"))]
        await settle()
        assert order == []
    await asyncio.gather(*waiting)
    assert order == ["busy0", "small", "busy1", "busy2"]
    assert limits.in_use("p") == 0


async def test_a_waiter_that_is_cancelled_loses_nothing() -> None:
    limits, order = RequestLimits({"p": 1}), list[str]()
    async with limits.slot("p"):
        gone = asyncio.create_task(wait_for_turn(limits, "a", order, "gone"))
        here = asyncio.create_task(wait_for_turn(limits, "a", order, "here"))
        await settle()
        gone.cancel()
        await settle()
    await here
    assert order == ["here"]
    assert limits.in_use("p") == 0


async def test_a_turn_that_came_at_the_moment_of_a_cancel_is_passed_on() -> None:
    limits, order = RequestLimits({"p": 1}), list[str]()
    first = limits.slot("p")
    await first.__aenter__()
    gone = asyncio.create_task(wait_for_turn(limits, "a", order, "gone"))
    here = asyncio.create_task(wait_for_turn(limits, "b", order, "here"))
    await settle()
    await first.__aexit__(None, None, None)  # the turn is given to `gone`, which has not run yet
    gone.cancel()
    await here
    assert order == ["here"]
    assert limits.in_use("p") == 0


async def test_a_provider_that_is_not_named_has_no_cap() -> None:
    limits = RequestLimits({"p": 1})
    async with limits.slot("q"), limits.slot("q"), limits.slot("p"):
        assert (limits.in_use("q"), limits.in_use("p")) == (0, 1)


def test_a_cap_holds_across_loops_and_threads() -> None:
    limits = RequestLimits({"p": 2})
    lock, inside, most = threading.Lock(), 0, 0

    async def one() -> None:
        nonlocal inside, most
        async with limits.slot("p"):
            with lock:
                inside += 1
                most = max(most, inside)
            await asyncio.sleep(0)
            with lock:
                inside -= 1

    async def many() -> None:
        await asyncio.gather(*[one() for _ in range(50)])

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 2
    assert limits.in_use("p") == 0


def test_a_cap_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        RequestLimits({"p": 0})
