"""Group commit by itself: who commits for whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from holdfast.errors import StoreUnavailableError
from holdfast.stores._group import BusyError, GroupWriter, LastingWaiter, Pending

T = TypeVar("T")


class Storage:
    """Notes which groups were committed, and in which thread."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.threads: list[str] = []
        self.busy = 0
        self.error: BaseException | None = None
        self.writer = GroupWriter(self, "the-writer")

    def commit_one(self, work: Callable[[Any], T], patient: bool) -> T:
        if self.busy and not patient:
            self.busy -= 1
            raise BusyError
        self._begin(1)
        return work(None)

    def commit_all(self, group: Sequence[Pending[Any]]) -> None:
        self._begin(len(group))
        for pending in group:
            try:
                pending.result = pending.work(None)
            except ValueError as error:
                pending.error = error

    def _begin(self, count: int) -> None:
        if self.error is not None:
            raise self.error
        self.groups.append(count)
        self.threads.append(threading.current_thread().name)


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = Storage()
    yield storage
    storage.writer.finish()


def number(n: int) -> Callable[[object], int]:
    return lambda _: n


def refuse(_: object) -> int:
    raise ValueError("refused")


def test_a_lone_thread_commits_for_itself(storage: Storage) -> None:
    assert [storage.writer.write_now(number(n)) for n in range(3)] == [0, 1, 2]
    assert storage.groups == [1, 1, 1]
    assert set(storage.threads) == {threading.current_thread().name}


def test_threads_that_waited_are_committed_together(storage: Storage) -> None:
    with ThreadPoolExecutor(8) as pool:
        with storage.writer.turn:
            writes = [pool.submit(storage.writer.write_now, number(n)) for n in range(8)]
            while storage.writer.waiting < 8:
                threading.Event().wait(0.001)
        assert [write.result() for write in writes] == list(range(8))
    assert storage.groups == [8]


async def test_a_lone_task_commits_on_its_own_loop(storage: Storage) -> None:
    assert await storage.writer.write(number(1), alone=True) == 1
    assert storage.threads == [threading.current_thread().name]


async def test_tasks_that_are_not_alone_leave_it_to_the_thread_in_one_group(storage: Storage) -> None:
    with storage.writer.turn:
        tasks = [asyncio.create_task(storage.writer.write(number(n), alone=False)) for n in range(20)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*tasks) == list(range(20))
    assert storage.groups == [20]
    assert storage.threads == ["the-writer"]


async def test_tasks_that_have_a_turn_at_the_same_time_are_one_group_though_nothing_holds_the_thread_up(
    storage: Storage,
) -> None:
    tasks = [asyncio.create_task(storage.writer.write(number(n), alone=False)) for n in range(20)]
    assert await asyncio.gather(*tasks) == list(range(20))
    assert storage.groups == [20]


async def test_a_lone_task_joins_those_who_are_queued(storage: Storage) -> None:
    first = asyncio.create_task(storage.writer.write(number(1), alone=False))
    await asyncio.sleep(0)
    assert await storage.writer.write(number(2), alone=True) == 2
    assert await first == 1
    assert storage.threads == ["the-writer"]


async def test_a_task_that_is_cancelled_while_it_is_stored_hears_of_that_when_it_is(storage: Storage) -> None:
    with storage.writer.turn:
        tasks = [asyncio.create_task(storage.writer.write(work, alone=False)) for work in (number(1), refuse)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError, ValueError]


async def test_a_task_may_be_cancelled_twice_while_it_is_stored(storage: Storage) -> None:
    with storage.writer.turn:
        task = asyncio.create_task(storage.writer.write(number(1), alone=False))
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_is_cancelled_just_before_it_hears_that_it_is_stored_hears_both() -> None:
    waiters: list[LastingWaiter[int]] = [LastingWaiter(), LastingWaiter()]
    tasks = [asyncio.create_task(waiter.wait()) for waiter in waiters]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    waiters[0].settle(1, None)
    waiters[1].settle(None, ValueError("refused"))
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError, ValueError]


async def test_a_slow_storage_is_left_to_the_thread(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.stores._group.INLINE_SECONDS", 0.0)
    assert await storage.writer.write(number(1), alone=True) == 1
    assert storage.threads == ["the-writer"]


async def test_a_task_whose_storage_is_busy_waits_off_the_loop(storage: Storage) -> None:
    storage.busy = 1
    assert await storage.writer.write(number(7), alone=True) == 7
    assert storage.threads == ["the-writer"]


async def test_each_gets_its_own_outcome(storage: Storage) -> None:
    works = [number(0), refuse, number(2)]
    with storage.writer.turn:
        tasks = [asyncio.create_task(storage.writer.write(work, alone=False)) for work in works]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert outcomes[::2] == [0, 2]
    assert isinstance(outcomes[1], ValueError)


async def test_an_inline_refusal_is_raised_to_the_task(storage: Storage) -> None:
    with pytest.raises(ValueError, match="refused"):
        await storage.writer.write(refuse, alone=True)


def test_an_interrupted_leader_does_not_leave_the_others_waiting(storage: Storage) -> None:
    storage.error = KeyboardInterrupt()
    with ThreadPoolExecutor(2) as pool:
        with storage.writer.turn:
            writes = [pool.submit(storage.writer.write_now, number(n)) for n in range(2)]
            while storage.writer.waiting < 2:
                threading.Event().wait(0.001)
        errors = sorted(type(write.exception()).__name__ for write in writes)
    assert errors == ["KeyboardInterrupt", StoreUnavailableError.__name__]


async def test_a_loop_that_leaves_waits_for_what_it_is_storing(storage: Storage) -> None:
    async def leave() -> None:
        task = asyncio.create_task(storage.writer.write(number(1), alone=False))
        await asyncio.sleep(0)
        task.cancel()

    with storage.writer.turn:
        leaving = asyncio.create_task(asyncio.to_thread(asyncio.run, leave()))
        while not storage.writer.waiting:  # noqa: ASYNC110 - another loop queues it
            await asyncio.sleep(0.001)
    await leaving
    assert await storage.writer.write(number(2), alone=False) == 2


async def test_the_thread_leaves_when_idle_and_comes_back_when_needed(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores._group.IDLE_SECONDS", 0.001)
    await storage.writer.write(number(1), alone=False)
    for thread in [thread for thread in threading.enumerate() if thread.name == "the-writer"]:
        await asyncio.to_thread(thread.join, 5)
        assert not thread.is_alive()
    assert await storage.writer.write(number(2), alone=False) == 2


def test_finishing_twice_is_fine_and_a_later_write_still_works(storage: Storage) -> None:
    storage.writer.finish()
    storage.writer.finish()
    assert storage.writer.write_now(number(1)) == 1
