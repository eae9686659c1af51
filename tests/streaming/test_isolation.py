"""S2: to each run its own stream, whatever runs beside it, inside it, or in other threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.streaming.support import PlainTalk, Talk, say, texts

from holdfast import BoundExecutor, Flow, Frame, RunStream, Runtime, bind, current_run_id, listen, start
from holdfast.errors import EventReusedError, UsageError
from holdfast.events import BaseEvent, LLMStreamChunkEvent
from holdfast.ports import DefaultRuntime


async def read(stream: RunStream) -> list[Frame]:
    return [frame async for frame in stream]


async def test_s2_5_two_runs_in_one_loop_never_mix(runtime: Runtime) -> None:
    streams = [await Talk(name=name, runtime=runtime).akickoff(stream=True) for name in ("a", "b")]
    a, b = await asyncio.gather(*map(read, streams))
    assert (texts(a), texts(b)) == (["a 0", "a 1", "a 2"], ["b 0", "b 1", "b 2"])
    for frames, stream in zip((a, b), streams, strict=True):
        assert {frame.run_id for frame in frames} == {stream.run_id}
    assert streams[0].run_id != streams[1].run_id


def test_s2_5_two_runs_in_two_threads_never_mix(runtime: Runtime) -> None:
    meet = threading.Barrier(2)

    class Meets(Flow[Any]):
        @start()
        def talk(self) -> None:
            for number in range(500):
                if number % 100 == 0:
                    meet.wait(30)
                say(f"{self.name} {number}")

    with ThreadPoolExecutor(2) as pool:
        flows = [Meets(name=name, runtime=runtime) for name in ("a", "b")]
        a, b = pool.map(lambda flow: texts(list(flow.kickoff(stream=True))), flows)
    assert a == [f"a {number}" for number in range(500)]
    assert b == [f"b {number}" for number in range(500)]


async def test_s2_5_two_hundred_streams_of_a_thousand_chunks_lose_nothing_and_see_nothing_foreign(
    runtime: Runtime,
) -> None:
    class Long(Flow[Any]):
        @start()
        async def talk(self) -> None:
            for number in range(1000):
                say(f"{self.name} {number}")
                if number % 10 == 0:
                    await asyncio.sleep(0)

    async def follow(name: str) -> int:
        seen = 0
        stream = await Long(name=name, runtime=runtime).akickoff(stream=True)
        async for frame in stream:
            assert frame.run_id == stream.run_id
            if frame.channel == "text":
                assert frame.text == f"{name} {seen}"
                seen += 1
        return seen

    assert await asyncio.gather(*(follow(f"run {n}") for n in range(200))) == [1000] * 200


async def test_s2_5_a_chunk_of_a_foreign_run_is_refused(runtime: Runtime) -> None:
    """An event belongs to the run it was emitted in. It cannot be emitted again in another, nor taken along by a bind()."""
    caught: list[LLMStreamChunkEvent] = []
    ways: list[Callable[[str], None]] = []
    ready, go = asyncio.Event(), asyncio.Event()

    class Victim(Flow[Any]):
        @start()
        async def talk(self) -> None:
            ways.append(bind(say))
            caught.append(LLMStreamChunkEvent(chunk="mine"))
            runtime.event_bus.emit(self, caught[0])
            ready.set()
            await go.wait()

    class Thief(Flow[Any]):
        @start()
        async def talk(self) -> None:
            await ready.wait()
            with pytest.raises(EventReusedError):
                runtime.event_bus.emit(self, caught[0])
            ways[0]("for the other")
            say("own")
            go.set()

    victim = await Victim(runtime=runtime).akickoff(stream=True)
    thief = await Thief(runtime=runtime).akickoff(stream=True)
    mine, theirs = await asyncio.gather(read(victim), read(thief))
    assert texts(mine) == ["mine", "for the other"]
    assert texts(theirs) == ["own"]


# -- nested runs ----------------------------------------------------------------------------------------------------


class Outer(Flow[Any]):
    @start()
    async def first(self) -> Any:
        say("outer begins")
        inner = await Talk(name="inner").akickoff()
        say("outer ends")
        return inner


class PlainOuter(Flow[Any]):
    @start()
    def first(self) -> Any:
        say("outer begins")
        inner = PlainTalk(name="inner").kickoff()
        say("outer ends")
        return inner


@pytest.mark.parametrize("kind", [Outer, PlainOuter])
def test_s2_2_a_flow_inside_a_flow_streams_into_its_parents_stream_with_its_own_id_and_path(
    kind: type[Flow[Any]], runtime: Runtime
) -> None:
    stream = kind(name="outer", runtime=runtime).kickoff(stream=True)
    frames = list(stream)
    assert texts(frames) == ["outer begins", "inner 0", "inner 1", "inner 2", "outer ends"]
    inner = [frame for frame in frames if frame.path == ("outer", "inner")]
    assert texts(inner) == ["inner 0", "inner 1", "inner 2"]
    assert [frame.type for frame in inner][:2] == ["run_started", "flow_started"]
    assert inner[-1].type == "run_completed"
    [inner_id] = {frame.run_id for frame in inner}
    assert inner_id != stream.run_id
    assert {frame.run_id for frame in frames if frame.path == ("outer",)} == {stream.run_id}
    assert stream.result == "inner is done"


class StreamsInside(Flow[Any]):
    heard: list[str]

    @start()
    async def first(self) -> Any:
        stream = await Talk(name="inner").akickoff(stream=True)
        self.heard = texts(await read(stream))
        say("outer")
        return await stream.aresult()


class PlainStreamsInside(Flow[Any]):
    heard: list[str]

    @start()
    def first(self) -> Any:
        stream = PlainTalk(name="inner").kickoff(stream=True)
        self.heard = texts(list(stream))
        say("outer")
        return stream.result


@pytest.mark.parametrize("kind", [StreamsInside, PlainStreamsInside])
def test_s2_2_a_run_inside_may_be_streamed_as_well_and_hears_only_itself(kind: type[Any], runtime: Runtime) -> None:
    flow = kind(name="outer", runtime=runtime)
    stream = flow.kickoff(stream=True)
    assert texts(list(stream)) == ["inner 0", "inner 1", "inner 2", "outer"]
    assert flow.heard == ["inner 0", "inner 1", "inner 2"]
    assert stream.result == "inner is done"


async def test_s2_2_siblings_inside_one_run_do_not_hear_each_other(runtime: Runtime) -> None:
    class Family(Flow[Any]):
        @start()
        async def both(self) -> list[list[str]]:
            streams = [await Talk(name=name).akickoff(stream=True) for name in ("a", "b")]
            return [texts(frames) for frames in await asyncio.gather(*map(read, streams))]

    stream = await Family(runtime=runtime).akickoff(stream=True)
    frames = await read(stream)
    assert stream.result == [["a 0", "a 1", "a 2"], ["b 0", "b 1", "b 2"]]
    assert sorted(texts(frames)) == ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"]


# -- threads --------------------------------------------------------------------------------------------------------


class Threads(Flow[Any]):
    @start()
    async def in_a_thread(self) -> None:
        await asyncio.to_thread(say, f"{self.name} to_thread")

    @listen(in_a_thread)
    def in_a_pool(self) -> None:
        with BoundExecutor(1) as pool:
            pool.submit(say, f"{self.name} pool").result()

    @listen(in_a_pool)
    def in_a_raw_thread(self) -> None:
        thread = threading.Thread(target=bind(say), args=(f"{self.name} bound",))
        thread.start()
        thread.join()

    @listen(in_a_raw_thread)
    def in_a_sync_step(self) -> None:
        say(f"{self.name} step")


async def test_s2_3_what_is_said_in_threads_reaches_the_stream_of_the_run_they_work_for(runtime: Runtime) -> None:
    streams = [await Threads(name=name, runtime=runtime).akickoff(stream=True) for name in ("a", "b")]
    for name, frames in zip(("a", "b"), await asyncio.gather(*map(read, streams)), strict=True):
        assert texts(frames) == [f"{name} to_thread", f"{name} pool", f"{name} bound", f"{name} step"]


def test_s2_4_what_is_said_outside_any_run_reaches_global_handlers_and_no_stream(runtime: Runtime) -> None:
    heard: list[str] = []

    @runtime.event_bus.on(LLMStreamChunkEvent)
    def hear(source: object, event: LLMStreamChunkEvent) -> None:
        heard.append(event.chunk)

    class Strays(Flow[Any]):
        @start()
        def talk(self) -> None:
            thread = threading.Thread(
                target=runtime.event_bus.emit, args=("model", LLMStreamChunkEvent(chunk="astray"))
            )
            thread.start()
            thread.join()
            say("inside")

    stream = Strays(runtime=runtime).kickoff(stream=True)
    assert texts(list(stream)) == ["inside"]
    assert heard == ["astray", "inside"]
    assert runtime.event_bus.statistics().outside_runs == 1


# -- ids and contexts -----------------------------------------------------------------------------------------------


async def test_s2_7_runs_started_from_one_context_have_distinct_ids_and_the_context_is_as_before(
    runtime: Runtime,
) -> None:
    assert current_run_id() is None
    first = await Talk(runtime=runtime).akickoff(stream=True)
    at_once = [await Outer(runtime=runtime).akickoff(stream=True) for _ in range(3)]
    assert current_run_id() is None
    frames = [await read(stream) for stream in (first, *at_once)]
    after = await Talk(runtime=runtime).akickoff(stream=True)
    frames.append(await read(after))
    assert current_run_id() is None
    ids = [{frame.run_id for frame in some} for some in frames]
    assert [len(some) for some in ids] == [1, 2, 2, 2, 1]
    assert len(set().union(*ids)) == 8


def test_s2_7_a_stream_that_plain_code_starts_leaves_its_context_alone(runtime: Runtime) -> None:
    streams = [Talk(runtime=runtime).kickoff(stream=True) for _ in range(3)]
    assert current_run_id() is None
    assert len({stream.run_id for stream in streams}) == 3
    assert all(stream.result for stream in streams)
    assert current_run_id() is None


def test_a_run_beside_a_stream_is_not_told_of_to_anybody(runtime: Runtime) -> None:
    """Nobody listens to the plain run, so its events are not even built: a stream does not wake the whole bus."""
    wanted: list[bool] = []

    class Quiet(Flow[Any]):
        @start()
        def look(self) -> None:
            wanted.append(DefaultRuntime.get().event_bus.wants(BaseEvent))

    class Streams(Flow[Any]):
        @start()
        def look(self) -> None:
            thread = threading.Thread(target=Quiet(runtime=runtime).kickoff)
            thread.start()
            thread.join()

    assert Streams(runtime=runtime).kickoff(stream=True).result is None
    assert wanted == [False]


def test_an_inline_handler_cannot_stream_a_run_that_would_wait_for_it(runtime: Runtime) -> None:
    class Marked(BaseEvent):
        """Something to handle."""

    said: list[Any] = []

    @runtime.event_bus.on(Marked)
    def inline(source: object, event: Marked) -> None:
        try:
            Talk(name="inner").kickoff(stream=True)
        except UsageError as error:
            said.append(str(error))

    @runtime.event_bus.on(Marked, background=True)
    def in_the_background(source: object, event: Marked) -> None:
        said.append(texts(list(Talk(name="inner").kickoff(stream=True))))

    class Marks(Flow[Any]):
        @start()
        def mark(self) -> None:
            runtime.event_bus.emit(self, Marked())
            runtime.event_bus.flush()

    assert Marks(runtime=runtime).kickoff(stream=True).result is None
    assert len(said) == 2
    assert "they wait until it returns" in said[0]
    assert said[1] == ["inner 0", "inner 1", "inner 2"]
