"""Cancelling reaches everything the run started, is awaited, and cannot be cut short."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.runs.support import NotedChannel, NotedJournal, NotedLease, Stuck, hear, tags, until

from holdfast import Run, RunStatus, Runtime
from holdfast.errors import RunCancelledError, RunEndedError
from holdfast.events import RunCancelledEvent, RunResumedEvent, StepCancelledEvent, StepDisownedEvent, StepStartedEvent
from holdfast.testing import ManualClock


async def hold_for_ever(run: Run, notes: list[str], inside: asyncio.Event) -> None:
    run.own(NotedLease(notes))
    inside.set()
    await asyncio.Event().wait()


async def test_cancelling_the_task_that_awaits_arun_ends_the_run_first(runtime: Runtime) -> None:
    notes: list[str] = []
    inside = asyncio.Event()
    task = asyncio.create_task(runtime.arun(hold_for_ever, notes, inside))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert notes == ["released it"]
    assert runtime.inventory() == []


async def test_a_time_out_around_arun_is_a_time_out_and_ends_the_run_first(runtime: Runtime) -> None:
    notes: list[str] = []
    inside = asyncio.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await runtime.arun(hold_for_ever, notes, inside)
    assert notes == ["released it"]
    assert runtime.inventory() == []


async def test_cancelling_arun_again_and_again_does_not_cut_the_end_short(runtime: Runtime) -> None:
    notes: list[str] = []
    inside, stuck = asyncio.Event(), Stuck()

    async def body(run: Run) -> None:
        run.own(NotedLease(notes, "slow", stuck))
        await hold_for_ever(run, notes, inside)

    task = asyncio.create_task(runtime.arun(body))
    await inside.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    await stuck.entered.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    stuck.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert notes == ["released it", "released slow"]


async def test_arun_cancelled_while_its_run_ends_still_waits_for_the_last_part(runtime: Runtime) -> None:
    # regression: a run that had its terminal status, but whose streams were still open, was not waited for
    notes: list[str] = []
    stuck = Stuck()

    async def body(run: Run) -> int:
        run.attach(NotedChannel(notes, stuck))
        return 7

    task = asyncio.create_task(runtime.arun(body))
    await stuck.entered.wait()
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    left_early = task.done()
    stuck.let_go.set()
    await asyncio.wait({task})
    await until(lambda: not runtime.inventory())
    assert not left_early
    assert notes == ["closed completed"]


async def test_cancelling_a_wait_for_a_run_leaves_the_run_alone(runtime: Runtime) -> None:
    go = asyncio.Event()

    async def body(run: Run) -> int:
        await go.wait()
        return 7

    run = runtime.start(body)
    waiter = asyncio.ensure_future(run.ended())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait({waiter})
    assert not run.is_ending
    go.set()
    assert await run == 7


async def test_the_first_request_wins_and_the_second_says_it_was_late(runtime: Runtime) -> None:
    inside = asyncio.Event()
    run = runtime.start(hold_for_ever, [], inside)
    await inside.wait()
    assert run.cancel("first") is True
    assert run.cancel("second") is False
    assert (await run.ended()).reason == "first"
    with pytest.raises(RunCancelledError, match="first") as caught:
        await run
    assert caught.value.reason == "first"
    assert run.cancel("third") is False


async def test_a_run_cancelled_before_its_start_never_enters_its_body(runtime: Runtime) -> None:
    entered: list[Run] = []
    heard = hear(runtime)

    async def body(run: Run) -> None:
        entered.append(run)

    run = runtime.start(body)
    await run.acancel("never mind")
    assert entered == []
    assert tags(heard) == ["run_cancelled"]


async def test_a_run_can_be_cancelled_from_another_thread(runtime: Runtime) -> None:
    notes: list[str] = []
    inside = asyncio.Event()
    run = runtime.start(hold_for_ever, notes, inside)
    await inside.wait()
    thread = threading.Thread(target=run.cancel, args=("from afar",))
    thread.start()
    assert (await run.ended()).reason == "from afar"
    thread.join()
    assert notes == ["released it"]


async def test_a_run_can_cancel_itself_and_wait_for_nothing(runtime: Runtime) -> None:
    heard = hear(runtime, RunCancelledEvent)

    async def body(run: Run) -> None:
        await run.acancel("I have seen enough")

    run = runtime.start(body)
    assert (await run.ended()).status is RunStatus.CANCELLED
    assert [getattr(e, "reason", "") for e in heard] == ["I have seen enough"]


@pytest.mark.parametrize("how", ["goes on waiting", "returns a result", "raises something else"])
async def test_a_step_that_swallows_its_cancellation_cannot_change_the_end(runtime: Runtime, how: str) -> None:
    inside = asyncio.Event()
    swallowed = asyncio.Event()

    async def stubborn() -> str:
        inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        if how == "raises something else":
            raise ValueError("in a bad mood")
        if how == "goes on waiting":
            await asyncio.sleep(0)
        return "a result nobody wants"

    async def body(run: Run) -> None:
        await run.spawn(stubborn)

    run = runtime.start(body)
    await inside.wait()
    await run.acancel("enough")
    assert swallowed.is_set()
    assert (await run.ended()).status is RunStatus.CANCELLED


async def test_an_async_step_that_ignores_its_cancellation_is_given_up_within_the_grace(
    timed: Runtime, clock: ManualClock
) -> None:
    heard = hear(timed, StepDisownedEvent, RunCancelledEvent)
    notes: list[str] = []
    inside, at_last = asyncio.Event(), asyncio.Event()
    late: list[BaseException] = []

    async def deaf(run: Run) -> None:
        inside.set()
        while not at_last.is_set():
            try:
                await at_last.wait()
            except asyncio.CancelledError:
                notes.append("ignored")
        try:
            run.own(NotedLease(notes))
        except RunEndedError as error:
            late.append(error)

    async def body(run: Run) -> None:
        run.own(NotedLease(notes))
        run.spawn(deaf, run)

    run = timed.start(body)
    await inside.wait()
    run.cancel("enough")
    await clock.until_sleeping()
    clock.advance(5)
    assert (await run.ended()).status is RunStatus.CANCELLED
    at_last.set()
    await until(lambda: bool(late))
    assert notes == ["ignored", "released it"]
    assert tags(heard) == ["step_disowned", "run_cancelled"]


async def test_a_step_is_told_why_it_was_cancelled(runtime: Runtime) -> None:
    heard = hear(runtime, StepStartedEvent, StepCancelledEvent)
    inside = asyncio.Event()

    async def step() -> None:
        inside.set()
        await asyncio.Event().wait()

    async def body(run: Run) -> None:
        await run.spawn(step)

    run = runtime.start(body)
    await inside.wait()
    await run.acancel("the budget is spent")
    assert tags(heard) == ["step_started", "step_cancelled"]
    assert getattr(heard[1], "reason", "") == "the budget is spent"
    assert heard[1].started_event_id == heard[0].event_id


async def test_a_step_whose_cancellation_overtakes_its_start_is_cancelled_and_not_given_up(runtime: Runtime) -> None:
    # regression: a task that is cancelled before its first turn never runs, and its step never said that it was over
    heard = hear(runtime, StepDisownedEvent)
    cancelled = threading.Event()
    waits = asyncio.Event()
    starting = threading.Event()

    async def body(run: Run) -> None:
        async with run.waiting("a step"):
            waits.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    async def step() -> None:
        await asyncio.Event().wait()

    run = runtime.start(body)
    await waits.wait()

    @run.on(RunResumedEvent)
    def stall(source: object, event: object) -> None:
        starting.set()
        cancelled.wait(5)  # between the step's registration and its start, the run is cancelled

    spawner = threading.Thread(target=run.spawn, args=(step,))
    spawner.start()
    await asyncio.to_thread(starting.wait, 5)
    await run.acancel("enough")
    spawner.join()
    assert heard == []


async def test_a_journal_write_cut_off_by_a_cancelled_loop_is_not_taken_for_a_failure(runtime: Runtime) -> None:
    """Whoever cancels every task of the loop, as `asyncio.run` does when it leaves, does not lose the end of a run."""
    notes: list[str] = []
    entered: list[int] = []

    async def slow_once() -> None:
        entered.append(1)
        if len(entered) == 1:
            reached.set()
            await asyncio.Event().wait()

    reached = asyncio.Event()

    async def body(run: Run) -> int:
        return 7

    run = runtime.start(body, journal=NotedJournal(notes, slow_once))
    await reached.wait()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    assert await run == 7
    assert notes == ["committed completed"]
