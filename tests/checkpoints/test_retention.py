"""What is collected, in which order, and what never is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.checkpoints import RetentionPolicy, collect, plan_collection
from holdfast.ports import Batch, JournalStore
from holdfast.runs import RunStatus
from holdfast.stores import MemoryStore
from holdfast.testing._journal_base import make_info, make_row, open_run

DAY = 86_400_000_000
NOW = 1_000 * DAY
UNBOUND = RetentionPolicy(None, None, None)


async def ended(store: JournalStore, name: str, *, status: str = "completed", age: int = 0, size: int = 10) -> None:
    """A run that was last written to so many days ago."""
    at = NOW - age * DAY
    session = await store.open(make_info(name, status=status), owner="x", now_us=at, hold_until_us=at + 1)
    await store.append(Batch(session, (make_row(1, at_us=at, payload=b"p" * size),)))
    await store.close_session(session)


async def left(store: JournalStore) -> set[str]:
    return {info.root_run_id for info in await store.runs()}


async def removed(store: JournalStore, policy: RetentionPolicy) -> list[tuple[str, str]]:
    return [(one.id, one.bound) for one in (await collect(store, policy, now_us=NOW)).removed]


async def test_what_is_too_old_goes() -> None:
    async with MemoryStore() as store:
        await ended(store, "old", age=31)
        await ended(store, "edge", age=30)
        await ended(store, "new")
        assert await removed(store, RetentionPolicy(timedelta(days=30), None, None)) == [("old", "age")]
        assert await left(store) == {"edge", "new"}


async def test_what_is_too_many_goes_and_failed_runs_go_last() -> None:
    async with MemoryStore() as store:
        await ended(store, "failed", status="failed", age=9)
        await ended(store, "cancelled", status="cancelled", age=2)
        await ended(store, "completed", age=3)
        await ended(store, "newest", age=1)
        assert await removed(store, RetentionPolicy(None, 3, None)) == [("completed", "runs")]
        assert await removed(store, RetentionPolicy(None, 0, None)) == [
            ("cancelled", "runs"),
            ("newest", "runs"),
            ("failed", "runs"),
        ]


async def test_what_takes_too_much_room_goes_the_oldest_first() -> None:
    async with MemoryStore() as store:
        for name, age in (("a", 3), ("b", 2), ("c", 1)):
            await ended(store, name, age=age, size=100)
        assert await removed(store, RetentionPolicy(None, None, 200)) == [("a", "bytes")]
        assert await removed(store, RetentionPolicy(None, None, 199)) == [("b", "bytes")]


async def test_an_old_run_makes_room_before_a_young_one_has_to() -> None:
    async with MemoryStore() as store:
        await ended(store, "young")
        await ended(store, "old and failed", status="failed", age=100)
        policy = RetentionPolicy(timedelta(days=30), 1, 10)
        assert await removed(store, policy) == [("old and failed", "age")]


@pytest.mark.parametrize("status", [status for status in RunStatus if not status.is_terminal])
async def test_a_run_that_can_be_gone_on_with_stays_whatever_the_bounds(status: str) -> None:
    async with MemoryStore() as store:
        await ended(store, "one", status=status, age=500)
        assert await removed(store, RetentionPolicy(timedelta(0), 0, 0)) == []


async def test_a_run_that_somebody_holds_stays() -> None:
    async with MemoryStore() as store:
        await open_run(store, make_info("held", status="completed"), now_us=NOW, seconds=60)
        assert await removed(store, RetentionPolicy(timedelta(0), 0, 0)) == []


async def test_a_run_that_is_taken_up_while_it_is_collected_stays() -> None:
    class Racing(MemoryStore):
        """Somebody resumes the run after it was looked at."""

        async def size(self, root_run_id: str) -> int:
            await open_run(self, make_info(root_run_id, status="completed"), now_us=NOW, seconds=60)
            return await super().size(root_run_id)

    async with Racing() as store:
        await ended(store, "one", age=500)
        collected = await collect(store, RetentionPolicy(timedelta(0), 0, 0), now_us=NOW)
        assert (collected.removed, collected.busy) == ((), ("one",))
        assert await left(store) == {"one"}


async def test_a_plan_removes_nothing_and_says_what_it_would_free() -> None:
    async with MemoryStore() as store:
        await ended(store, "a", age=500, size=100)
        await ended(store, "b", size=30)
        planned = await plan_collection(store, RetentionPolicy(), now_us=NOW)
        assert ([one.id for one in planned.removed], planned.size) == (["a"], 100)
        assert await left(store) == {"a", "b"}
        assert (await plan_collection(store, UNBOUND, now_us=NOW)).removed == ()
