"""Crews and agents that are taken up again, in this process and as another one would."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.agents.office import City, look
from tests.agents.support import break_off, call, hear, last_text, two_tasks, used

from holdfast import (
    Agent,
    Budget,
    CheckpointConfig,
    Crew,
    Flow,
    Runtime,
    ScriptedModel,
    Task,
    TaskOutput,
    listen,
    start,
    tool,
)
from holdfast.errors import (
    AgentError,
    BudgetExceededError,
    ModelRequestError,
    UsageError,
)
from holdfast.events import (
    CrewKickoffStartedEvent,
    LLMCallCompletedEvent,
    LLMCallStartedEvent,
    TaskCompletedEvent,
    TaskStartedEvent,
)
from holdfast.models import ToolMessage
from holdfast.stores import MemoryStore


def test_s1_20_usage_is_what_was_used_before_and_after(runtime: Runtime, config: CheckpointConfig) -> None:
    crew = two_tasks(config, runtime, used("first", 7))
    run_id = break_off(crew)
    again = Crew.from_checkpoint(run_id, checkpoint=config, runtime=runtime)
    assert again.usage.input_tokens == 7
    again.agents[0].llm = ScriptedModel([used("never"), used("second", 5)])
    output = again.kickoff()
    assert output.raw == "second"  # its model goes on in its script where the run was
    assert (output.usage.input_tokens, output.usage.requests) == (12, 2)
    assert [one.usage.input_tokens for one in output.tasks_output] == [7, 5]
    assert {role: use.input_tokens for role, use in output.usage_by_agent.items()} == {"Clerk": 12}
    assert again.usage == output.usage


def test_s1_11_after_a_resume_events_hang_where_they_belong_and_go_on_being_numbered(
    runtime: Runtime, config: CheckpointConfig
) -> None:
    heard = hear(runtime)
    crew = two_tasks(config, runtime, used("first"))
    run_id = break_off(crew)
    opened = next(event for event in heard if event.type == "crew_kickoff_started")
    before = max(event.emission_sequence for event in heard if event.root_run_id == run_id)
    task = next(event for event in heard if event.type == "task_started" and event.task_name == "two")
    agent_run = next(e for e in heard if e.type == "agent_execution_started" and e.task_name == "two")
    heard.clear()
    crew.agents[0].llm = ScriptedModel(["never", "second"])
    crew.kickoff(from_checkpoint=run_id)
    new = [event for event in heard if event.emission_sequence > before]
    numbers = [event.emission_sequence for event in new]
    assert (min(numbers), len(numbers)) == (before + 1, len(set(numbers)))
    assert {event.run_id for event in new} == {run_id, agent_run.run_id}
    done = next(event for event in new if event.type == "task_completed")
    assert (done.task_id, done.task_name) == (task.task_id, "two")
    end = next(event for event in new if event.type == "crew_kickoff_completed")
    assert end.started_event_id == opened.event_id
    answer = next(event for event in new if event.type == "llm_call_completed")
    assert (answer.task_name, answer.agent_role) == ("two", "Clerk")
    thought = next(event for event in new if event.type == "llm_call_started")
    assert thought.parent_event_id == agent_run.event_id


def test_s1_9_tools_go_on_counting_where_the_crew_was(runtime: Runtime, config: CheckpointConfig) -> None:
    lines = [call("look", call_id="1"), call("look", "broken", "2"), call("look", call_id="3"), used("first")]
    crew = two_tasks(config, runtime, *lines)
    run_id = break_off(crew)
    assert crew.agents[0].tools[0].usage_count == 2
    again = Crew.from_checkpoint(run_id, checkpoint=config, runtime=runtime)
    again.agents[0].llm = ScriptedModel([*[used("never")] * 4, call("look", call_id="4"), used("second")])
    assert again.kickoff().raw == "second"
    assert again.agents[0].tools[0].usage_count == 3


def test_a_forked_crew_leaves_the_recorded_one_as_it_is(runtime: Runtime, config: CheckpointConfig) -> None:
    crew = two_tasks(config, runtime, used("first"))
    run_id = break_off(crew)
    forked = Crew.fork(run_id, branch="idea", checkpoint=config, runtime=runtime)
    forked.agents[0].llm = ScriptedModel([used("never"), used("idea")])
    assert forked.kickoff().raw == "idea"
    assert forked.agents[0].tools[0].usage_count == 0
    rows = asyncio.run(_branches(config, run_id))
    assert rows == {"main", "idea"}


async def _branches(config: CheckpointConfig, run_id: str) -> set[str]:
    store: Any = config.store
    return {branch.name for branch in await store.branches(run_id)}


def test_s1_5_an_agent_is_restored_in_mid_task_with_its_messages(runtime: Runtime, config: CheckpointConfig) -> None:
    lines = [call("look", call_id="1")]
    agent = Agent(
        role="A", llm=ScriptedModel(lines), tools=[look.model_copy(deep=True)], checkpoint=config, runtime=runtime
    )
    with pytest.raises(ModelRequestError):
        agent.kickoff("Go")
    again = Agent.from_checkpoint(agent.run_id or "", checkpoint=config, runtime=runtime)
    assert [type(message).__name__ for message in again.messages] == [
        "SystemMessage", "UserMessage", "AssistantMessage", "ToolMessage",
    ]  # fmt: skip
    assert again.messages == agent.messages
    with pytest.raises(UsageError, match="has its prompt already"):
        again.kickoff("Something else")
    again = Agent.from_checkpoint(agent.run_id or "", checkpoint=config, runtime=runtime)
    again.llm = ScriptedModel(["never", "done"])
    output = again.kickoff()
    assert (output.raw, output.turns, output.usage.requests) == ("done", 2, 2)
    assert again.tools[0].usage_count == 1


def test_an_agent_restored_while_its_tools_were_at_work_shows_those_that_are_done(
    runtime: Runtime, config: CheckpointConfig
) -> None:
    stuck = asyncio.Event()

    @tool
    async def quick() -> str:
        """Returns at once."""
        return "quick"

    @tool
    async def slow() -> str:
        """Never returns."""
        await stuck.wait()
        return "slow"

    loose = CheckpointConfig(config.store, self_contained=False)
    both = [call("slow", call_id="1"), call("quick", call_id="2")]
    agent = Agent(role="A", llm=ScriptedModel([both]), tools=[quick, slow], checkpoint=loose, runtime=runtime)

    async def main() -> None:
        async with await agent.akickoff("Go", stream=True) as stream:
            async for frame in stream:
                if frame.type == "tool_usage_finished":
                    break

    asyncio.run(main())
    assert [message.text for message in agent.messages if isinstance(message, ToolMessage)] == ["quick"]


@pytest.mark.parametrize(("own", "calls"), [(None, 3), (False, 4)])
def test_an_agent_is_written_down_as_its_crew_is_unless_it_says_no(
    runtime: Runtime, config: CheckpointConfig, own: Any, calls: int
) -> None:
    model = ScriptedModel([call("look", call_id="1")])
    agent = Agent(role="A", llm=model, tools=[look.model_copy(deep=True)], checkpoint=own)
    crew = Crew(tasks=[Task(description="x", agent=agent)], checkpoint=config, runtime=runtime)
    run_id = break_off(crew)
    more = ScriptedModel([call("look", call_id="1"), "done"] if own is False else ["never", "done"])
    crew.agents[0].llm = more
    more.reach = lambda requests: None if own is False else ScriptedModel.reach(more, requests)  # type: ignore[method-assign]
    assert crew.kickoff(from_checkpoint=run_id).raw == "done"
    assert 1 + 1 + (more.count - (0 if own is False else 1)) == calls


def test_an_agent_with_checkpoints_of_its_own_in_a_crew_without_any(runtime: Runtime, config: CheckpointConfig) -> None:
    agent = Agent(role="A", llm=ScriptedModel(["done"]), checkpoint=config)
    crew = Crew(tasks=[Task(description="x", agent=agent)], runtime=runtime)
    assert crew.kickoff().raw == "done"


def test_a_run_whose_budget_was_used_up_goes_on_with_a_larger_one(runtime: Runtime, config: CheckpointConfig) -> None:
    crew = two_tasks(config, runtime, used("first"), used("second"), budget=Budget(max_requests=1))
    with pytest.raises(BudgetExceededError):
        crew.kickoff()
    run_id = crew.run_id
    with pytest.raises(BudgetExceededError):
        crew.kickoff(from_checkpoint=run_id)
    crew.budget = Budget(max_requests=2)
    output = crew.kickoff(from_checkpoint=run_id)
    assert (output.raw, output.usage.requests) == ("second", 2)


def test_the_budget_of_a_flow_counts_the_crews_inside(runtime: Runtime) -> None:
    class Outer(Flow[dict[str, Any]]):
        @start()
        async def first(self) -> str:
            return str(await Crew(tasks=[Task(description="x", agent=agent)]).akickoff())

        @listen(first)
        async def second(self) -> str:
            return str(await agent.akickoff("y"))

    agent = Agent(role="A", llm=ScriptedModel(["one", "two"]))
    with pytest.raises(BudgetExceededError, match="the budget of Outer"):
        Outer(runtime=runtime, budget=Budget(max_requests=1)).kickoff()
    flow = Outer(runtime=runtime, budget=Budget(max_requests=2))
    agent.llm = ScriptedModel(["one", "two"])
    heard = hear(runtime, LLMCallCompletedEvent)
    assert flow.kickoff() == "two"
    assert len(heard) == 2


def test_s1_20_an_answer_that_could_not_count_is_counted(runtime: Runtime, config: CheckpointConfig) -> None:
    agent = Agent(role="A", llm=ScriptedModel([used("no", 3)]), max_iter=1, checkpoint=config, runtime=runtime)
    with pytest.raises(AgentError, match="last turn"):
        agent.kickoff("Go", response_format=City)
    assert agent.usage.input_tokens == 3
    again = Agent.from_checkpoint(agent.run_id or "", checkpoint=config, runtime=runtime)
    again.llm = ScriptedModel([used("never"), used('{"cityName": "Oslo", "people": 1}', 4)])
    output = again.kickoff()
    assert output.pydantic == City(cityName="Oslo", people=1)
    assert output.usage.input_tokens == 7


def test_s1_16_an_agent_is_forked_from_any_checkpoint(runtime: Runtime) -> None:
    config = CheckpointConfig(MemoryStore(), on_events=("tool_usage_finished",))
    lines: list[Any] = [call("look"), used("here")]
    agent = Agent(
        role="A", llm=ScriptedModel(lines), tools=[look.model_copy(deep=True)], checkpoint=config, runtime=runtime
    )
    assert agent.kickoff("Go").raw == "here"
    store: Any = config.store
    [mark] = asyncio.run(store.marks(agent.run_id))
    forked = Agent.fork(mark.id, branch="again", checkpoint=config, runtime=runtime)
    assert len(forked.messages) == 4
    forked.llm = ScriptedModel(["never", used("there")])
    output = forked.kickoff()
    assert (output.raw, output.turns) == ("there", 2)


def test_s1_3_tasks_that_are_done_are_not_done_again_and_are_context_for_the_others(
    runtime: Runtime, config: CheckpointConfig
) -> None:
    crew = two_tasks(config, runtime, used("first"))
    run_id = break_off(crew)
    started = hear(runtime, CrewKickoffStartedEvent, TaskStartedEvent, LLMCallStartedEvent)
    crew.agents[0].llm = ScriptedModel([used("never"), used("second")])
    output = crew.kickoff(from_checkpoint=run_id)
    assert crew.run_id == run_id
    assert [one.raw for one in output.tasks_output] == ["first", "second"]
    assert [(event.type, event.task_name) for event in started] == [
        ("task_started", "two"),
        ("llm_call_started", "two"),
    ]
    assert "one:\\nfirst" in str(started[-1].new_messages)


def test_s1_17_tasks_finished_out_of_order_and_skipped_ones_are_not_done_again(
    runtime: Runtime, config: CheckpointConfig
) -> None:
    asked: list[str] = []
    is_open = threading.Event()
    second_is_done = asyncio.Event()

    async def answer(messages: Any, tools: Any, settings: Any) -> str:
        name = last_text(messages)
        asked.append(name)
        if name == "one" and not is_open.is_set():
            await second_is_done.wait()
            raise ModelRequestError("not now", model="m")
        return f"{name} done"

    def tell(output: TaskOutput) -> None:
        if output.name == "two":
            runtime.event_bus.on(TaskCompletedEvent)(lambda source, event: second_is_done.set())

    model = ScriptedModel(answer)
    agents = [Agent(role="Twin", llm=model), Agent(role="Twin", llm=model)]
    tasks = [
        Task(name="one", description="one", agent=agents[0], async_execution=True, context=[]),
        Task(name="two", description="two", agent=agents[1], async_execution=True, context=[], callback=tell),
        Task(name="skipped", description="skipped", agent=agents[1], condition=lambda output: False, context=[]),
        Task(name="three", description="three", agent=agents[1], context=[]),
    ]
    loose = CheckpointConfig(config.store, self_contained=False)
    crew = Crew(tasks=tasks, checkpoint=loose, runtime=runtime)
    with pytest.raises(ModelRequestError, match="not now"):
        asyncio.run(crew.akickoff())
    is_open.set()
    output = crew.kickoff(from_checkpoint=crew.run_id)
    assert sorted(asked) == ["one", "one", "three", "two"]
    assert [one.raw for one in output.tasks_output] == ["one done", "two done", "", "three done"]
    assert output.tasks_output[2].is_skipped
