"""`Runtime`: the ways in, the wrong ways in, and closing."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.runs.support import NotedLease, Stuck, hear

from holdfast import BaseEvent, Run, RunStatus, Runtime, default_runtime
from holdfast.errors import BusClosedError, RunCancelledError, RuntimeClosedError, SyncInAsyncError, WrongLoopError


async def quick(run: Run) -> int:
    return 7


async def endless(run: Run) -> None:
    await asyncio.Event().wait()


def blocking(run: Run) -> int:
    return 7


class Elsewhere:
    """A run that lives on a loop in another thread until it is told to end."""

    def __init__(self, runtime: Runtime, notes: list[str]) -> None:
        self._runtime, self._notes = runtime, notes
        self._inside = threading.Event()
        self.outcome: BaseException | None = None
        self._thread = threading.Thread(target=self._drive)

    def _drive(self) -> None:
        try:
            asyncio.run(self._runtime.arun(self._body, name="elsewhere"))
        except BaseException as error:
            self.outcome = error

    async def _body(self, run: Run) -> None:
        self.run = run
        run.own(NotedLease(self._notes, "elsewhere"))
        self._inside.set()
        await asyncio.Event().wait()

    def start(self) -> Run:
        self._thread.start()
        assert self._inside.wait(5)
        return self.run

    def join(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()


# -- ways in -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [quick, blocking])
def test_run_works_without_a_loop(runtime: Runtime, body: object) -> None:
    assert runtime.run(body) == 7  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [quick, blocking])
async def test_run_works_in_a_running_loop_outside_any_run(runtime: Runtime, body: object) -> None:
    assert runtime.run(body, name="it") == 7  # type: ignore[arg-type]


def test_run_works_in_many_threads_at_once(runtime: Runtime) -> None:
    together = threading.Barrier(8, timeout=10)

    def body(run: Run) -> str:
        together.wait()
        return run.id

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: runtime.run(body), range(8)))
    assert len(set(ids)) == 8


@pytest.mark.parametrize("body", [quick, blocking])
def test_an_option_that_does_not_exist_is_refused(runtime: Runtime, body: object) -> None:
    # regression: run() of a blocking body dropped it in silence
    with pytest.raises(TypeError, match="colour"):
        runtime.run(body, colour="red")  # type: ignore[arg-type]


def test_the_default_runtime_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: default_runtime(), range(8)))
    assert len({id(runtime) for runtime in found}) == 1


# -- wrong ways in -----------------------------------------------------------------------------------------------------


async def test_awaiting_a_run_of_another_loop_is_refused_and_says_what_to_do(runtime: Runtime) -> None:
    elsewhere = Elsewhere(runtime, [])
    run = await asyncio.to_thread(elsewhere.start)
    with pytest.raises(WrongLoopError, match=r"elsewhere lives on another event loop; .* run.result\(\) in a thread"):
        await run
    run.cancel("enough")
    with pytest.raises(RunCancelledError, match="enough"):
        await asyncio.to_thread(run.result)
    await asyncio.to_thread(elsewhere.join)
    with pytest.raises(RunCancelledError):
        await run  # it is over: any loop may ask


async def test_result_in_the_runs_own_loop_is_refused_and_says_what_to_do(runtime: Runtime) -> None:
    run = runtime.start(endless)
    with pytest.raises(SyncInAsyncError, match="`await run`"):
        run.result()
    await run.acancel()
    with pytest.raises(RunCancelledError):
        run.result()


async def test_result_gives_up_waiting_after_its_time_out(runtime: Runtime) -> None:
    run = runtime.start(endless)
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(run.result, 0.01)
    await run.acancel()


# -- closing -----------------------------------------------------------------------------------------------------------


async def test_nothing_starts_after_close_and_closing_twice_is_fine(runtime: Runtime) -> None:
    runtime.close()
    runtime.close()
    await runtime.aclose()
    with pytest.raises(RuntimeClosedError, match="make another one"):
        runtime.start(quick)
    with pytest.raises(RuntimeClosedError):
        await asyncio.to_thread(runtime.run, blocking)
    with pytest.raises(BusClosedError):
        runtime.event_bus.emit(None, BaseEvent())


async def test_close_before_anything_started_starts_no_thread() -> None:
    before = threading.active_count()
    Runtime().close()
    assert threading.active_count() == before


async def test_aclose_ends_the_runs_of_this_loop_and_of_others(runtime: Runtime) -> None:
    notes: list[str] = []
    elsewhere = Elsewhere(runtime, notes)
    await asyncio.to_thread(elsewhere.start)
    inside = asyncio.Event()

    async def body(run: Run) -> None:
        run.own(NotedLease(notes, "here"))
        inside.set()
        await asyncio.Event().wait()

    run = runtime.start(body)
    await inside.wait()
    await runtime.aclose()
    assert sorted(notes) == ["released elsewhere", "released here"]
    assert (await run.ended()).reason == "the runtime is closing"
    await asyncio.to_thread(elsewhere.join)
    assert isinstance(elsewhere.outcome, RunCancelledError)


def test_close_ends_runs_in_other_threads(runtime: Runtime) -> None:
    notes: list[str] = []
    elsewhere = Elsewhere(runtime, notes)
    run = elsewhere.start()
    runtime.close()
    assert notes == ["released elsewhere"]
    assert run.status is RunStatus.CANCELLED
    elsewhere.join()


def test_close_waits_for_an_end_that_takes_longer_than_one_part_may() -> None:
    # regression: close() waited for one grace and shut the bus, while the run was still on its way through the door
    runtime = Runtime(grace=0.2)
    heard = hear(runtime)
    notes: list[str] = []
    inside, let_go = threading.Event(), threading.Event()

    async def body(run: Run) -> None:
        run.own(NotedLease(notes, "good"))
        run.own(NotedLease(notes, "stuck", Stuck()))
        run.spawn(let_go.wait, 10)
        inside.set()
        await asyncio.Event().wait()

    runs: list[Run] = []

    async def main() -> None:
        runs.append(runtime.start(body))
        await runs[0].ended()

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    inside.wait(5)
    runtime.close()
    status, told = runs[0].status, [event.type for event in heard]
    let_go.set()
    thread.join(5)
    assert status is RunStatus.CANCELLED
    assert notes == ["released good"]
    assert told[-1] == "run_cancelled"
    assert not thread.is_alive()


async def test_close_in_a_loop_that_has_runs_is_refused_and_changes_nothing(runtime: Runtime) -> None:
    run = runtime.start(endless)
    with pytest.raises(SyncInAsyncError, match=r"await aclose\(\)"):
        runtime.close()
    assert await runtime.arun(quick) == 7
    await run.acancel()


async def test_both_kinds_of_with_close_the_runtime() -> None:
    with Runtime() as one:
        assert one.run(blocking) == 7
    async with Runtime(grace=1.0) as other:
        run = other.start(endless)
    assert run.status is RunStatus.CANCELLED
    for runtime in (one, other):
        with pytest.raises(RuntimeClosedError):
            runtime.start(quick)


async def test_the_inventory_tells_what_each_run_holds(runtime: Runtime) -> None:
    inside = asyncio.Event()

    async def child(run: Run) -> None:
        run.hold("directory", "/tmp/x", lambda: None)
        inside.set()
        await asyncio.Event().wait()

    async def body(run: Run) -> None:
        await runtime.arun(child, name="child")

    run = runtime.start(body, name="top")
    await inside.wait()
    (inner,) = (r for r in runtime.runs() if r is not run)
    assert [(h.kind, h.name, h.run_id) for h in runtime.inventory()] == [
        ("run", "top", run.id),
        ("step", "top", run.id),
        ("run", "child", run.id),
        ("step", "child", inner.id),
        ("directory", "/tmp/x", inner.id),
    ]
    assert runtime.inventory()[1:] == run.inventory()
    await run.acancel()
