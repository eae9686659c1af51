"""Pausing keeps steps from starting; waiting says that every step waits."""

from __future__ import annotations

import asyncio
import threading

from tests.runs.support import hear, tags, until

from holdfast import BaseEvent, Run, RunStatus, Runtime
from holdfast.events import RunPausedEvent, RunResumedEvent, RunWaitingEvent


async def test_a_paused_run_lets_steps_finish_and_starts_none(runtime: Runtime) -> None:
    notes: list[str] = []
    inside, go = asyncio.Event(), asyncio.Event()

    async def at_work() -> None:
        inside.set()
        await go.wait()
        notes.append("in flight: done")

    async def later() -> None:
        notes.append("later: started")

    async def body(run: Run) -> None:
        await run.spawn(at_work)

    run = runtime.start(body)
    await inside.wait()
    run.pause("a look")
    step = run.spawn(later)
    blocking = run.spawn(notes.append, "blocking: started")
    go.set()
    for _ in range(8):
        await asyncio.sleep(0)
    assert notes == ["in flight: done"]
    run.resume("seen")
    await step
    await blocking
    await run
    assert sorted(notes[1:]) == ["blocking: started", "later: started"]


async def test_a_paused_run_can_be_cancelled_with_steps_at_the_gate(runtime: Runtime) -> None:
    started: list[int] = []
    inside = asyncio.Event()

    async def body(run: Run) -> None:
        inside.set()
        await asyncio.Event().wait()

    run = runtime.start(body)
    await inside.wait()
    run.pause()
    run.spawn(started.append, 1)
    await run.acancel()
    assert run.status is RunStatus.CANCELLED
    assert started == []


async def test_a_run_can_be_paused_and_resumed_from_other_threads_and_more_than_once(runtime: Runtime) -> None:
    heard = hear(runtime, RunPausedEvent, RunResumedEvent)
    inside, go = asyncio.Event(), asyncio.Event()

    async def body(run: Run) -> None:
        inside.set()
        await go.wait()

    run = runtime.start(body)
    await inside.wait()
    for _ in range(2):
        await asyncio.to_thread(run.pause, "why")
        step = run.spawn(threading.get_ident)
        await asyncio.to_thread(run.resume)
        await step
    go.set()
    await run
    assert tags(heard) == ["run_paused", "run_resumed"] * 2


async def test_a_handler_may_resume_the_run_it_is_told_was_paused(runtime: Runtime) -> None:
    # regression: pause() closed the gate after it had told of the pause, and so after it had been resumed
    inside = asyncio.Event()

    async def body(run: Run) -> None:
        inside.set()
        await asyncio.Event().wait()

    run = runtime.start(body)
    await inside.wait()

    @run.on(RunPausedEvent)
    def go_on(source: object, event: BaseEvent) -> None:
        run.resume("at once")

    run.pause()
    assert run.status is RunStatus.RUNNING
    step = run.spawn(threading.get_ident)
    done, _ = await asyncio.wait({asyncio.ensure_future(_await(step))}, timeout=2)
    await run.acancel()
    assert done


async def _await(step: object) -> object:
    try:
        return await step  # type: ignore[misc]
    except asyncio.CancelledError:
        return None


async def test_a_run_waits_only_while_every_step_does(runtime: Runtime) -> None:
    heard = hear(runtime, RunWaitingEvent, RunResumedEvent)
    come = [asyncio.Event(), asyncio.Event()]
    waits = [asyncio.Event(), asyncio.Event()]

    async def step(run: Run, i: int) -> None:
        async with run.waiting(f"answer {i}"):
            waits[i].set()
            await come[i].wait()

    async def body(run: Run) -> None:
        run.spawn(step, run, 0)
        run.spawn(step, run, 1)
        await waits[0].wait()
        await waits[1].wait()
        assert run.status is RunStatus.RUNNING  # the body itself is at work

    run = runtime.start(body)
    await waits[1].wait()
    await until(lambda: run.status is RunStatus.WAITING)
    come[0].set()
    await until(lambda: len(run.inventory()) == 1)
    assert run.status is RunStatus.WAITING
    assert await run.spawn(threading.get_ident)
    come[1].set()
    await run
    assert [(e.type, getattr(e, "from_status", "")) for e in heard][:2] == [
        ("run_waiting", "running"),
        ("run_resumed", "waiting"),
    ]
    assert tags(heard) == ["run_waiting", "run_resumed"] * (len(heard) // 2)


async def test_a_step_that_waits_twice_over_does_not_count_for_two(runtime: Runtime) -> None:
    # regression: waits were counted, not the steps that wait
    waits, come = asyncio.Event(), asyncio.Event()

    async def doubly(run: Run) -> None:
        async with run.waiting("this"), run.waiting("that"):
            waits.set()
            await come.wait()

    async def body(run: Run) -> RunStatus:
        run.spawn(doubly, run)
        await waits.wait()
        status = run.status
        come.set()
        return status

    assert await runtime.arun(body) is RunStatus.RUNNING


async def test_a_run_whose_steps_began_to_wait_while_it_was_paused_waits_when_resumed(runtime: Runtime) -> None:
    # regression: it was running, with nothing at work
    inside, paused, waits, come = (asyncio.Event() for _ in range(4))

    async def body(run: Run) -> None:
        inside.set()
        await paused.wait()
        async with run.waiting("an answer"):
            waits.set()
            await come.wait()

    run = runtime.start(body)
    await inside.wait()
    run.pause()
    paused.set()
    await waits.wait()
    assert run.status.value == RunStatus.PAUSED
    run.resume()
    status = run.status
    come.set()
    await run
    assert status.value == RunStatus.WAITING
