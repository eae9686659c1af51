"""The loop of an agent: calls, tools, limits, and everything a model can do wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from tests.agents.support import PROTOCOLS, Meeting, add, call, explode, hear, provider_model, twice

from holdfast import Agent, Runtime, ScriptedModel, tool
from holdfast.errors import AgentError, BudgetExceededError, ModelAuthError, ModelStreamError, UsageError
from holdfast.events import (
    AgentExecutionCompletedEvent,
    AgentExecutionErrorEvent,
    LLMCallCompletedEvent,
    LLMCallFailedEvent,
    LLMStreamChunkEvent,
    LLMStreamRestartedEvent,
    ToolSelectionErrorEvent,
    ToolUsageErrorEvent,
    ToolUsageFinishedEvent,
    ToolUsageLimitReachedEvent,
    ToolValidateInputErrorEvent,
)
from holdfast.models import AssistantMessage, ToolMessage, UserMessage
from holdfast.testing import Answer, Drop, Failure, ManualClock, ModelServer, Raw, Thinking, ToolUse


class City(BaseModel):
    name: str
    people: int


# -- over real HTTP, both protocols ------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_agent_calls_a_tool_and_answers(runtime: Runtime, protocol: str) -> None:
    with ModelServer([Answer(ToolUse("add", {"a": 1})), "It is three."]) as server:
        agent = Agent(role="Adder", goal="Add", llm=provider_model(server, protocol), tools=[add], runtime=runtime)
        output = agent.kickoff("What is 1 + 2?")
        told = server.requests[1].messages
    assert (output.raw, output.turns, output.agent_role) == ("It is three.", 2, "Adder")
    assert (output.usage.requests, output.usage.input_tokens, output.usage.output_tokens) == (2, 20, 10)
    assert agent.usage == output.usage
    assert "3" in str(told[-1])
    said = [type(message) for message in agent.messages]
    assert said[2:] == [AssistantMessage, ToolMessage, AssistantMessage]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tools_called_together_run_together(runtime: Runtime, protocol: str) -> None:
    uses = [ToolUse("meet", {"who": str(number)}) for number in range(4)]
    with ModelServer([Answer(*uses), "met"]) as server:
        agent = Agent(role="Host", llm=provider_model(server, protocol), tools=[Meeting(4).tool()], runtime=runtime)
        assert agent.kickoff("Meet").raw == "met"
        answers = [message.text for message in agent.messages if isinstance(message, ToolMessage)]
    assert answers == [f"{number} met" for number in range(4)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_tool_used_wrongly_tells_the_model_and_an_event_and_the_agent_goes_on(
    runtime: Runtime, protocol: str
) -> None:
    script: list[Any] = [
        Answer(ToolUse("add", "{this is no JSON" if protocol == "openai" else {"a": "x"})),
        Answer(ToolUse("add", {"a": "a lot"})),
        Answer(ToolUse("subtract", {"a": 1})),
        Answer(ToolUse("explode", {})),
        Answer(ToolUse("slow", {})),
        "I give up.",
    ]
    heard = hear(runtime, ToolSelectionErrorEvent, ToolValidateInputErrorEvent, ToolUsageErrorEvent)

    @tool(timeout=0.01)
    async def slow() -> None:
        """Takes too long."""
        await asyncio.Event().wait()

    with ModelServer(script) as server:
        tools: list[Any] = [add, explode, slow]
        agent = Agent(role="Bungler", llm=provider_model(server, protocol), tools=tools, runtime=runtime)
        assert agent.kickoff("Try").raw == "I give up."
    told = [message for message in agent.messages if isinstance(message, ToolMessage)]
    assert all(message.is_error for message in told)
    assert "there is no tool 'subtract'; there are: add, explode, slow" in told[2].text
    assert "kaboom" in told[3].text
    assert "did not return within" in told[4].text
    assert [event.type for event in heard if event.type != "tool_usage_error"] == [
        "tool_validate_input_error",
        "tool_validate_input_error",
        "tool_selection_error",
    ]
    assert [event.error_type for event in heard if event.type == "tool_usage_error"][-2:] == [
        "RuntimeError",
        "TimeoutError",
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_empty_answer_is_asked_about_again_and_ends_the_run_if_it_stays_so(runtime: Runtime, protocol: str) -> None:
    with ModelServer([Answer(), "There."]) as server:
        agent = Agent(role="Shy", llm=provider_model(server, protocol), runtime=runtime)
        assert agent.kickoff("Speak").raw == "There."
        assert "empty" in str(server.requests[1].messages[-1])
    heard = hear(runtime, LLMCallFailedEvent, AgentExecutionErrorEvent)
    with ModelServer([Answer()] * 5) as server:
        agent = Agent(role="Mute", llm=provider_model(server, protocol), runtime=runtime)
        with pytest.raises(AgentError, match="3 answers in a row"):
            agent.kickoff("Speak")
        assert len(server.requests) == 3
    assert [event.type for event in heard] == ["llm_call_failed", "agent_execution_error"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_broken_json_goes_back_to_the_model_until_it_fits(runtime: Runtime, protocol: str) -> None:
    script = [
        '{"name": "Oslo", "people',
        'Here you are:\n{"name": "Oslo"}',
        '```json\n{"name": "Oslo", "people": 7}\n```',
    ]
    with ModelServer(script) as server:
        agent = Agent(role="Clerk", llm=provider_model(server, protocol), runtime=runtime)
        output = agent.kickoff("Oslo?", response_format=City)
        assert "people: Field required" in str(server.requests[2].messages[-1])
    assert output.pydantic == City(name="Oslo", people=7)
    assert output.turns == 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_provider_that_stumbles_is_asked_again(runtime: Runtime, protocol: str) -> None:
    script: list[Any] = [
        Failure(429, retry_after=0),
        Failure(500),
        Raw(b"{broken"),
        Answer(Drop(), "never"),
        "At last.",
    ]
    with ModelServer(script[:2] + script[3:]) as server:
        agent = Agent(role="Patient", llm=provider_model(server, protocol), runtime=runtime)
        heard = hear(runtime, LLMCallCompletedEvent)
        assert agent.kickoff("Go").raw == "At last."
        assert len(server.requests) == 4
    assert len(heard) == 1
    with ModelServer([Failure(401)]) as server:
        agent = Agent(role="Stranger", llm=provider_model(server, protocol), runtime=runtime)
        with pytest.raises(ModelAuthError):
            agent.kickoff("Go")
        assert len(server.requests) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_that_breaks_off_begins_again_and_says_so(runtime: Runtime, protocol: str) -> None:
    heard = hear(runtime, LLMStreamChunkEvent, LLMStreamRestartedEvent, LLMCallCompletedEvent)
    with ModelServer([Answer("Half ", Drop(), "never"), Answer(Thinking("hm"), "Whole ", "answer")]) as server:
        agent = Agent(role="Talker", llm=provider_model(server, protocol), runtime=runtime)
        assert agent.kickoff("Talk").raw == "Whole answer"
    assert [event.type for event in heard] == [
        "llm_stream_chunk", "llm_stream_restarted", "llm_stream_chunk", "llm_stream_chunk", "llm_call_completed",
    ]  # fmt: skip
    assert [message.text for message in agent.messages if isinstance(message, AssistantMessage)] == ["Whole answer"]


def test_a_stream_that_never_gets_through_fails_the_call(runtime: Runtime) -> None:
    heard = hear(runtime, LLMStreamChunkEvent, LLMStreamRestartedEvent, LLMCallFailedEvent)
    with ModelServer([Answer("Half ", Drop())] * 3) as server:
        agent = Agent(role="Talker", llm=provider_model(server), runtime=runtime)
        with pytest.raises(ModelStreamError):
            agent.kickoff("Talk")
        assert len(server.requests) == 3
    assert [event.type for event in heard].count("llm_stream_restarted") == 2
    assert heard[-1].type == "llm_call_failed"
    assert [type(message).__name__ for message in agent.messages] == ["SystemMessage", "UserMessage"]


# -- limits ------------------------------------------------------------------------------------------------------------


def endless(messages: Any, tools: Any, settings: Any) -> Any:
    return call("add", '{"a": 1}') if tools else "Enough."


def test_an_endless_loop_ends_in_a_last_turn_without_tools(runtime: Runtime) -> None:
    model = ScriptedModel(endless)
    agent = Agent(role="Loop", llm=model, tools=[add], max_iter=4, runtime=runtime)
    output = agent.kickoff("Go")
    assert (output.raw, output.turns, model.count) == ("Enough.", 4, 4)
    assert not any("last turn" in getattr(message, "text", "") for message in agent.messages)


def test_a_model_that_wants_tools_in_its_last_turn_fails_the_run(runtime: Runtime) -> None:
    model = ScriptedModel([call("add", '{"a": 1}')] * 9)
    heard = hear(runtime, AgentExecutionErrorEvent)
    with pytest.raises(AgentError, match="raise max_iter"):
        Agent(role="Stubborn", llm=model, tools=[add], max_iter=3, runtime=runtime).kickoff("Go")
    assert model.count == 3
    assert heard[0].error_type == "AgentError"


def test_an_answer_in_the_last_turn_that_does_not_fit_fails_the_run(runtime: Runtime) -> None:
    model = ScriptedModel(["no", "no", "no"])
    with pytest.raises(AgentError, match="last turn"):
        Agent(role="Clerk", llm=model, max_iter=2, runtime=runtime).kickoff("Go", response_format=City)
    assert model.count == 2


def test_a_tool_that_is_used_up_says_so_and_an_event_tells(runtime: Runtime) -> None:
    heard = hear(runtime, ToolUsageLimitReachedEvent, ToolUsageFinishedEvent, ToolUsageErrorEvent)
    mine = twice.model_copy(deep=True)
    model = ScriptedModel([call("twice", call_id="1"), call("twice", call_id="2"), call("twice", call_id="3"), "ok"])
    Agent(role="User", llm=model, tools=[mine], runtime=runtime).kickoff("Go")
    assert mine.usage_count == 2
    assert [event.use for event in heard if event.type == "tool_usage_finished"] == [1, 2]
    assert [event.limit for event in heard if event.type == "tool_usage_limit_reached"] == [2]
    assert [event.use for event in heard if event.type == "tool_usage_error"] == [0]


async def test_time_is_up_for_an_agent_in_the_middle_of_a_call() -> None:
    clock = ManualClock()
    async with Runtime(clock=clock, grace=2.0) as runtime:

        async def hang(messages: Any, tools: Any, settings: Any) -> str:
            await asyncio.Event().wait()
            return ""

        agent = Agent(role="Slow", llm=ScriptedModel(hang), max_execution_time=5, runtime=runtime)
        heard = hear(runtime, AgentExecutionErrorEvent)
        work = asyncio.ensure_future(agent.akickoff("Go"))
        await clock.until_sleeping()
        clock.advance(5)
        with pytest.raises(BudgetExceededError, match="the time of Slow is up"):
            await work
        assert heard[0].error_type == "BudgetExceededError"
        assert runtime.inventory() == []


# -- in one piece ------------------------------------------------------------------------------------------------------


def test_two_tools_of_one_name_are_refused_when_the_agent_is_made() -> None:
    with pytest.raises(UsageError, match="two tools are called add"):
        Agent(role="Twins", tools=[add, add.model_copy()])


def test_an_agent_without_a_model_or_a_prompt_says_what_to_do(runtime: Runtime, monkeypatch: Any) -> None:
    monkeypatch.delenv("HOLDFAST_MODEL", raising=False)
    with pytest.raises(UsageError, match="HOLDFAST_MODEL"):
        Agent(role="Nobody", runtime=runtime).kickoff("Go")
    with pytest.raises(UsageError, match="needs a prompt"):
        Agent(role="Nobody", llm=ScriptedModel(["x"]), runtime=runtime).kickoff()


def test_each_kickoff_starts_afresh_and_messages_can_be_given(runtime: Runtime) -> None:
    agent = Agent(role="Echo", llm=ScriptedModel(lambda messages, *_: messages[-1].text.upper()), runtime=runtime)
    assert agent.kickoff("one").raw == "ONE"
    assert agent.kickoff([UserMessage("two"), UserMessage("three")]).raw == "THREE"
    assert len(agent.messages) == 4


async def test_one_agent_works_on_many_prompts_at_once_from_loops_and_threads(runtime: Runtime) -> None:
    model = ScriptedModel(lambda messages, tools, settings: f"re {messages[-1].text}")
    agent = Agent(role="Busy", llm=model, runtime=runtime)
    async with asyncio.TaskGroup() as group:
        here = [group.create_task(agent.akickoff(f"loop {n}")) for n in range(20)]
        there = [group.create_task(asyncio.to_thread(agent.kickoff, f"thread {n}")) for n in range(20)]
    assert [one.result().raw for one in here] == [f"re loop {n}" for n in range(20)]
    assert [one.result().raw for one in there] == [f"re thread {n}" for n in range(20)]


def test_an_agent_inside_a_sync_tool_of_another_counts_for_both(runtime: Runtime) -> None:
    inner = Agent(role="Inner", llm=ScriptedModel(["deep"]), runtime=runtime)

    @tool
    def ask() -> str:
        """Asks the other one."""
        return str(inner.kickoff("Say").raw)

    outer = Agent(role="Outer", llm=ScriptedModel([call("ask"), "so it is"]), tools=[ask], runtime=runtime)
    heard = hear(runtime, AgentExecutionCompletedEvent)
    output = outer.kickoff("Go")
    assert [message.text for message in outer.messages if isinstance(message, ToolMessage)] == ["deep"]
    assert output.usage.requests == 3
    assert [(event.agent_role, event.output) for event in heard] == [("Inner", "deep"), ("Outer", "so it is")]
