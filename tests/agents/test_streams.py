"""Streams of agents and crews: their own frames, nobody else's, and nothing left when they are closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.agents.support import call, hear, provider_model

from holdfast import (
    Agent,
    BaseTool,
    CheckpointConfig,
    Crew,
    Flow,
    Frame,
    RunStream,
    Runtime,
    ScriptedModel,
    Task,
    current_run_id,
    start,
    tool,
)
from holdfast.errors import ModelRequestError, UsageError
from holdfast.events import LLMCallCompletedEvent
from holdfast.models import Thought
from holdfast.stores import MemoryStore
from holdfast.testing import Answer, Gate, ModelServer, Thinking, ToolUse


def texts(frames: list[Frame]) -> list[str]:
    return [frame.text for frame in frames if frame.channel == "text"]


def say(name: str, chunks: int = 3) -> Callable[..., list[str]]:
    return lambda messages, tools, settings: [f"{name}:{number};" for number in range(chunks)]


@tool
def where() -> str:
    """Says in which run it is."""
    return str(current_run_id())


# -- what is in a stream -----------------------------------------------------------------------------------------------


def test_the_stream_of_an_agent_has_text_thinking_tools_and_steps(runtime: Runtime) -> None:
    lines: list[Any] = [[Thought("hm"), call("where")], ["It is ", "here."]]
    agent = Agent(role="Guide", llm=ScriptedModel(lines), tools=[where], runtime=runtime)
    with agent.kickoff("Where?", stream=True) as stream:
        frames = list(stream)
        output = stream.result
    assert output.raw == "It is here."
    assert texts(frames) == ["It ", "is ", "here."]
    assert [frame.text for frame in frames if frame.channel == "thinking"] == ["hm"]
    assert [frame.type for frame in frames if frame.channel == "tool"] == ["tool_usage_started", "tool_usage_finished"]
    assert {frame.path for frame in frames} == {("Guide",)}
    assert {frame.run_id for frame in frames} == {stream.run_id}
    numbers = [frame.seq for frame in frames]
    assert numbers == sorted(numbers)


def test_s2_2_a_crew_inside_a_flow_streams_into_its_stream_with_paths(runtime: Runtime) -> None:
    class Outer(Flow[dict[str, Any]]):
        @start()
        async def work(self) -> str:
            agent = Agent(role="Clerk", llm=ScriptedModel([["a ", "b"]]))
            return str(await Crew(name="Office", tasks=[Task(name="t", description="x", agent=agent)]).akickoff())

    with Outer(runtime=runtime).kickoff(stream=True) as stream:
        frames = list(stream)
    assert {frame.path for frame in frames} == {("Outer",), ("Outer", "Office"), ("Outer", "Office", "Clerk")}
    assert {frame.path for frame in frames if frame.channel == "text"} == {("Outer", "Office", "Clerk")}
    assert len({frame.run_id for frame in frames}) == 3
    assert stream.result == "a b"


def test_every_event_of_an_agent_in_a_crew_carries_its_task(runtime: Runtime) -> None:
    heard = hear(runtime)
    agent = Agent(role="Clerk", llm=ScriptedModel([call("where"), "x"]), tools=[where])
    task = Task(name="t", description="x", agent=agent)
    Crew(tasks=[task], runtime=runtime).kickoff()
    inside = [event for event in heard if event.type.startswith(("llm_", "tool_", "agent_"))]
    assert len(inside) > 6
    assert {(event.task_id, event.task_name, event.agent_id, event.agent_role) for event in inside} == {
        (task.id, "t", agent.id, "Clerk")
    }


# -- several at once ---------------------------------------------------------------------------------------------------


def talker(server: ModelServer, name: str, runtime: Runtime, protocol: str) -> Crew:
    agent = Agent(role=name, llm=provider_model(server, protocol), tools=[where])
    return Crew(name=name, tasks=[Task(description=f"I am {name}", agent=agent)], stream=True, runtime=runtime)


def two_talk(gate: Gate) -> Callable[..., Answer]:
    """Answers each crew with a call of a sync tool, then with pieces that carry its name; both at the same time."""

    def answer(request: Any) -> Answer:
        name = "left" if "left" in str(request.body) else "right"
        if "tool" not in str([message["role"] for message in request.messages]) and "tool_result" not in str(
            request.body
        ):
            return Answer(Thinking(f"{name}?"), ToolUse("where", {}))
        return Answer(gate, *[f"{name} {number};" for number in range(50)])

    return answer


def check_talk(name: str, stream: RunStream, frames: list[Frame]) -> None:
    assert texts(frames) == [f"{name} {number};" for number in range(50)]
    assert {frame.path[0] for frame in frames} == {name}
    inner = {frame.run_id for frame in frames if frame.channel == "tool"}
    assert [frame.data["text"] for frame in frames if frame.type == "tool_usage_finished"] == list(inner)
    assert stream.result.raw.startswith(f"{name} 0;")


async def test_s2_5_two_crews_stream_from_a_provider_in_one_loop(runtime: Runtime) -> None:
    with ModelServer(two_talk(Gate(opens_at=2))) as server:

        async def read(name: str, protocol: str) -> None:
            async with await talker(server, name, runtime, protocol).akickoff() as stream:
                frames = [frame async for frame in stream]
            check_talk(name, stream, frames)

        await asyncio.gather(read("left", "openai"), read("right", "anthropic"))
        assert all(request.is_stream for request in server.requests)


def test_s2_5_two_crews_stream_from_a_provider_to_two_threads(runtime: Runtime) -> None:
    with ModelServer(two_talk(Gate(opens_at=2))) as server:
        failures: list[BaseException] = []

        def read(name: str, protocol: str) -> None:
            try:
                with talker(server, name, runtime, protocol).kickoff() as stream:
                    frames = list(stream)
                check_talk(name, stream, frames)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read, args=pair) for pair in (("left", "openai"), ("right", "anthropic"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert failures == []


async def test_s2_5_two_hundred_streams_of_a_thousand_chunks_each_have_their_own_and_all_of_it(
    runtime: Runtime,
) -> None:
    async def read(name: str) -> tuple[int, int]:
        agent = Agent(role=name, llm=ScriptedModel(say(name, 1000)), runtime=runtime)
        foreign, own = 0, 0
        async with await agent.akickoff("Go", stream=True) as stream:
            async for frame in stream:
                if frame.channel == "text":
                    own += frame.text.startswith(f"{name}:")
                    foreign += frame.path != (name,) or frame.run_id != stream.run_id
            said = stream.result.raw
        assert said == "".join(f"{name}:{number};" for number in range(1000))
        return own, foreign

    counts = await asyncio.gather(*(read(f"run{number}") for number in range(200)))
    assert counts == [(1000, 0)] * 200


# -- leaving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_closing_early_cancels_the_run_and_closes_the_connection(runtime: Runtime, protocol: str) -> None:
    gate, done = Gate(), hear(runtime, LLMCallCompletedEvent)
    with ModelServer([Answer("begun ", gate, "never")]) as server:
        async with await talker(server, "left", runtime, protocol).akickoff() as stream:
            async for frame in stream:
                if frame.channel == "text":
                    break
        assert runtime.inventory() == []
        assert done == []
        gate.open()
        while server.active:  # noqa: ASYNC110 - it finds out that nobody listens
            await asyncio.sleep(0.001)


def test_a_run_that_cannot_even_begin_fails_its_stream(runtime: Runtime) -> None:
    agent = Agent(role="A", llm=ScriptedModel(["x"]), tools=[where], runtime=runtime)
    task = Task(description="x", agent=agent, tools=[where, where.model_copy()])
    stream = Crew(tasks=[task], runtime=runtime).kickoff(stream=True)
    with pytest.raises(UsageError, match="two tools"):
        list(stream)
    with pytest.raises(UsageError, match="two tools"):
        stream.result  # noqa: B018
    failing = Agent(role="B", llm=ScriptedModel([]), max_execution_time=60, runtime=runtime).kickoff("x", stream=True)
    with pytest.raises(ModelRequestError):
        failing.result  # noqa: B018


def test_a_reader_who_is_slow_slows_the_model_and_nothing_is_lost(runtime: Runtime) -> None:
    sent = 0

    class Counting(ScriptedModel):
        async def stream_once(self, *call: Any) -> Any:
            nonlocal sent
            async for part in super().stream_once(*call):
                sent += 1
                yield part

    agent = Agent(role="A", llm=Counting(say("A", 5000)), runtime=runtime)
    with agent.kickoff("Go", stream=True) as stream:
        first = next(iter(stream))
        while sent < 1000:
            threading.Event().wait(0.001)
        assert sent < 1100  # it waits when the stream is full
        seen = [first, *stream]
    assert len(texts(seen)) == sent - 1 == 5000


# -- sync tools in threads ---------------------------------------------------------------------------------------------


async def test_s2_3_sync_tools_of_two_crews_stay_in_their_runs(runtime: Runtime) -> None:
    class Meet(BaseTool):
        name: str = "meet"
        description: str = "Waits for the other crew."
        barrier: Any

        def _run(self) -> str:
            self.barrier.wait(10)
            return str(current_run_id())

    meet = Meet(barrier=threading.Barrier(2))

    async def work(name: str) -> list[Any]:
        agent = Agent(role=name, llm=ScriptedModel([call("meet"), "done"]), tools=[meet])
        crew = Crew(name=name, tasks=[Task(description="x", agent=agent)], runtime=runtime)
        async with await crew.akickoff(stream=True) as stream:
            return [frame async for frame in stream]

    for frames in await asyncio.gather(work("left"), work("right")):
        [used] = [frame for frame in frames if frame.type == "tool_usage_finished"]
        assert used.data["text"] == used.run_id


# -- departures --------------------------------------------------------------------------------------------------------


async def test_a_runtime_that_leaves_in_the_middle_of_a_delegation_records_no_failed_tool() -> None:
    store, begun = MemoryStore(), asyncio.Event()

    async def hang(messages: Any, tools: Any, settings: Any) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    def crew(digger: Any, boss: Any, runtime: Runtime) -> Crew:
        work = call("delegate_work_to_coworker", '{"task": "dig", "context": "", "coworker": "Digger"}')
        agents = [
            Agent(role="Digger", llm=ScriptedModel(digger)),
            Agent(role="Boss", llm=ScriptedModel([work, *boss]), allow_delegation=True),
        ]
        config = CheckpointConfig(store, self_contained=False)
        return Crew(agents=agents, tasks=[Task(description="x", agent=agents[1])], checkpoint=config, runtime=runtime)

    runtime = Runtime(grace=2.0)
    first = crew(hang, [], runtime)
    work = asyncio.ensure_future(first.akickoff())
    await begun.wait()
    await runtime.aclose()
    await asyncio.gather(work, return_exceptions=True)
    async with Runtime() as other:
        heard = hear(other)
        again = crew(["a hole"], ["dug"], other)
        output = await again.akickoff(from_checkpoint=first.run_id)
        assert output.raw == "dug"
        assert [event.text for event in heard if event.type == "tool_usage_finished"] == ["a hole"]
