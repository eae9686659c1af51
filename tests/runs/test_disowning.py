"""A blocking step cannot be stopped: one that outlives the grace is given up, listed, and refused from then on."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable

import pytest
from tests.runs.support import NotedLease, hear, run_script, tags, until

from holdfast import BaseEvent, Run, RunStatus, Runtime
from holdfast.errors import RunEndedError
from holdfast.events import StepCompletedEvent, StepDisownedEvent
from holdfast.runs import Holding
from holdfast.testing import ManualClock


class LateEvent(BaseEvent):
    """Something that comes too late."""


class Blocked:
    """A blocking step that returns when told to, and then tries what only a live step may do."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.let_go = threading.Event()
        self.refused: list[str] = []
        self.left = threading.Event()

    def __call__(self, run: Run) -> str:
        self.inside.set()
        self.let_go.wait(30)
        late: dict[str, Callable[[], object]] = {
            "emit": lambda: run.emit(LateEvent()),
            "bus emit": lambda: run.host.event_bus.emit("step", LateEvent()),
            "own": lambda: run.own(NotedLease([])),
            "spawn": lambda: run.spawn(print),
        }
        for what, call in late.items():
            try:
                call()
            except RunEndedError:
                self.refused.append(what)
        self.left.set()
        return "late"


async def give_up(timed: Runtime, clock: ManualClock, blocked: Blocked, as_body: bool) -> Run:
    """A cancelled run whose blocking step, or body, did not stop in time."""

    async def body(run: Run) -> None:
        await run.spawn(blocked, run, name="blocked")

    run = timed.start(blocked, name="blocked") if as_body else timed.start(body, name="it")
    await asyncio.to_thread(blocked.inside.wait, 5)
    run.cancel("enough")
    await clock.until_sleeping()
    clock.advance(4.9)
    await asyncio.sleep(0)
    assert not run.status.is_terminal
    clock.advance(0.1)
    await run.ended()
    return run


@pytest.mark.parametrize("as_body", [False, True], ids=["step", "body"])
async def test_s3_4_a_blocking_step_that_outlives_the_grace_is_disowned(
    timed: Runtime, clock: ManualClock, as_body: bool
) -> None:
    heard = hear(timed, StepDisownedEvent, StepCompletedEvent, LateEvent)
    blocked = Blocked()
    run = await give_up(timed, clock, blocked, as_body)
    assert run.status is RunStatus.CANCELLED
    assert tags(heard) == ["step_disowned"]
    assert timed.inventory() == [Holding("thread", "blocked", run.id)]
    blocked.let_go.set()
    await asyncio.to_thread(blocked.left.wait, 5)
    await until(lambda: not timed.inventory())  # its thread is listed until its call has returned
    assert blocked.refused == ["emit", "bus emit", "own", "spawn"]
    assert tags(heard) == ["step_disowned"]


async def test_whoever_awaits_a_disowned_step_is_told_so(timed: Runtime, clock: ManualClock) -> None:
    blocked = Blocked()
    told: list[str] = []

    async def body(run: Run) -> None:
        step = run.spawn(blocked, run, name="blocked")
        while True:
            try:
                await asyncio.shield(asyncio.ensure_future(wait_for(step)))
            except asyncio.CancelledError:
                continue
            except RunEndedError as error:
                told.append(str(error))
                return

    async def wait_for(step: object) -> None:
        await step  # type: ignore[misc]

    run = timed.start(body)
    await asyncio.to_thread(blocked.inside.wait, 5)
    run.cancel()
    await clock.until_sleeping()
    clock.advance(5)
    await run.ended()
    blocked.let_go.set()
    await until(lambda: bool(told) and not timed.inventory())
    assert "did not stop in time and was given up" in told[0]


async def test_a_blocking_step_that_stops_in_time_is_not_disowned(runtime: Runtime) -> None:
    heard = hear(runtime, StepDisownedEvent)
    inside = threading.Event()

    def polite(run: Run) -> str:
        inside.set()
        while not run.is_ending:
            pass
        return run.end_reason

    run = runtime.start(polite)
    await asyncio.to_thread(inside.wait, 5)
    await run.acancel("please")
    assert run.status is RunStatus.CANCELLED
    assert heard == []


def test_a_child_whose_thread_is_stuck_is_ended_by_its_parent(runtime: Runtime) -> None:
    runtime.grace = 0.1
    notes: list[str] = []
    inside, let_go = threading.Event(), threading.Event()
    outcome: list[BaseException] = []

    def child(run: Run) -> None:
        run.own(NotedLease(notes, "of the child"))
        inside.set()
        let_go.wait(30)

    def step() -> None:
        try:
            runtime.run(child, name="child")
        except BaseException as error:
            outcome.append(error)
            raise

    async def body(run: Run) -> None:
        run.spawn(step)
        await asyncio.to_thread(inside.wait, 5)
        run.cancel("enough")

    async def main() -> None:
        run = runtime.start(body)
        await run.ended()
        assert notes == ["released of the child"]
        assert [h.kind for h in runtime.inventory()] == ["thread"]
        let_go.set()
        await until(lambda: not runtime.inventory())

    asyncio.run(main())
    assert [type(error).__name__ for error in outcome] == ["RunCancelledError"]


STUCK = """
    import asyncio, threading
    from holdfast import Runtime

    released = []
    inside = threading.Event()

    def stuck(run):
        run.hold("thing", "it", lambda: released.append(1))
        inside.set()
        threading.Event().wait()
"""


def test_a_step_that_never_returns_cannot_keep_asyncio_run_from_returning() -> None:
    # regression: the task of a disowned step went on swallowing its cancellation, and asyncio.run waited for it
    done = run_script(
        STUCK
        + """
    async def main():
        runtime = Runtime(grace=0.1)
        run = runtime.start(stuck)
        await asyncio.to_thread(inside.wait)
        await run.acancel()
        await runtime.aclose()

    asyncio.run(main())
    print("left", released)
    """,
        timeout=10,
    )
    assert (done.stdout, done.returncode) == ("left [1]\n", 0), done.stderr
    assert done.stderr.endswith("did not stop in 0.1 s and was given up\n")
    assert done.stderr.count("\n") == 1


def test_a_stuck_step_cannot_keep_close_from_returning() -> None:
    done = run_script(
        STUCK
        + """
    runtime = Runtime(grace=0.1)
    driver = threading.Thread(target=lambda: asyncio.run(runtime.arun(stuck)), daemon=True)
    driver.start()
    inside.wait()
    runtime.close()
    print("left", released)
    """,
        timeout=10,
    )
    assert done.stdout == "left [1]\n", done.stderr
    assert done.returncode == 0


def test_an_async_step_that_ignores_everything_cannot_keep_close_from_returning() -> None:
    # regression: stopping the loop thread waited for every task on it, also for those that were given up
    done = run_script(
        """
    import asyncio
    from holdfast import Runtime

    async def deaf():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

    def body(run):
        run.spawn(deaf)
        raise ValueError("no")

    runtime = Runtime(grace=0.1)
    try:
        runtime.run(body)
    except Exception as error:
        print(error)
    runtime.close()
    """,
        timeout=10,
    )
    assert "ValueError: no" in done.stdout
    assert done.returncode == 0


def test_a_child_whose_loop_is_stuck_is_ended_by_its_parent_without_noise(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    # regression: the child's supervisor came second through the door and died of it, unheard
    runtime.grace = 0.1
    notes: list[str] = []
    inside, let_go = threading.Event(), threading.Event()

    async def child(run: Run) -> None:
        run.own(NotedLease(notes, "of the child"))
        inside.set()
        let_go.wait(30)

    async def body(run: Run) -> None:
        run.spawn(lambda: runtime.run(child, name="child"))
        await asyncio.to_thread(inside.wait, 5)
        run.cancel("enough")

    async def main() -> None:
        await runtime.start(body).ended()
        assert notes == ["released of the child"]
        let_go.set()
        await until(lambda: not runtime.inventory())

    asyncio.run(main())
    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
