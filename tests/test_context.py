from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from tests.events.samples import NumberEvent, OpenedEvent, emitted, thread, together

from holdfast import BoundExecutor, Run, Runtime, bind, current_run_id, is_replaying, on_behalf_of
from holdfast.context import OUTSIDE, at, position
from holdfast.errors import RunFailedError, UsageError


def seen_in(runtime: Runtime) -> list[str | None]:
    """The run ids of the numbers emitted from now on."""
    seen: list[str | None] = []
    runtime.event_bus.on(NumberEvent)(lambda source, event: seen.append(event.run_id))
    return seen


def emitter(runtime: Runtime) -> Callable[[], str | None]:
    def emit() -> str | None:
        runtime.event_bus.emit(None, NumberEvent())
        return current_run_id()

    return emit


def in_raw_thread(call: Callable[[], object]) -> None:
    with thread(call):
        pass


def in_pool(call: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


@pytest.mark.parametrize("elsewhere", [in_raw_thread, in_pool])
def test_s2_3_a_bound_function_belongs_to_its_run_in_any_thread(
    elsewhere: Callable[[Callable[[], object]], None], runtime: Runtime
) -> None:
    seen = seen_in(runtime)

    def body(run: Run) -> str:
        elsewhere(bind(emitter(runtime)))
        elsewhere(emitter(runtime))
        return run.id

    run_id = runtime.run(body)
    assert seen == [run_id, None]


async def test_s2_3_to_thread_and_executors_keep_the_run(runtime: Runtime) -> None:
    seen = seen_in(runtime)

    async def body(run: Run) -> str:
        await asyncio.to_thread(emitter(runtime))
        loop = asyncio.get_running_loop()
        with BoundExecutor(1) as pool:
            assert await loop.run_in_executor(pool, emitter(runtime)) == run.id
            assert await asyncio.wrap_future(pool.submit(emitter(runtime))) == run.id
            await asyncio.gather(*(loop.run_in_executor(pool, emitter(runtime)) for _ in range(3)))
            assert list(pool.map(lambda _: emitter(runtime)(), range(2))) == [run.id] * 2
        await run.spawn(emitter(runtime))
        return run.id

    run_id = await runtime.arun(body)
    assert seen == [run_id] * 9


async def test_s2_3_a_pool_thread_keeps_nothing_of_the_run_it_last_worked_for(runtime: Runtime) -> None:
    with BoundExecutor(1) as pool:

        async def body(run: Run) -> str | None:
            return await asyncio.wrap_future(pool.submit(current_run_id))

        first, second = await runtime.arun(body), await runtime.arun(body)
        assert first
        assert second
        assert first != second
        assert pool.submit(current_run_id).result() is None


def test_s2_3_one_bound_function_may_be_called_by_four_threads_at_once(runtime: Runtime) -> None:
    # a context can be entered once at a time only; each call needs one of its own
    inside = threading.Barrier(4)

    def work() -> str | None:
        inside.wait(10)
        with on_behalf_of(task_id=str(threading.get_ident())):
            runtime.event_bus.emit(None, OpenedEvent())
            inside.wait(10)
            ids.append(position.get().subject.task_id)
        return current_run_id()

    ids: list[str | None] = []
    runs: list[str | None] = []

    def body(run: Run) -> str:
        bound = bind(work)
        together(*[lambda: runs.append(bound())] * 4)
        return run.id

    run_id = runtime.run(body)
    assert runs == [run_id] * 4
    assert len(set(ids)) == 4


async def test_s2_3_a_bound_async_function_belongs_to_the_run_it_was_bound_in(runtime: Runtime) -> None:
    async def work(number: int) -> tuple[str | None, int]:
        await asyncio.sleep(0)
        return current_run_id(), number

    async def body(run: Run) -> None:
        bound = bind(work)
        inside = asyncio.create_task(asyncio.to_thread(asyncio.run, bound(1)))
        assert await inside == (run.id, 1)
        with at(OUTSIDE):
            assert await bound(number=2) == (run.id, 2)
            assert current_run_id() is None
        partial = bind(functools.partial(work, 3))
        assert await partial() == (run.id, 3)

    await runtime.arun(body)
    assert current_run_id() is None


def test_bind_keeps_name_arguments_result_and_error() -> None:
    def add(left: int, *, right: int) -> int:
        """Sum."""
        if right < 0:
            raise LookupError(right)
        return left + right

    bound = bind(add)
    assert (bound.__name__, bound.__doc__) == ("add", "Sum.")
    assert bound(1, right=2) == 3
    with pytest.raises(LookupError, match="-1"):
        bound(1, right=-1)


def test_bind_ties_to_the_place_of_binding_not_of_calling(runtime: Runtime) -> None:
    bound: list[Callable[[], str | None]] = []

    def outer(run: Run) -> str:
        bound.append(bind(current_run_id))
        inner = runtime.run(lambda child: (child.id, bound[0]()))
        assert inner == (inner[0], run.id)
        return run.id

    run_id = runtime.run(outer)
    assert bound[0]() == run_id
    assert current_run_id() is None


def test_s2_3_a_generator_function_is_bound_or_refused(runtime: Runtime) -> None:
    # its body runs when it is iterated, long after the call that bind() covers
    def numbers() -> Iterator[str | None]:
        yield current_run_id()

    def body(run: Run) -> tuple[str, list[str | None]]:
        try:
            bound = bind(numbers)
        except (TypeError, UsageError):
            return run.id, [run.id]
        found: list[str | None] = []
        with thread(lambda: found.extend(bound())):
            pass
        return run.id, found

    run_id, found = runtime.run(body)
    assert found == [run_id]


async def test_s2_7_successive_nested_and_simultaneous_runs_have_distinct_ids(runtime: Runtime) -> None:
    async def nested(run: Run) -> list[str]:
        inner = await runtime.arun(lambda child: child.id)
        assert current_run_id() == run.id
        return [run.id, inner]

    together_ids = await asyncio.gather(*(runtime.arun(nested) for _ in range(5)))
    ids = [one for pair in together_ids for one in pair]
    ids += await runtime.arun(nested) + await runtime.arun(nested)
    ids += runtime.run(lambda run: [run.id, runtime.run(lambda child: child.id)])
    assert len(set(ids)) == len(ids) == 16
    assert current_run_id() is None


@pytest.mark.parametrize("fails", [False, True])
def test_s2_7_the_context_is_restored_when_a_run_ends(fails: bool, runtime: Runtime) -> None:
    before = position.get()

    def body(run: Run) -> None:
        run.emit(OpenedEvent())  # left open
        if fails:
            raise LookupError

    with pytest.raises(RunFailedError) if fails else nullcontext():
        runtime.run(body)
    assert position.get() is before


def test_s2_7_every_event_of_a_run_carries_its_id(runtime: Runtime) -> None:
    event = NumberEvent()

    def body(run: Run) -> str:
        run.emit(event)
        return run.id

    assert runtime.run(body) == event.run_id == event.root_run_id


def test_on_behalf_of_restores_what_was_before_even_after_an_error() -> None:
    with pytest.raises(LookupError), on_behalf_of(task_id="t"):
        raise LookupError
    assert position.get().subject.task_id is None


def test_outside_everything_there_is_no_run_and_no_replay(runtime: Runtime) -> None:
    emitted(runtime, NumberEvent())
    assert current_run_id() is None
    assert not is_replaying()
