"""Steps: where they run, what they give back, and that the run waits for every one of them."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest
from tests.runs.support import hear, run_script, tags

from holdfast import Run, RunStatus, Runtime, bind, current_run_id
from holdfast.errors import RunEndedError, RunFailedError
from holdfast.events import StepCancelledEvent, StepCompletedEvent, StepFailedEvent, StepStartedEvent

STEP_EVENTS = (StepStartedEvent, StepCompletedEvent, StepFailedEvent, StepCancelledEvent)


def double(number: int) -> int:
    return 2 * number


async def adouble(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def test_a_step_gives_its_result_to_whoever_awaits_it_as_often_as_they_do(runtime: Runtime) -> None:
    heard = hear(runtime, *STEP_EVENTS)

    async def body(run: Run) -> list[int]:
        step, astep = run.spawn(double, 1), run.spawn(adouble, 2, name="later")
        return [await step, await astep, await step]

    assert await runtime.arun(body) == [2, 4, 2]
    assert sorted((e.type, getattr(e, "name", "")) for e in heard) == [
        ("step_completed", "double"),
        ("step_completed", "later"),
        ("step_started", "double"),
        ("step_started", "later"),
    ]


@pytest.mark.parametrize("awaited", [True, False])
@pytest.mark.parametrize("kind", ["blocking", "async"])
async def test_a_step_that_raises_fails_its_run_and_its_siblings_are_cancelled_and_awaited(
    runtime: Runtime, awaited: bool, kind: str
) -> None:
    notes: list[str] = []
    inside = asyncio.Event()

    async def sibling() -> None:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            notes.append("sibling stopped")

    async def bad() -> None:
        raise ValueError("no")

    def blocking_bad() -> None:
        raise ValueError("no")

    async def body(run: Run) -> None:
        run.spawn(sibling)
        await inside.wait()
        step = run.spawn(bad if kind == "async" else blocking_bad)
        if awaited:
            await step
        else:
            await asyncio.Event().wait()

    run = runtime.start(body)
    with pytest.raises(RunFailedError, match="ValueError: no") as caught:
        await run
    assert isinstance(caught.value.__cause__, ValueError)
    assert notes == ["sibling stopped"]
    assert run.status is RunStatus.FAILED


async def test_a_step_that_raises_says_so_and_closes_its_scope(runtime: Runtime) -> None:
    heard = hear(runtime, *STEP_EVENTS)

    async def body(run: Run) -> None:
        run.spawn(double, None)

    await runtime.start(body).ended()
    assert tags(heard) == ["step_started", "step_failed"]
    assert heard[1].started_event_id == heard[0].event_id
    assert getattr(heard[1], "error_type", "") == "TypeError"


def test_a_blocking_step_that_raises_stop_iteration_fails_its_run() -> None:
    # regression: asyncio refuses to carry a StopIteration, and the step never ended; in a process of its own, as it hung
    done = run_script(
        """
    from holdfast import Runtime

    async def body(run):
        await run.spawn(lambda: next(iter(())))

    with Runtime(grace=0.1) as runtime:
        try:
            runtime.run(body)
        except Exception as error:
            print(type(error).__name__)
    """,
        timeout=10,
    )
    assert done.stdout == "RunFailedError\n", done.stderr


async def test_the_run_waits_for_its_steps_after_its_body_returned(runtime: Runtime) -> None:
    go, notes = asyncio.Event(), ["body done"]

    async def slow() -> None:
        await go.wait()
        notes.append("step done")

    async def body(run: Run) -> str:
        run.spawn(slow)
        return "result"

    run = runtime.start(body)
    for _ in range(5):
        await asyncio.sleep(0)
    assert run.status is RunStatus.RUNNING
    assert [h.kind for h in run.inventory()] == ["step"]
    go.set()
    assert await run == "result"
    assert notes == ["body done", "step done"]


def test_a_blocking_body_waits_for_its_steps_too(runtime: Runtime) -> None:
    notes: list[int] = []

    async def slow() -> None:
        notes.append(await adouble(2))

    def body(run: Run) -> str:
        run.spawn(slow)
        run.spawn(lambda: notes.append(double(4)))
        return "result"

    assert runtime.run(body) == "result"
    assert sorted(notes) == [4, 8]


def test_a_step_that_raises_fails_the_run_of_a_blocking_body(runtime: Runtime) -> None:
    def body(run: Run) -> str:
        run.spawn(double, None)
        return "result"

    with pytest.raises(RunFailedError, match="TypeError"):
        runtime.run(body)


async def test_a_blocking_step_never_runs_in_the_thread_of_the_loop(runtime: Runtime) -> None:
    async def body(run: Run) -> list[int]:
        return [await run.spawn(threading.get_ident) for _ in range(3)]

    idents = await runtime.arun(body)
    assert threading.get_ident() not in idents
    assert await runtime.arun(lambda run: threading.get_ident()) != threading.get_ident()


async def test_a_blocking_step_may_have_a_loop_of_its_own(runtime: Runtime) -> None:
    async def body(run: Run) -> int:
        result: int = await run.spawn(lambda: asyncio.run(adouble(21)))
        return result

    assert await runtime.arun(body) == 42


async def test_blocking_steps_run_side_by_side_however_many(runtime: Runtime) -> None:
    barrier = threading.Barrier(20, timeout=10)

    async def body(run: Run) -> int:
        steps = [run.spawn(barrier.wait) for _ in range(20)]
        return len({await step for step in steps})

    assert await runtime.arun(body) == 20


async def test_a_step_can_start_steps_from_the_loop_and_from_a_thread(runtime: Runtime) -> None:
    done: list[str] = []

    async def body(run: Run) -> None:
        def from_thread() -> None:
            run.spawn(leaf, "thread")

        async def from_loop() -> None:
            run.spawn(leaf, "loop")

        async def leaf(name: str) -> None:
            done.append(name)

        run.spawn(from_thread)
        run.spawn(from_loop)

    await runtime.arun(body)
    assert sorted(done) == ["loop", "thread"]


async def test_s2_3_every_step_knows_its_run_in_loops_and_threads(runtime: Runtime) -> None:
    async def body(run: Run) -> None:
        async def async_step() -> str | None:
            return current_run_id()

        seen = [
            await run.spawn(current_run_id),
            await run.spawn(async_step),
            await run.spawn(lambda: asyncio.run(async_step())),
            await asyncio.to_thread(current_run_id),
            await asyncio.create_task(async_step()),
        ]
        raw: list[str | None] = []

        def note() -> None:
            raw.append(current_run_id())

        thread = threading.Thread(target=bind(note))
        thread.start()
        thread.join()
        assert [*seen, *raw] == [run.id] * 6

    await runtime.arun(body)


async def test_s2_3_a_step_spawned_from_outside_belongs_to_the_run_it_was_given_to(runtime: Runtime) -> None:
    go = asyncio.Event()

    async def body(run: Run) -> None:
        await go.wait()

    one, other = runtime.start(body), runtime.start(body)
    assert await one.spawn(current_run_id) == one.id
    assert await other.spawn(current_run_id) == other.id
    assert current_run_id() is None
    go.set()
    await one
    await other


async def test_spawn_is_refused_once_the_end_was_requested(runtime: Runtime) -> None:
    refused: list[str] = []

    async def body(run: Run) -> None:
        run.cancel("enough")
        with pytest.raises(RunEndedError, match="cannot start a step of run it"):
            run.spawn(adouble, 1)
        refused.append("ending")

    run = runtime.start(body, name="it")
    await run.ended()
    with pytest.raises(RunEndedError, match="it is ending or has ended"):
        run.spawn(double, 1)
    assert refused == ["ending"]
    assert runtime.inventory() == []


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("kind", ["blocking", "async"])
@pytest.mark.parametrize("where", ["body", "step"])
async def test_the_end_of_another_run_fails_whoever_runs_into_it(
    runtime: Runtime, where: str, kind: str, waits: bool
) -> None:
    """It was taken for the run's own end: the run completed with None."""
    other = runtime.start(lambda run: None, name="other")
    await other.ended()

    def blocking(run: Run) -> None:
        other.spawn(double, 1)

    async def awaiting(run: Run) -> None:
        other.spawn(double, 1)

    call = blocking if kind == "blocking" else awaiting

    async def spawning(run: Run) -> None:
        run.spawn(call, run)

    body = call if where == "body" else spawning
    with pytest.raises(RunFailedError, match="RunEndedError: cannot start a step of run other"):
        await (runtime.arun(body) if waits else runtime.start(body))


async def test_its_own_end_does_not_fail_a_run_although_it_is_only_being_asked_for(runtime: Runtime) -> None:
    async def body(run: Run) -> None:
        run.holdings.close_to("work")  # as far as another thread has got that cancels it
        asyncio.get_running_loop().call_soon(run.cancel, "enough")
        run.spawn(adouble, 1)

    end = await runtime.start(body).ended()
    assert (end.status, end.reason) == (RunStatus.CANCELLED, "enough")


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("where", ["body", "step"])
async def test_a_step_that_gets_no_thread_fails_and_its_run_ends(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, where: str, waits: bool
) -> None:
    """It was in flight for ever, and so was its run."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def spawning(run: Run) -> None:
        run.spawn(double, 1)

    body = double if where == "body" else spawning
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        async with asyncio.timeout(5):
            with pytest.raises(RunFailedError, match="can't start new thread"):
                await (runtime.arun(body) if waits else runtime.start(body))
    assert runtime.inventory() == []


async def test_a_cancelled_wait_for_a_step_leaves_the_step_alone(runtime: Runtime) -> None:
    go = asyncio.Event()

    async def slow() -> int:
        await go.wait()
        return 7

    async def body(run: Run) -> int:
        step = run.spawn(slow)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await step
        go.set()
        return int(await step)

    assert await runtime.arun(body) == 7


async def test_a_run_cancelled_while_its_body_awaits_a_step_leaves_no_error_in_the_log(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    # regression: asyncio reported "Future exception was never retrieved" for each such step
    inside = asyncio.Event()

    async def slow() -> None:
        inside.set()
        await asyncio.Event().wait()

    async def body(run: Run) -> None:
        await run.spawn(slow)

    run = runtime.start(body)
    await inside.wait()
    await run.acancel()
    del run
    gc.collect()
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_body_that_is_no_async_function_runs_in_a_thread(runtime: Runtime) -> None:
    def body(run: Run, number: int) -> tuple[int, bool]:
        return double(number), current_run_id() == run.id

    assert await runtime.arun(body, 21) == (42, True)
