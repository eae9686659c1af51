"""Sharing, caps, waiting and warmth, with things that are nothing but memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.resources.things import BrokenLedger, Things, ThingSpec
from tests.runs.support import until

from holdfast.errors import ManagerClosedError, RunEndedError, StoreUnavailableError, StuckError
from holdfast.ports import Holder
from holdfast.resources import Limits, PooledLease
from holdfast.resources._loops import on_loop
from holdfast.stores import MemoryLedger
from holdfast.testing import ManualClock
from holdfast.testing.resource_conformance import Borrower, ResourceManagerConformance

Asking = asyncio.Task[PooledLease[Any]]


class TestThings(ResourceManagerConformance):
    def make_manager(self) -> Things:
        return Things(limits=Limits(total=20))

    def make_spec(self, number: int) -> ThingSpec:
        return ThingSpec(str(number))

    def is_there(self, lease: Any) -> bool:
        return bool(lease.resource.is_there)


@asynccontextmanager
async def things(
    ledger: MemoryLedger | None = None, clock: ManualClock | None = None, **limits: Any
) -> AsyncIterator[Things]:
    manager = Things(ledger or MemoryLedger(), limits=Limits(**limits), clock=clock)
    yield manager
    await manager.release_all()
    assert sorted(manager.made) == sorted(manager.ended)


async def asking(manager: Things, name: str, run: Holder | None = None) -> Asking:
    """Ask, and return once the question is in the queue or answered."""
    before = len(manager._queue._waiters)
    task = asyncio.create_task(manager.acquire(ThingSpec(name), run or Borrower()))
    await until(lambda: task.done() or len(manager._queue._waiters) > before)
    return task


async def test_over_the_cap_of_a_key_one_waits_and_is_served_in_order() -> None:
    async with things(per_key=1, sharing=1) as manager:
        held = await manager.acquire(ThingSpec("a"), Borrower())
        waiting = [await asking(manager, "a") for _ in range(3)]
        other = await manager.acquire(ThingSpec("b"), Borrower())  # another key does not wait
        for asked in waiting:
            assert not asked.done()
            await held.release()
            held = await asked
        await held.release()
        await other.release()


async def test_over_the_total_cap_one_waits_and_is_served_in_order() -> None:
    async with things(total=1) as manager:
        held = await manager.acquire(ThingSpec("a"), Borrower())
        waiting = [await asking(manager, name) for name in "bcd"]
        await held.release()
        for asked in waiting:
            await (await asked).release()
        assert manager.made == ["a", "b", "c", "d"]


async def test_sharing_has_a_cap_too() -> None:
    async with things(sharing=2) as manager:
        leases = [await manager.acquire(ThingSpec("a"), Borrower()) for _ in range(5)]
        assert manager.made == ["a", "a", "a"]
        for lease in leases:
            await lease.release()


async def test_when_the_pool_is_full_nobody_joins_past_one_who_waits_but_a_holder_may() -> None:
    async with things(total=1) as manager:
        holder = Borrower()
        held = await manager.acquire(ThingSpec("a"), holder)
        starved = await asking(manager, "b")
        late = await asking(manager, "a")
        again = await manager.acquire(ThingSpec("a"), holder)
        assert not late.done()
        await held.release()
        await again.release()
        await (await starved).release()
        await (await late).release()
        assert manager.made == ["a", "b", "a"]


async def test_one_who_stops_waiting_does_not_hold_up_the_others() -> None:
    async with things(total=1) as manager:
        held = await manager.acquire(ThingSpec("a"), Borrower())
        first, second = await asking(manager, "b"), await asking(manager, "c")
        first.cancel()
        await asyncio.wait({first})
        await held.release()
        await (await second).release()
        assert manager.made == ["a", "c"]


async def test_when_one_who_waits_for_room_leaves_those_behind_may_join_again() -> None:
    async with things(total=1) as manager:
        held = await manager.acquire(ThingSpec("a"), Borrower())
        starved, late = await asking(manager, "b"), await asking(manager, "a")
        starved.cancel()
        joined = await late
        assert joined.resource is held.resource
        await held.release()
        await joined.release()


async def test_making_one_thing_does_not_hold_up_another() -> None:
    gate: Future[None] = Future()
    async with things() as manager:
        slow = asyncio.create_task(manager.acquire(ThingSpec("slow", gate), Borrower()))
        await until(lambda: [found.state for found in manager.inventory()] == ["starting"])
        await (await manager.acquire(ThingSpec("quick"), Borrower())).release()
        assert not slow.done()
        gate.set_result(None)
        await (await slow).release()


async def test_those_who_ask_while_it_is_made_share_it_and_may_leave_without_the_others() -> None:
    gate: Future[None] = Future()
    async with things() as manager:
        asked = [asyncio.create_task(manager.acquire(ThingSpec("a", gate), Borrower())) for _ in range(3)]
        await until(lambda: len(manager.inventory()) == 1 and len(manager.inventory()[0].runs) == 3)
        asked[0].cancel()
        await asyncio.wait({asked[0]})
        gate.set_result(None)
        leases = await asyncio.gather(*asked[1:])
        assert leases[0].resource is leases[1].resource
        for lease in leases:
            await lease.release()


async def test_what_is_not_healthy_any_more_is_ended_and_made_anew() -> None:
    async with things() as manager:
        first = await manager.acquire(ThingSpec("a"), Borrower())
        first.resource.is_healthy = False
        second = await manager.acquire(ThingSpec("a"), Borrower())
        assert second.resource is not first.resource
        assert not first.resource.is_there
        await first.release()
        assert second.resource.is_there
        await second.release()


async def test_without_being_asked_to_nothing_is_kept_warm() -> None:
    async with things() as manager:
        await (await manager.acquire(ThingSpec("a"), Borrower())).release()
        assert manager.ended == ["a"]


async def test_what_is_kept_warm_is_used_again_shown_as_idle_and_ended_in_time() -> None:
    clock = ManualClock()
    async with things(clock=clock, idle_timeout=60) as manager:
        first = await manager.acquire(ThingSpec("a"), Borrower())
        await first.release()
        assert [(found.state, found.runs) for found in manager.inventory()] == [("idle", ())]
        second = await manager.acquire(ThingSpec("a"), Borrower())
        assert second.resource is first.resource
        clock.advance(100)  # the first rest was cut short
        assert second.resource.is_there
        await second.release()
        await clock.until_sleeping(1)
        clock.advance(60)
        await until(lambda: manager.inventory() == [])
        assert manager.made == manager.ended == ["a"]


async def test_what_is_kept_warm_is_capped_and_the_longest_idle_goes_first() -> None:
    clock = ManualClock()
    async with things(clock=clock, idle_timeout=60, max_idle=2) as manager:
        for name in "abc":
            await (await manager.acquire(ThingSpec(name), Borrower())).release()
            clock.advance(1)
        await until(lambda: len(manager.inventory()) == 2)
        assert manager.ended == ["a"]


async def test_what_is_kept_warm_makes_room_for_one_who_waits() -> None:
    async with things(clock=ManualClock(), total=1, idle_timeout=60) as manager:
        await (await manager.acquire(ThingSpec("a"), Borrower())).release()
        await (await manager.acquire(ThingSpec("b"), Borrower())).release()
        assert manager.ended == ["a"]


async def test_release_for_a_run_sends_its_waiters_away() -> None:
    async with things(total=1) as manager:
        run = Borrower()
        held = await manager.acquire(ThingSpec("a"), Borrower())
        waiting = await asking(manager, "b", run)
        await manager.release_for_run(run.id)
        with pytest.raises(RunEndedError):
            await waiting
        await held.release()


async def test_release_for_a_run_stops_what_is_being_made_for_it() -> None:
    gate: Future[None] = Future()
    async with things() as manager:
        run = Borrower()
        making = asyncio.create_task(manager.acquire(ThingSpec("a", gate), run))
        await until(lambda: len(manager.inventory()) == 1)
        await manager.release_for_run(run.id)
        with pytest.raises(RunEndedError, match="while it was being made"):
            await making
        assert manager.inventory() == []


async def test_an_acquire_that_is_cancelled_returns_when_nothing_is_left_of_it() -> None:
    gate: Future[None] = Future()
    async with things() as manager:
        asked = asyncio.create_task(manager.acquire(ThingSpec("a", gate), Borrower()))
        await until(lambda: len(manager.inventory()) == 1)
        asked.cancel()
        await asyncio.wait({asked})
        assert manager.inventory() == []
        assert await manager.ledger.rows() == []


async def test_release_all_sends_those_who_wait_away_and_stops_what_is_being_made() -> None:
    gate: Future[None] = Future()
    async with things(total=2) as manager:
        await manager.acquire(ThingSpec("a"), Borrower())
        making = asyncio.create_task(manager.acquire(ThingSpec("b", gate), Borrower()))
        await until(lambda: len(manager.inventory()) == 2)
        waiting = await asking(manager, "c")
        await manager.release_all()
        for asked in (making, waiting):
            with pytest.raises(ManagerClosedError):
                await asked
        assert manager.made == manager.ended == ["a"]


async def test_one_who_asks_in_the_moment_in_which_the_last_holder_leaves_gets_one_of_its_own() -> None:
    async with things() as manager:
        leaving = asyncio.create_task(manager.acquire(ThingSpec("a", Future()), Borrower()))
        await until(lambda: bool(manager.inventory()))
        (entry,) = manager._queue.entries.values()
        (last,) = entry.leases

        async def at_once() -> PooledLease[Any]:
            leaves, comes = manager._release(last), manager._acquire(ThingSpec("a"), "another run")
            return (await asyncio.gather(leaves, comes))[1]

        lease = await on_loop(manager._home.loop, at_once())
        assert lease.resource.is_there
        with pytest.raises(RunEndedError):
            await leaving
        await lease.release()


async def test_nothing_is_made_anew_while_everything_is_released() -> None:
    async with things() as manager:
        lease = await manager.acquire(ThingSpec("a"), Borrower())
        lease.resource.is_healthy = False
        gate = manager.ending["a"] = Future()
        asked = asyncio.create_task(manager.acquire(ThingSpec("a"), Borrower()))
        await until(lambda: [found.state for found in manager.inventory()] == ["ending"])
        releasing = asyncio.create_task(manager.release_all())
        await until(lambda: manager._closed)
        gate.set_result(None)
        with pytest.raises(ManagerClosedError):
            await asked
        await releasing
        assert manager.made == manager.ended == ["a"]


async def test_what_cannot_be_ended_is_told_kept_in_the_ledger_and_tried_again() -> None:
    async with things() as manager:
        lease = await manager.acquire(ThingSpec("a"), Borrower())
        manager.cannot_end = OSError("it hangs")
        with pytest.raises(OSError, match="it hangs"):
            await lease.release()
        assert [found.state for found in manager.inventory()] == ["stuck"]
        assert len(await manager.ledger.rows()) == 1
        fresh = await manager.acquire(ThingSpec("a"), Borrower())  # a stuck one is not given out
        manager.cannot_end = None
        await fresh.release()
        await lease.release()
        assert manager.inventory() == []
        assert await manager.ledger.rows() == []


async def test_what_cannot_be_written_down_is_not_made() -> None:
    ledger = BrokenLedger()
    async with things(ledger) as manager:
        ledger.broken = {"put"}
        with pytest.raises(StoreUnavailableError):
            await manager.acquire(ThingSpec("a"), Borrower())
        assert manager.made == []
        ledger.broken = {"put after"}  # the intent is written, its completion is not
        with pytest.raises(StoreUnavailableError):
            await manager.acquire(ThingSpec("a"), Borrower())
        assert manager.made == manager.ended == ["a"]
        assert manager.inventory() == []
        assert await ledger.rows() == []


async def test_what_can_neither_be_written_down_nor_ended_stays_in_the_ledger_for_the_sweep() -> None:
    ledger = BrokenLedger()
    manager = Things(ledger)
    ledger.broken = {"put after"}
    manager.cannot_end = OSError("it hangs")
    with pytest.raises(StuckError, match="thing a could not be ended: it hangs"):
        await manager.acquire(ThingSpec("a"), Borrower())
    assert [row.name for row in await ledger.rows()] == ["a"]
    await manager.release_all()


@pytest.mark.parametrize("problem", [StoreUnavailableError("the disk is full"), OSError("the disk is full")])
async def test_a_ledger_that_breaks_while_a_thing_ends_keeps_no_place_taken(problem: Exception) -> None:
    ledger = BrokenLedger()
    ledger.problem = problem
    async with things(ledger) as manager:
        lease = await manager.acquire(ThingSpec("a"), Borrower())
        ledger.broken = {"remove"}
        await lease.release()
        assert manager.inventory() == []
        ledger.broken = set()
        await manager.sweep()
        assert await ledger.rows() == []


async def test_s3_5_a_row_that_could_not_be_removed_is_removed_by_the_next_sweep() -> None:
    ledger = BrokenLedger()
    async with things(ledger) as manager:
        lease = await manager.acquire(ThingSpec("a"), Borrower())
        kept = await manager.acquire(ThingSpec("b"), Borrower())
        ledger.broken = {"remove"}
        await lease.release()
        ledger.broken = set()
        assert len(await ledger.rows()) == 2
        report = await manager.sweep()
        assert [row.name for row in report.ended] == ["a"]
        assert [row.name for row in await ledger.rows()] == ["b"]
        await kept.release()


async def test_the_ledger_says_who_holds_a_shared_thing() -> None:
    ledger = BrokenLedger()
    async with things(ledger) as manager:
        one, two = Borrower(), Borrower()
        first = await manager.acquire(ThingSpec("a"), one)
        second = await manager.acquire(ThingSpec("a"), two)
        await until(lambda: ledger.puts[-1].runs == tuple(sorted((one.id, two.id))))
        await first.release()
        await until(lambda: ledger.puts[-1].runs == (two.id,))
        await second.release()
        assert [row.runs for row in ledger.puts[:2]] == [(one.id,), (one.id,)]  # the intent, and its completion
        assert len(ledger.puts) == 4
        assert await ledger.rows() == []


async def test_a_second_release_of_a_lease_returns_when_the_first_has_ended_it() -> None:
    # regression: a run's end returned while the release that its step had begun was still ending the process
    async with things() as manager:
        manager.ending["a"] = Future()
        held = await manager.acquire(ThingSpec("a"), Borrower())
        first = asyncio.create_task(held.release())
        await until(lambda: manager.inventory()[0].state == "ending")
        second = asyncio.create_task(held.release())
        other = await manager.acquire(ThingSpec("b"), Borrower())  # the manager has seen both by now
        await other.release()
        assert not second.done()
        manager.ending["a"].set_result(None)
        await asyncio.gather(first, second)
        assert manager.inventory() == []
