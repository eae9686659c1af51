"""RunStream: reading in plain code and in coroutines, the end, leaving early, being thrown away."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from tests.streaming.support import Breaks, Forever, PlainTalk, Talk, asay, say, texts

from holdfast import CheckpointConfig, Flow, Frame, Pending, Run, RunStream, Runtime, human_feedback, listen, start
from holdfast.context import is_replaying
from holdfast.errors import RunCancelledError, RunEndedError, SyncInAsyncError
from holdfast.events import CheckpointCompletedEvent, LLMStreamChunkEvent, MethodExecutionFinishedEvent
from holdfast.human import LaterProvider
from holdfast.stores import SqliteStore
from holdfast.streaming import observe

TYPES = [
    "run_started",
    "flow_started",
    "method_execution_started",
    "llm_stream_chunk",
    "llm_stream_chunk",
    "llm_stream_chunk",
    "method_execution_finished",
    "flow_finished",
    "run_completed",
]


@pytest.mark.parametrize("kind", [Talk, PlainTalk])
def test_s2_1_plain_code_reads_every_frame_in_order_and_then_the_result(
    kind: type[Flow[Any]], runtime: Runtime
) -> None:
    stream = kind(name="a", runtime=runtime).kickoff(stream=True)
    assert isinstance(stream, RunStream)
    frames = list(stream)
    assert [frame.type for frame in frames] == TYPES
    assert texts(frames) == ["a 0", "a 1", "a 2"]
    assert {frame.run_id for frame in frames} == {stream.run_id}
    assert {frame.path for frame in frames} == {("a",)}
    assert [frame.seq for frame in frames] == sorted({frame.seq for frame in frames})
    assert len({frame.id for frame in frames}) == len(frames)
    assert stream.result == "a is done"
    assert list(stream) == []


@pytest.mark.parametrize("kind", [Talk, PlainTalk])
async def test_s2_1_a_coroutine_reads_every_frame_in_order_and_then_the_result(
    kind: type[Flow[Any]], runtime: Runtime
) -> None:
    stream = await kind(name="a", runtime=runtime).akickoff(stream=True)
    frames = [frame async for frame in stream]
    assert [frame.type for frame in frames] == TYPES
    assert texts(frames) == ["a 0", "a 1", "a 2"]
    assert stream.result == await stream.aresult() == "a is done"
    assert [frame async for frame in stream] == []


def test_a_flow_may_stream_by_default_and_a_kickoff_may_say_otherwise(runtime: Runtime) -> None:
    class Streams(Talk):
        stream = True

    assert Streams(name="a", runtime=runtime).kickoff().result == "a is done"
    assert Streams(name="a", runtime=runtime).kickoff(stream=False) == "a is done"
    assert Talk(name="a", runtime=runtime, stream=True).kickoff().result == "a is done"
    assert Streams(name="a", runtime=runtime, stream=False).kickoff() == "a is done"


async def test_a_thread_reads_a_run_that_lives_on_another_loop(runtime: Runtime) -> None:
    stream = await Talk(name="a", runtime=runtime).akickoff(stream=True)
    assert texts(await asyncio.to_thread(list, stream)) == ["a 0", "a 1", "a 2"]


async def test_a_coroutine_reads_a_run_that_lives_on_the_runtimes_loop(runtime: Runtime) -> None:
    stream = Talk(name="a", runtime=runtime).kickoff(stream=True)
    assert texts([frame async for frame in stream]) == ["a 0", "a 1", "a 2"]


async def test_blocking_the_runs_own_loop_is_refused_and_the_other_way_still_works(runtime: Runtime) -> None:
    stream = await Talk(name="a", runtime=runtime).akickoff(stream=True)
    with pytest.raises(SyncInAsyncError, match="`async for`"):
        next(stream)
    with pytest.raises(SyncInAsyncError, match="`async for`"):
        _ = stream.result
    with pytest.raises(SyncInAsyncError, match="await aclose"):
        stream.close()
    assert await stream.aresult() == "a is done"


def test_the_run_starts_at_the_call_not_when_it_is_read(runtime: Runtime) -> None:
    begun = threading.Event()

    class Begins(Flow[Any]):
        @start()
        def begin(self) -> None:
            begun.set()

    stream = Begins(runtime=runtime).kickoff(stream=True)
    assert begun.wait(30)
    assert stream.result is None


def test_what_a_run_failed_with_is_raised_after_its_last_frame_and_by_result(runtime: Runtime) -> None:
    stream, frames = Breaks(runtime=runtime).kickoff(stream=True), []
    with pytest.raises(ValueError, match="it broke"):
        frames.extend(stream)
    assert texts(frames) == ["before"]
    assert frames[-1].type == "run_failed"
    assert list(stream) == []
    with pytest.raises(ValueError, match="it broke"):
        _ = stream.result


async def test_the_same_in_a_coroutine(runtime: Runtime) -> None:
    stream = await Breaks(runtime=runtime).akickoff(stream=True)
    types = []

    async def read() -> None:
        async for frame in stream:
            types.append(frame.type)  # noqa: PERF401 - those before the error count

    with pytest.raises(ValueError, match="it broke"):
        await read()
    assert types[-1] == "run_failed"
    with pytest.raises(ValueError, match="it broke"):
        await stream.aresult()


async def test_a_run_that_somebody_else_cancels_ends_its_stream_with_that(runtime: Runtime) -> None:
    stream = await Forever(runtime=runtime).akickoff(stream=True)
    [run] = runtime.runs()
    run.cancel("enough")
    with pytest.raises(RunCancelledError, match="enough"):
        await stream.aresult()


class Asks(Flow[Any]):
    @start()
    @human_feedback(message="good?")
    def draft(self) -> str:
        say("a draft")
        return "text"

    @listen(draft)
    def publish(self) -> str:
        say("published")
        return "out"


def test_a_run_that_waits_for_a_person_comes_through_result_as_pending(runtime: Runtime, tmp_path: Path) -> None:
    shown: list[bool] = []

    @runtime.event_bus.on(MethodExecutionFinishedEvent)
    def look(source: object, event: MethodExecutionFinishedEvent) -> None:
        shown.append(is_replaying())

    with SqliteStore(tmp_path / "runs.db") as store:
        flow = Asks(runtime=runtime, checkpoint=CheckpointConfig(store), human=LaterProvider(), stream=True)
        stream = flow.kickoff()
        frames = list(stream)
        assert texts(frames) == ["a draft"]
        assert "human" in {frame.channel for frame in frames}
        assert isinstance(stream.result, Pending)
        again = flow.resume("yes")
        frames = list(again)
        assert True in shown  # listeners are shown what was done before,
        assert texts(frames) == ["published"]  # the stream is not
        assert "draft" not in [frame.data.get("method_name") for frame in frames]
        assert again.result == "out"


# -- leaving early --------------------------------------------------------------------------------------------------


def first_text(stream: RunStream) -> Frame:
    return next(frame for frame in stream if frame.channel == "text")


def test_closing_early_cancels_the_run_and_frees_everything(runtime: Runtime) -> None:
    flow = Forever(runtime=runtime)
    with flow.kickoff(stream=True) as stream:
        assert first_text(stream).text == "begun"
        [run] = runtime.runs()
    assert flow.cancelled.is_set()
    assert (runtime.inventory(), runtime.runs(), list(stream)) == ([], [], [])
    with pytest.raises(RunCancelledError, match="its stream was closed"):
        _ = stream.result
    stream.close()
    gone = [weakref.ref(thing) for thing in (stream, stream._buffer, run)]
    del stream, run
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]


async def test_closing_early_in_a_coroutine_too(runtime: Runtime) -> None:
    flow = Forever(runtime=runtime)
    async with await flow.akickoff(stream=True) as stream:
        async for frame in stream:
            if frame.channel == "text":
                break
    assert flow.cancelled.is_set()
    assert (runtime.inventory(), runtime.runs(), [frame async for frame in stream]) == ([], [], [])


async def test_closing_one_stream_leaves_the_others_alone(runtime: Runtime) -> None:
    closed = await Forever(name="closed", runtime=runtime).akickoff(stream=True)
    stays = await Talk(name="stays", runtime=runtime).akickoff(stream=True)
    await closed.aclose()
    assert await stays.aresult() == "stays is done"


async def test_a_stream_that_is_thrown_away_warns_and_cancels_its_run(runtime: Runtime) -> None:
    flow = Forever(runtime=runtime)
    stream = await flow.akickoff(stream=True)
    assert texts([await anext(stream) for _ in range(4)]) == ["begun"]
    [run] = runtime.runs()
    held = [stream]
    del stream
    with pytest.warns(ResourceWarning, match="thrown away before its end"):
        held.clear()
    assert (await run.ended()).reason == "its stream was thrown away unread"
    assert flow.cancelled.is_set()
    assert runtime.inventory() == []


def test_a_stream_that_plain_code_throws_away_warns_and_cancels_its_run(runtime: Runtime) -> None:
    flow = Forever(runtime=runtime)
    held = [flow.kickoff(stream=True)]
    assert first_text(held[0]).text == "begun"
    with pytest.warns(ResourceWarning, match="read it to the end, or close it"):
        held.clear()
    assert flow.cancelled.wait(30)
    for run in runtime.runs():
        with pytest.raises(RunCancelledError, match="thrown away"):
            run.result()


def test_a_stream_that_was_read_to_its_end_is_thrown_away_in_silence(runtime: Runtime) -> None:
    stream = Talk(runtime=runtime).kickoff(stream=True)
    assert stream.result
    del stream
    gc.collect()


# -- slow readers ---------------------------------------------------------------------------------------------------


class Steps(Flow[Any]):
    """One chunk after another, each in a step of its own or waited for, and a count of those that were said."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.said = 0
        self.one_more = threading.Semaphore(0)

    def note(self) -> None:
        self.said += 1
        self.one_more.release()


class AwaitsEach(Steps):
    @start()
    async def talk(self) -> None:
        for number in range(3000):
            await asay(str(number))
            self.note()


async def test_a_reader_that_is_behind_makes_its_run_wait_where_chunks_are_awaited(runtime: Runtime) -> None:
    slow = AwaitsEach(runtime=runtime)
    stream = await slow.akickoff(stream=True)
    for _ in range(5000):  # turns of the loop: more than the run would need to say everything
        await asyncio.sleep(0)
    assert slow.said == 1020
    assert await Talk(runtime=runtime).akickoff()  # nobody else is slowed down
    frames = [frame async for frame in stream]
    assert texts(frames) == [str(number) for number in range(3000)]
    assert slow.said == 3000


class ManySteps(Steps):
    """A burst in a step, then further steps: blocking or async."""

    max_method_calls = 10

    @start()
    def burst(self) -> None:
        for number in range(2000):
            say(str(number))
        self.note()

    @listen(burst)
    def next_step(self) -> None:
        self.note()


class ManyAsyncSteps(ManySteps):
    @start()
    async def burst(self) -> None:  # type: ignore[override]
        for number in range(2000):
            say(str(number))
        self.note()

    @listen(burst)
    async def next_step(self) -> None:  # type: ignore[override]
        self.note()


@pytest.mark.parametrize("kind", [ManySteps, ManyAsyncSteps])
def test_a_reader_that_is_behind_holds_the_next_step_back_and_loses_nothing(
    kind: type[Steps], runtime: Runtime
) -> None:
    flow = kind(runtime=runtime)
    stream = flow.kickoff(stream=True)
    assert flow.one_more.acquire(timeout=30)
    assert Talk(name="other", runtime=runtime).kickoff() == "other is done"  # a whole run goes by meanwhile
    assert flow.said == 1
    assert texts(list(stream)) == [str(number) for number in range(2000)]
    assert flow.said == 2


@pytest.mark.parametrize("kind", [ManySteps, ManyAsyncSteps])
def test_closing_lets_go_of_a_run_that_waits_for_its_reader(kind: type[Steps], runtime: Runtime) -> None:
    flow = kind(runtime=runtime)
    stream = flow.kickoff(stream=True)
    assert flow.one_more.acquire(timeout=30)
    stream.close()
    assert flow.said == 1


# -- observers ------------------------------------------------------------------------------------------------------


def test_an_observer_sees_the_same_frames_and_its_leaving_harms_nobody(runtime: Runtime) -> None:
    go = threading.Event()

    class Waits(Flow[Any]):
        @start()
        def talk(self) -> str:
            go.wait(30)
            say("hello")
            return "done"

    stream = Waits(runtime=runtime).kickoff(stream=True)
    looking, leaving = stream.observe(), stream.observe()
    leaving.close()
    go.set()
    mine, seen = list(stream), list(looking)
    assert texts(seen) == ["hello"]
    assert seen == mine[-len(seen) :]
    assert list(leaving) == []
    assert stream.result == "done"
    with pytest.raises(RunEndedError):
        stream.observe()


def test_an_observer_that_is_behind_misses_frames_and_is_told_how_many(runtime: Runtime) -> None:
    go = threading.Event()

    class Waits(Flow[Any]):
        @start()
        def talk(self) -> None:
            go.wait(30)
            for number in range(100):
                say(str(number))

    stream = Waits(runtime=runtime).kickoff(stream=True)
    looking = stream.observe(capacity=10)
    go.set()
    mine, seen = list(stream), list(looking)
    assert texts(mine) == [str(number) for number in range(100)]
    *kept, last = seen
    assert last.type == "dropped"
    assert last.seq == mine[-1].seq
    assert len(kept) == 10
    first = mine.index(kept[0])
    assert last.data == {"count": len(mine) - first - 10}


async def test_a_bare_run_can_be_looked_at_too(runtime: Runtime) -> None:
    async def body(run: Run) -> None:
        run.emit(LLMStreamChunkEvent(chunk="hello"))

    run = runtime.start(body, name="bare")
    with observe(run) as looking:
        await run
        frames = [frame async for frame in looking]
    assert [frame.type for frame in frames] == ["run_started", "llm_stream_chunk", "run_completed"]
    assert {frame.path for frame in frames} == {("bare",)}


async def test_observers_that_went_away_are_let_go_while_the_run_goes_on(runtime: Runtime) -> None:
    go, seen = asyncio.Event(), asyncio.Event()

    async def body(run: Run) -> None:
        await go.wait()
        run.emit(LLMStreamChunkEvent(chunk="hello"))
        seen.set()
        await asyncio.Event().wait()

    run = runtime.start(body)
    closed, thrown_away = observe(run), observe(run)
    closed.close()
    gone = [weakref.ref(closed._buffer), weakref.ref(thrown_away._buffer)]
    del closed, thrown_away
    go.set()
    await seen.wait()
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    await run.acancel()


def test_a_run_inside_waits_for_the_reader_of_the_run_around_it(runtime: Runtime) -> None:
    inner: list[Steps] = []

    class Outer(Flow[Any]):
        @start()
        def call(self) -> None:
            inner.append(ManySteps())
            begun.set()
            inner[0].kickoff()

    begun = threading.Event()
    stream = Outer(runtime=runtime).kickoff(stream=True)
    assert begun.wait(30)
    assert inner[0].one_more.acquire(timeout=30)
    assert Talk(name="other", runtime=runtime).kickoff() == "other is done"
    assert inner[0].said == 1
    assert len(texts(list(stream))) == 2000
    assert inner[0].said == 2


def test_a_flow_inside_that_was_done_before_a_crash_has_its_result_and_no_frames(
    runtime: Runtime, tmp_path: Path
) -> None:
    fails = [True]

    class Outer(Flow[Any]):
        @start()
        def call(self) -> Any:
            stream = PlainTalk(name="inner").kickoff(stream=True)
            frames = list(stream)
            if fails:
                raise OSError("gone")
            return len(frames), stream.result

    with SqliteStore(tmp_path / "runs.db") as store:
        flow = Outer(runtime=runtime, checkpoint=CheckpointConfig(store))
        stream = flow.kickoff(stream=True)
        with pytest.raises(OSError, match="gone"):
            _ = stream.result
        fails.clear()
        assert flow.kickoff(from_checkpoint=stream.run_id) == (0, "inner is done")


def test_what_is_done_is_on_disk_while_the_run_waits_for_its_reader(runtime: Runtime, tmp_path: Path) -> None:
    written = threading.Event()

    @runtime.event_bus.on(CheckpointCompletedEvent)
    def note(source: object, event: CheckpointCompletedEvent) -> None:
        written.set()

    with SqliteStore(tmp_path / "runs.db") as store:
        flow = ManySteps(runtime=runtime, checkpoint=CheckpointConfig(store))
        with flow.kickoff(stream=True):
            assert written.wait(30)
            assert flow.said == 1
