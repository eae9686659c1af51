"""A run that somebody awaits is driven by its own body: begun there and, if nothing has to be awaited, ended there."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest
from tests.runs.support import NotedLease, Stuck, hear, run_script, tags, until

from holdfast import BaseEvent, Run, RunStatus, Runtime
from holdfast.errors import IllegalTransitionError, RunCancelledError, RunFailedError, SyncInAsyncError
from holdfast.events import (
    RunCompletedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunResumedEvent,
    RunStartedEvent,
    StepDisownedEvent,
)
from holdfast.runs import End

Body = Callable[..., Any]


def blocking(run: Run) -> str:
    return "done"


async def awaited(run: Run) -> str:
    return "done"


BODIES = pytest.mark.parametrize("body", [blocking, awaited])


@BODIES
async def test_a_run_that_goes_well_needs_no_supervisor(runtime: Runtime, body: Body) -> None:
    tasks: list[int] = []

    @runtime.event_bus.on(RunStartedEvent, RunCompletedEvent)
    def count(source: object, event: object) -> None:
        tasks.append(sum(task.get_name().startswith("holdfast-run-") for task in asyncio.all_tasks(loop)))

    loop = asyncio.get_running_loop()
    assert await runtime.arun(body) == "done"
    assert tasks == [0, 0]
    assert runtime.inventory() == []


async def test_a_blocking_body_begins_and_ends_its_run_in_one_thread_which_is_free_afterwards(runtime: Runtime) -> None:
    threads: list[str] = []

    @runtime.event_bus.on(RunStartedEvent, RunCompletedEvent)
    def note(source: object, event: object) -> None:
        threads.append(threading.current_thread().name)

    for _ in range(20):
        await runtime.arun(blocking)
    assert set(threads) == {"holdfast-step-1"}
    assert runtime.threads.thread_names == ["holdfast-step-1"]


@BODIES
async def test_a_run_ends_only_when_handlers_that_are_awaited_are_done_with_its_last_event(
    runtime: Runtime, body: Body
) -> None:
    notes: list[str] = []
    stuck = Stuck()

    @runtime.event_bus.on(RunCompletedEvent)
    async def slow(source: object, event: object) -> None:
        await stuck()
        notes.append("handled")

    task = asyncio.create_task(runtime.arun(body))
    await stuck.entered.wait()
    [run] = runtime.runs()
    assert (run.status, run.ending.done.done()) == (RunStatus.COMPLETED, False)
    stuck.let_go.set()
    assert await task == "done"
    assert notes == ["handled"]
    assert runtime.runs() == []


@BODIES
async def test_cancelling_arun_while_its_run_completes_waits_for_that(runtime: Runtime, body: Body) -> None:
    stuck = Stuck()

    @runtime.event_bus.on(RunCompletedEvent)
    async def slow(source: object, event: object) -> None:
        await stuck()

    heard = hear(runtime, RunCompletedEvent)
    task = asyncio.create_task(runtime.arun(body))
    await stuck.entered.wait()
    [run] = runtime.runs()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    stuck.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tags(heard) == ["run_completed"]
    assert run.status is RunStatus.COMPLETED
    assert runtime.runs() == []


@BODIES
async def test_a_run_that_is_cancelled_as_it_begins_does_nothing_more(runtime: Runtime, body: Body) -> None:
    called: list[Any] = []

    @runtime.event_bus.on(RunStartedEvent)
    def refuse(source: Run, event: object) -> None:
        source.cancel("not now")

    with pytest.raises(RunCancelledError, match="not now"):
        await runtime.arun(_noting(body, called))
    assert called == []
    assert runtime.inventory() == []


def _noting(body: Body, called: list[Any]) -> Body:
    """A body of the same kind that notes that it was called."""

    def note(run: Run) -> None:
        called.append(run)

    async def anote(run: Run) -> None:
        called.append(run)

    return note if body is blocking else anote


@BODIES
async def test_a_run_that_is_paused_as_it_begins_waits_at_the_gate(runtime: Runtime, body: Body) -> None:
    called: list[Any] = []

    @runtime.event_bus.on(RunStartedEvent)
    def hold_back(source: Run, event: object) -> None:
        source.pause()

    first, second = (asyncio.create_task(runtime.arun(_noting(body, called))) for _ in range(2))
    await until(lambda: [run.status for run in runtime.runs()] == [RunStatus.PAUSED] * 2)
    assert called == []
    one, other = runtime.runs()
    one.resume()
    other.cancel("never mind")
    await asyncio.wait({first, second})
    assert called == [one]
    assert first.exception() is None
    assert isinstance(second.exception(), RunCancelledError)


async def test_a_blocking_body_that_does_not_stop_is_given_up(runtime: Runtime) -> None:
    heard = hear(runtime, StepDisownedEvent)
    inside, go = threading.Event(), threading.Event()
    runtime.grace = 0.05

    def body(run: Run) -> None:
        inside.set()
        go.wait()

    task = asyncio.create_task(runtime.arun(body, name="stuck"))
    await asyncio.to_thread(inside.wait)
    runtime.runs()[0].cancel("enough")
    with pytest.raises(RunCancelledError, match="enough"):
        await task
    assert [(one.kind, one.name) for one in runtime.inventory()] == [("thread", "stuck")]
    go.set()
    await until(lambda: runtime.inventory() == [])
    assert tags(heard) == ["step_disowned"]


@BODIES
async def test_what_an_awaited_run_holds_is_released(runtime: Runtime, body: Body) -> None:
    notes: list[str] = []

    @runtime.event_bus.on(RunStartedEvent)
    def hold(source: Run, event: object) -> None:
        source.own(NotedLease(notes))

    assert await runtime.arun(body) == "done"
    assert notes == ["released it"]


async def test_a_thread_that_ends_the_run_takes_nothing_in_behind_itself(runtime: Runtime) -> None:
    refused: list[BaseException] = []

    @runtime.event_bus.on(RunCompletedEvent)
    def late(source: Run, event: object) -> None:
        try:
            source.own(NotedLease([]))
        except Exception as error:
            refused.append(error)

    await runtime.arun(blocking)
    assert [type(error).__name__ for error in refused] == ["RunEndedError"]


async def test_a_run_in_a_handler_is_no_handler_itself(runtime: Runtime) -> None:
    inside: list[bool] = []
    looked = asyncio.Event()

    def body(run: Run) -> None:
        inside.append(runtime.event_bus.is_in_handler())

    async def outer(run: Run) -> None:
        await looked.wait()

    @runtime.event_bus.on(RunStartedEvent)
    async def look_into_it(source: object, event: RunStartedEvent) -> None:
        if event.name == "outer":
            inside.append(runtime.event_bus.is_in_handler())
            await runtime.arun(body)
            looked.set()

    await runtime.arun(outer, name="outer")
    assert inside == [True, False]


@BODIES
async def test_a_body_sees_the_callers_context_and_changes_its_own(runtime: Runtime, body: Body) -> None:
    colour = ContextVar("colour", default="none")
    seen: list[str] = []

    def look(run: Run) -> None:
        seen.append(colour.get())
        colour.set("blue")

    async def alook(run: Run) -> None:
        look(run)

    @runtime.event_bus.on(RunCompletedEvent)
    async def heard(source: object, event: object) -> None:
        """Makes the run's end one that must be awaited."""

    colour.set("red")
    await runtime.arun(look if body is blocking else alook)
    assert (seen, colour.get()) == (["red"], "red")


async def test_leases_are_released_in_the_context_that_the_run_was_started_in(runtime: Runtime) -> None:
    colour = ContextVar("colour", default="none")
    seen: list[str] = []

    def body(run: Run) -> None:
        run.hold("thing", "it", lambda: seen.append(colour.get()))
        colour.set("blue")

    colour.set("red")
    await runtime.arun(body)
    assert seen == ["red"]


@BODIES
async def test_a_run_may_be_asked_to_end_otherwise_before_its_body_has_begun(runtime: Runtime, body: Body) -> None:
    heard = hear(runtime, RunStartedEvent, RunFailedEvent)
    make = runtime._make

    def make_and_ask(*args: Any, **options: Any) -> Run:
        run = make(*args, **options)
        run.request_end(End(RunStatus.FAILED, "asked"))
        return run

    runtime._make = make_and_ask  # type: ignore[method-assign]
    with pytest.raises(RunFailedError, match="asked"):
        await runtime.arun(body)
    assert tags(heard) == ["run_started", "run_failed"]
    assert runtime.inventory() == []


async def test_a_supervisor_that_is_cancelled_before_its_first_turn_is_followed_by_another(runtime: Runtime) -> None:
    inside = asyncio.Event()
    notes: list[str] = []

    async def body(run: Run) -> None:
        run.own(NotedLease(notes))
        inside.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(runtime.arun(body))
    await inside.wait()
    runtime.runs()[0].cancel("enough")
    [supervisor] = [one for one in asyncio.all_tasks() if one.get_name().startswith("holdfast-run-")]
    supervisor.cancel()
    with pytest.raises(RunCancelledError, match="enough"):
        await task
    assert notes == ["released it"]


async def test_whoever_waits_for_a_run_hears_of_its_end_and_whoever_comes_later_finds_it(runtime: Runtime) -> None:
    go = threading.Event()

    def body(run: Run) -> str:
        go.wait()
        return "done"

    task = asyncio.create_task(runtime.arun(body))
    await until(lambda: bool(runtime.runs()))
    [run] = runtime.runs()
    early, waits, gives_up = run.ending.done, asyncio.create_task(run.ended()), asyncio.create_task(run.ended())
    await asyncio.sleep(0)
    gives_up.cancel()
    go.set()
    ends = [await waits, early.result(), run.ending.done.result(), await run.ended()]
    assert [end.result for end in ends] == ["done"] * 4
    assert (await task, await run, run.result()) == ("done", "done", "done")
    assert gives_up.cancelled()


@pytest.mark.parametrize("body", ["def body(run): ...", "async def body(run): ..."])
def test_a_handler_that_ends_the_program_ends_it_though_a_run_just_ends(body: str) -> None:
    script = f"""
        import asyncio, sys
        from holdfast import Runtime
        from holdfast.events import RunCompletedEvent

        {body}

        runtime = Runtime()

        @runtime.event_bus.on(RunCompletedEvent)
        def leave(source, event):
            sys.exit(7)

        asyncio.run(runtime.arun(body))
    """
    assert run_script(script).returncode == 7


# -- at the last moment ------------------------------------------------------------------------------------------------


@BODIES
@pytest.mark.parametrize("awaits", [False, True])
async def test_who_asks_for_the_end_just_before_the_body_begins_decides_on_it(
    runtime: Runtime, body: Body, awaits: bool
) -> None:
    make = runtime._make

    def make_and_begin_to_ask(*args: Any, **options: Any) -> Run:
        run = make(*args, **options)
        run.holdings.close_to("work")  # the first half of a request, whose thread then has to wait for its turn
        asyncio.get_running_loop().call_later(0.05, run.request_end, End(RunStatus.FAILED, "asked"))
        return run

    runtime._make = make_and_begin_to_ask  # type: ignore[method-assign]
    with pytest.raises(RunFailedError, match="asked"):
        await (runtime.arun(body) if awaits else runtime.start(body))
    assert runtime.inventory() == []


@pytest.mark.parametrize("event_type", [RunStartedEvent, RunCompletedEvent])
@BODIES
async def test_a_handler_cannot_wait_for_the_end_that_waits_for_it(
    runtime: Runtime, body: Body, event_type: type[BaseEvent]
) -> None:
    refused: list[str] = []

    @runtime.event_bus.on(event_type)
    def wait(source: Run, event: object) -> None:
        with pytest.raises(SyncInAsyncError) as error:
            source.result(5)
        refused.append(str(error.value))

    assert await runtime.arun(body) == "done"
    assert await asyncio.to_thread(runtime.run, blocking) == "done"
    assert len(refused) == 2


@BODIES
@pytest.mark.parametrize("late", [Run.pause, Run.resume])
async def test_nothing_is_told_of_a_run_after_its_end(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, body: Body, late: Callable[[Run], None]
) -> None:
    heard = hear(runtime, RunPausedEvent, RunResumedEvent, RunCompletedEvent)
    stage, refused = runtime.event_bus.stage, []

    def pause_or_resume(run: Run) -> None:
        with pytest.raises(IllegalTransitionError) as error:
            late(run)
        refused.append(error.value)

    def stage_beside_another(run: Run, *args: Any) -> Any:
        if late is Run.resume:
            run._status = RunStatus.PAUSED
        tell = stage(run, *args)
        threads.append(threading.Thread(target=pause_or_resume, args=(run,)))
        threads[0].start()
        threads[0].join(0.05)
        return tell

    threads: list[threading.Thread] = []
    monkeypatch.setattr(runtime.event_bus, "stage", stage_beside_another)
    assert await runtime.arun(body) == "done"
    await asyncio.to_thread(threads[0].join)
    assert tags(heard) == ["run_completed"]
    assert len(refused) == 1


async def test_whoever_sees_that_a_run_has_ended_gets_its_result(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, told = threading.Event(), threading.Event()
    task = asyncio.create_task(runtime.arun(lambda run: go.wait() and "done"))
    await until(lambda: bool(runtime.runs()))
    [run] = runtime.runs()
    done = run.ending.done
    set_result = done.set_result

    def set_late(end: End) -> None:
        told.wait()
        set_result(end)

    monkeypatch.setattr(done, "set_result", set_late)
    go.set()
    await until(lambda: run.ending.end is not None)
    threading.Timer(0.05, told.set).start()
    assert await run == "done"
    assert run.result() == "done"
    assert await task == "done"


@pytest.mark.parametrize("closed", [False, True])
def test_a_blocking_body_ends_its_run_though_its_loop_was_left(closed: bool) -> None:
    script = f"""
        import asyncio, threading
        from holdfast import Runtime
        from holdfast.events import RunCompletedEvent

        runtime = Runtime(grace=0.5)
        inside, go, heard, handled = (threading.Event() for _ in range(4))

        @runtime.event_bus.on(RunCompletedEvent, background=True)
        def slow(source, event):
            heard.set()
            handled.wait()

        def body(run):
            inside.set()
            go.wait()

        async def leave():
            task = asyncio.create_task(runtime.arun(body))
            await asyncio.to_thread(inside.wait)
            return task

        loop = asyncio.new_event_loop()
        task = loop.run_until_complete(leave())
        [run] = runtime.runs()
        if {closed}:
            loop.close()
        go.set()
        heard.wait()
        threading.Timer(0.1, handled.set).start()
        run.ending.done.result(20)
        print(run.status, runtime.inventory())
        runtime.close()
    """
    assert run_script(script).stdout == "completed []\n"


def test_the_runtime_ends_what_a_closed_loop_left_behind() -> None:
    script = """
        import asyncio, threading
        from holdfast import Runtime

        runtime = Runtime(grace=0.1)
        inside, notes = threading.Event(), []

        def body(run):
            run.hold("thing", "it", lambda: notes.append("released"))
            inside.set()

        async def leave():
            kept.append(asyncio.create_task(runtime.arun(body)))
            await asyncio.sleep(0)
            inside.wait()

        kept = []
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave())
        loop.close()
        runtime.close()
        print(notes, runtime.inventory())
    """
    assert run_script(script).stdout == "['released'] []\n"


async def test_the_runtime_closes_though_the_loop_of_a_run_was_left_in_the_middle_of_its_end() -> None:
    runtime = Runtime(grace=0.05)
    loop = asyncio.new_event_loop()
    stuck = threading.Event()

    async def body(run: Run) -> None:
        async def release() -> None:
            stuck.set()
            await asyncio.Event().wait()

        run.hold("thing", "it", release)

    async def leave() -> None:
        task = asyncio.create_task(runtime.arun(body))
        while not stuck.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0)
        kept.append(task)

    kept: list[Any] = []
    await asyncio.to_thread(loop.run_until_complete, leave())
    await asyncio.wait_for(asyncio.to_thread(runtime.close), 20)
    [task] = kept
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.to_thread(loop.run_until_complete, task)
    loop.close()
    assert runtime.runs() == []


async def test_a_run_that_its_parent_ended_does_not_begin_when_its_loop_goes_on(runtime: Runtime) -> None:
    runtime.grace = 0.05
    heard = hear(runtime, RunStartedEvent)
    inside, go = threading.Event(), threading.Event()
    problems: list[Any] = []

    async def child(run: Run) -> None: ...

    async def block() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        asyncio.get_running_loop().call_soon(stick)
        with suppress(RunCancelledError):
            await runtime.arun(child, name="child")
        await asyncio.sleep(0.01)
        gc.collect()

    def stick() -> None:
        inside.set()
        go.wait()

    task = asyncio.create_task(runtime.arun(lambda run: asyncio.run(block()), name="parent"))
    await asyncio.to_thread(inside.wait)
    runtime.runs()[0].cancel("enough")
    with pytest.raises(RunCancelledError):
        await task
    go.set()
    await until(lambda: runtime.inventory() == [])
    assert [event.name for event in heard if isinstance(event, RunStartedEvent)] == ["parent"]
    assert problems == []
