"""A run's own handlers: they hear its tree, nothing else, and are gone when it ends."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.runs.support import hear

from holdfast import BaseEvent, Run, Runtime, bind
from holdfast.errors import RunEndedError
from holdfast.events import RunCompletedEvent


class SaidEvent(BaseEvent):
    """Somebody said something."""

    text: str


def listen(run: Run) -> list[str]:
    heard: list[str] = []

    @run.on(SaidEvent)
    def note(source: object, event: SaidEvent) -> None:
        heard.append(event.text)

    return heard


async def test_s2_4_concurrent_runs_in_one_loop_never_hear_each_other(runtime: Runtime) -> None:
    together = asyncio.Barrier(10)

    async def body(run: Run, number: int) -> set[str]:
        heard = listen(run)
        await together.wait()
        for i in range(100):
            run.emit(SaidEvent(text=f"{number}"))
            if i % 10 == 0:
                await asyncio.sleep(0)
        await together.wait()
        assert len(heard) == 100
        return set(heard)

    results = await asyncio.gather(*(runtime.arun(body, i) for i in range(10)))
    assert results == [{f"{i}"} for i in range(10)]


def test_s2_4_concurrent_runs_in_threads_never_hear_each_other(runtime: Runtime) -> None:
    together = threading.Barrier(8, timeout=10)

    def body(run: Run, number: int) -> set[str]:
        heard = listen(run)
        together.wait()
        for _ in range(200):
            run.emit(SaidEvent(text=f"{number}"))
        together.wait()
        assert len(heard) == 200
        return set(heard)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: runtime.run(body, i), range(8)))
    assert results == [{f"{i}"} for i in range(8)]


async def test_a_run_hears_the_runs_inside_it_and_they_do_not_hear_it(runtime: Runtime) -> None:
    async def child(run: Run, name: str) -> list[str]:
        heard = listen(run)
        run.emit(SaidEvent(text=name))
        return heard

    async def parent(run: Run) -> list[list[str]]:
        heard = listen(run)
        run.emit(SaidEvent(text="parent"))
        return [heard, await runtime.arun(child, "first"), await runtime.arun(child, "second")]

    assert await runtime.arun(parent) == [["parent", "first", "second"], ["first"], ["second"]]


async def test_s2_4_an_event_outside_any_run_reaches_no_run(runtime: Runtime) -> None:
    everything = hear(runtime, SaidEvent)
    go = asyncio.Event()

    async def body(run: Run) -> list[str]:
        heard = listen(run)
        await go.wait()
        return heard

    run = runtime.start(body)
    await asyncio.sleep(0)
    runtime.event_bus.emit(None, SaidEvent(text="from nowhere"))
    go.set()
    assert await run == []
    assert [(e.run_id, getattr(e, "text", "")) for e in everything] == [(None, "from nowhere")]
    assert runtime.event_bus.statistics().outside_runs == 1


async def test_a_runs_handlers_hear_its_last_event_and_are_gone_after_it(runtime: Runtime) -> None:
    heard: list[str] = []
    runs: list[Run] = []

    async def body(run: Run) -> None:
        @run.on(RunCompletedEvent)
        def note(source: object, event: RunCompletedEvent) -> None:
            heard.append(event.type)

    for _ in range(2):
        runs.append(runtime.start(body))
        await runs[-1]
    assert heard == ["run_completed"] * 2
    assert runtime.event_bus.registrations() == []
    with pytest.raises(RunEndedError, match="it has ended"):
        runs[0].on(SaidEvent)(lambda source, event: None)


async def test_an_event_emitted_late_from_a_bound_thread_is_refused(runtime: Runtime) -> None:
    late = []

    async def body(run: Run) -> None:
        late.append(bind(lambda: run.emit(SaidEvent(text="late"))))

    run = runtime.start(body)
    await run
    with pytest.raises(RunEndedError, match="takes no more events"):
        await asyncio.to_thread(late[0])
    with pytest.raises(RunEndedError, match="takes no more events"):
        run.emit(SaidEvent(text="late"))


@pytest.mark.parametrize("driver", ["thread", "loop"])
def test_the_end_waits_for_background_handlers_whoever_drives_the_run(runtime: Runtime, driver: str) -> None:
    # regression: a run driven by a plain thread returned before its background handlers had seen its end
    returned = threading.Event()
    late: list[bool] = []

    @runtime.event_bus.on(RunCompletedEvent, background=True)
    def slow(source: object, event: BaseEvent) -> None:
        late.append(returned.wait(0.3))

    async def abody(run: Run) -> None:
        pass

    runtime.run(abody if driver == "loop" else lambda run: None)
    returned.set()
    runtime.event_bus.flush()
    assert late == [False]


@pytest.mark.parametrize("driver", ["thread", "loop"])
def test_the_end_waits_for_a_handler_that_another_thread_is_in(runtime: Runtime, driver: str) -> None:
    # regression: the queue was empty, so that the handler at work on what came out of it was not waited for
    returned, inside = threading.Event(), threading.Event()
    late: list[bool] = []
    threads: list[threading.Thread] = []

    @runtime.event_bus.on(SaidEvent)
    def slow(source: object, event: BaseEvent) -> None:
        inside.set()
        late.append(returned.wait(0.3))

    def body(run: Run) -> None:
        def say() -> None:
            run.emit(SaidEvent(text="x"))

        threads.append(threading.Thread(target=bind(say)))
        threads[0].start()
        inside.wait(5)

    async def abody(run: Run) -> None:
        body(run)

    runtime.run(abody if driver == "loop" else body)
    returned.set()
    threads[0].join()
    assert late == [False]


def test_a_handler_in_a_thread_may_start_a_run_without_waiting_for_itself(runtime: Runtime) -> None:
    # regression: the end of the inner run waited for the queue that this very thread was emptying, for a whole grace
    runtime.grace = 30.0
    results: list[int] = []

    def body(run: Run) -> None:
        @run.on(SaidEvent)
        def start_another(source: object, event: BaseEvent) -> None:
            results.append(runtime.run(lambda inner: 7))

        run.emit(SaidEvent(text="go"))

    thread = threading.Thread(target=runtime.run, args=(body,), daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert results == [7]
