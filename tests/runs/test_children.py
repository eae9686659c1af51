"""Runs inside runs: whose they are, what they share, and that no one outlives its parent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.runs.support import NotedLease, hear

from holdfast import BaseEvent, Run, RunStatus, Runtime, bind, current_run_id
from holdfast.errors import RunEndedError, RunFailedError, SyncInAsyncError
from holdfast.events import RunCancelledEvent, RunStartedEvent


class PingEvent(BaseEvent):
    """Something happened."""


async def ping(run: Run) -> str:
    run.emit(PingEvent())
    return run.id


def sync_ping(run: Run) -> str:
    run.emit(PingEvent())
    return run.id


@pytest.mark.parametrize("leaf", ["async", "thread", "loop in a thread"])
async def test_s3_1_cancelling_reaches_grandchildren_and_waits_for_them(runtime: Runtime, leaf: str) -> None:
    notes: list[str] = []
    loop, inside = asyncio.get_running_loop(), asyncio.Event()
    heard = hear(runtime, RunCancelledEvent)

    async def async_leaf(run: Run) -> None:
        run.own(NotedLease(notes, run.name))
        loop.call_soon_threadsafe(inside.set)
        await asyncio.Event().wait()

    def thread_leaf(run: Run) -> None:
        run.own(NotedLease(notes, run.name))
        loop.call_soon_threadsafe(inside.set)
        while not run.is_ending:
            pass

    async def middle(run: Run) -> None:
        run.own(NotedLease(notes, run.name))
        if leaf == "async":
            await runtime.arun(async_leaf, name="leaf")
        else:
            await run.spawn(lambda: runtime.run(thread_leaf if leaf == "thread" else async_leaf, name="leaf"))

    async def top(run: Run) -> None:
        run.own(NotedLease(notes, run.name))
        await runtime.arun(middle, name="middle")

    run = runtime.start(top, name="top")
    await inside.wait()
    assert [h.name for h in runtime.inventory() if h.kind == "run"] == ["top", "middle", "leaf"]
    await run.acancel("enough")
    assert notes == ["released leaf", "released middle", "released top"]
    assert [(e.source_name, getattr(e, "reason", "")) for e in heard] == [
        ("leaf", "enough"), ("middle", "enough"), ("top", "enough"),
    ]  # fmt: skip
    assert runtime.inventory() == []


async def test_a_childs_failure_comes_to_whoever_awaits_it_and_may_be_handled(runtime: Runtime) -> None:
    async def bad(run: Run) -> None:
        raise ValueError("no")

    async def forgiving(run: Run) -> str:
        try:
            await runtime.arun(bad)
        except RunFailedError as error:
            return str(error.__cause__)
        return "nothing happened"

    async def strict(run: Run) -> None:
        await runtime.arun(bad)

    assert await runtime.arun(forgiving) == "no"
    with pytest.raises(RunFailedError, match=r"RunFailedError: .*ValueError: no"):
        await runtime.arun(strict)


async def test_a_childs_failure_that_nobody_awaits_is_logged_and_does_not_fail_the_parent(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    async def bad(run: Run) -> None:
        raise ValueError("no")

    async def careless(run: Run) -> str:
        runtime.start(bad, name="child")
        return "result"

    assert await runtime.arun(careless) == "result"
    assert [r.getMessage() for r in caplog.records if "(child) failed and nobody waits for it" in r.getMessage()]


async def test_a_parent_waits_for_a_child_that_nobody_awaits(runtime: Runtime) -> None:
    go, notes = asyncio.Event(), []

    async def child(run: Run) -> None:
        await go.wait()
        notes.append("child done")

    async def parent(run: Run) -> str:
        runtime.start(child)
        return "result"

    run = runtime.start(parent)
    for _ in range(8):
        await asyncio.sleep(0)
    assert run.status is RunStatus.RUNNING
    go.set()
    assert await run == "result"
    assert notes == ["child done"]


async def test_run_inside_a_blocking_step_makes_a_child_driven_from_that_thread(runtime: Runtime) -> None:
    threads: list[int] = []

    def child(run: Run) -> Run | None:
        threads.append(threading.get_ident())
        return run.parent

    async def async_child(run: Run) -> Run | None:
        threads.append(threading.get_ident())
        return run.parent

    async def body(run: Run) -> bool:
        def step() -> list[Run | None]:
            threads.append(threading.get_ident())
            return [runtime.run(child), runtime.run(async_child)]

        parents: list[Run | None] = await run.spawn(step)
        return parents == [run, run]

    assert await runtime.arun(body)
    assert len(set(threads)) == 1


async def test_run_inside_an_async_step_is_refused_and_names_arun(runtime: Runtime) -> None:
    async def body(run: Run) -> None:
        with pytest.raises(SyncInAsyncError, match=r"await arun"):
            runtime.run(ping)
        with pytest.raises(SyncInAsyncError, match=r"await arun"):
            runtime.run(sync_ping)

    await runtime.arun(body)


async def test_a_run_started_where_an_ended_run_was_current_is_a_root(runtime: Runtime) -> None:
    later: list[Callable[[], Any]] = []

    async def body(run: Run) -> None:
        later.append(bind(lambda: runtime.start(ping)))

    await runtime.arun(body)
    run: Run = later[0]()
    assert run.parent is None
    assert await run == run.root_id


async def test_a_child_is_refused_once_its_parent_ends(runtime: Runtime) -> None:
    refused: list[str] = []

    async def body(run: Run) -> None:
        run.cancel("enough")
        with pytest.raises(RunEndedError, match="cannot start a run inside run it"):
            runtime.start(ping)
        refused.append("yes")

    await runtime.start(body, name="it").ended()
    assert refused == ["yes"]
    assert runtime.runs() == []


async def test_s2_7_successive_nested_and_simultaneous_runs_have_distinct_ids(runtime: Runtime) -> None:
    ids: list[str] = []

    async def body(run: Run, depth: int) -> None:
        ids.append(run.id)
        assert current_run_id() == run.id
        if depth:
            await asyncio.gather(*(runtime.arun(body, depth - 1) for _ in range(2)))
            await runtime.arun(body, depth - 1)
            assert current_run_id() == run.id

    await runtime.arun(body, 2)
    await asyncio.gather(*(runtime.arun(body, 1) for _ in range(3)))
    assert len(ids) == len(set(ids)) == 13 + 3 * 4
    assert current_run_id() is None


def test_s2_7_the_context_is_restored_after_run(runtime: Runtime) -> None:
    def outer(run: Run) -> None:
        for body in (sync_ping, ping, sync_ping):
            assert runtime.run(body) != run.id
            assert current_run_id() == run.id

    def breaks(run: Run) -> None:
        raise ValueError("no")

    runtime.run(outer)
    assert current_run_id() is None
    with pytest.raises(RunFailedError):
        runtime.run(breaks)
    assert current_run_id() is None


async def test_s2_7_the_context_is_restored_after_arun_and_start(runtime: Runtime) -> None:
    async def outer(run: Run) -> None:
        first, second = runtime.start(ping), runtime.start(ping)
        assert current_run_id() == run.id
        assert len({await first, await second, run.id}) == 3
        assert current_run_id() == run.id

    await runtime.arun(outer)
    assert current_run_id() is None


async def test_a_tree_shares_its_root_and_its_numbers(runtime: Runtime) -> None:
    heard = hear(runtime)

    async def top(run: Run) -> str:
        run.emit(PingEvent())
        await runtime.arun(ping)
        await run.spawn(lambda: runtime.run(sync_ping))
        run.emit(PingEvent())
        return run.id

    top_id = await runtime.arun(top)
    other_id = await runtime.arun(ping)
    tree = [e for e in heard if e.root_run_id == top_id]
    assert [e.emission_sequence for e in tree] == list(range(1, len(tree) + 1))
    assert len({e.run_id for e in tree}) == 3
    assert [e.previous_event_id for e in tree] == [None, *(e.event_id for e in tree[:-1])]
    assert [e.emission_sequence for e in heard if e.run_id == other_id] == [1, 2, 3]


async def test_a_childs_events_hang_under_the_step_that_started_it(runtime: Runtime) -> None:
    heard = hear(runtime)

    async def top(run: Run) -> None:
        async def step() -> None:
            await runtime.arun(ping)

        await run.spawn(step, name="starter")

    await runtime.arun(top)
    started = [e for e in heard if isinstance(e, RunStartedEvent)]
    step = next(e for e in heard if e.type == "step_started")
    assert started[0].parent_event_id is None
    assert step.parent_event_id == started[0].event_id
    assert started[1].parent_event_id == step.event_id
