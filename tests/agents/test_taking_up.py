"""Crews and agents that are taken up again, in this process and as another one would."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from tests.agents.office import City, Expert, Report, Search, always, fine, look, noted
from tests.agents.support import call, hear, last_text

from holdfast import (
    Agent,
    Budget,
    CheckpointConfig,
    Crew,
    Flow,
    JsonProvider,
    Pending,
    Process,
    Runtime,
    ScriptedModel,
    Task,
    TaskOutput,
    listen,
    start,
    tool,
)
from holdfast.errors import (
    BudgetExceededError,
    ModelRequestError,
    NotStorableError,
    SecretMissingError,
    StorageError,
    UsageError,
)
from holdfast.events import (
    CrewKickoffStartedEvent,
    LLMCallCompletedEvent,
    LLMCallStartedEvent,
    TaskCompletedEvent,
    TaskStartedEvent,
)
from holdfast.human import LaterProvider
from holdfast.models import AssistantMessage, ModelSettings, Reply, Text, ToolMessage
from holdfast.ports import Usage
from holdfast.stores import MemoryStore


def used(text: str, tokens: int = 10) -> Reply:
    return Reply(AssistantMessage((Text(text),)), Usage(1, tokens))


@pytest.fixture
def config() -> CheckpointConfig:
    return CheckpointConfig(MemoryStore())


# -- crews -------------------------------------------------------------------------------------------------------------


def two_tasks(config: CheckpointConfig, runtime: Runtime, *lines: Any, **options: Any) -> Crew:
    """A crew whose script ends before its tasks do, unless there are two lines."""
    agent = Agent(role="Clerk", llm=ScriptedModel(list(lines)), tools=[look.model_copy(deep=True)])
    tasks = [Task(name=name, description=name, agent=agent) for name in ("one", "two")]
    return Crew(name="Office", tasks=tasks, checkpoint=config, runtime=runtime, **options)


def break_off(crew: Crew) -> str:
    """Let a crew run into the end of its script; its run id."""
    with pytest.raises(ModelRequestError, match="give the script more"):
        crew.kickoff()
    assert crew.run_id is not None
    return crew.run_id


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


def test_a_crew_is_made_again_with_everything_it_has(runtime: Runtime, config: CheckpointConfig) -> None:
    model = ScriptedModel(["{}"], name="scripted:shared")
    expert = Expert(role="E", goal="g", llm=model, tools=[look, Search()], field="bees", settings=ModelSettings(seed=3))
    clerk = Agent(role="C", llm=model, tools=[look], checkpoint=False, budget=Budget(max_requests=9), max_iter=3)
    first = Report(name="r", description="d", agent=expert, output_json=City, pages=3, guardrail=fine, output_file="x")
    tasks = [first, Task(description="s", agent=clerk, context=[first], condition=always, callback=noted, tools=[look])]
    crew = Crew(
        agents=[clerk, expert], tasks=tasks, checkpoint=config, runtime=runtime, task_callback=noted,
        budget=Budget(max_tokens=100), process=Process.hierarchical, manager_llm=model,
    )  # fmt: skip
    with pytest.raises(Exception):  # noqa: B017, PT011
        crew.kickoff()
    again = Crew.from_checkpoint(crew.run_id or "", checkpoint=config, runtime=runtime)
    assert [type(one) for one in again.agents] == [Agent, Expert]
    assert again.agents[1].field == "bees"  # type: ignore[attr-defined]
    assert again.agents[1].settings == ModelSettings(seed=3)
    assert (again.agents[0].checkpoint, again.agents[0].budget, again.agents[0].max_iter) == (
        False, Budget(max_requests=9), 3,
    )  # fmt: skip
    assert isinstance(again.tasks[0], Report)
    assert again.tasks[0].pages == 3
    assert again.tasks[0].output_json is City
    assert again.tasks[0].guardrail is fine
    assert again.tasks[1].condition is always
    assert again.task_callback is noted
    assert again.budget == Budget(max_tokens=100)
    assert [agent.id for agent in again.agents] == [clerk.id, expert.id]


def test_s1_19_a_restored_crew_is_linked_as_the_first_one_was(runtime: Runtime, config: CheckpointConfig) -> None:
    model = ScriptedModel([])
    agents = [Agent(role="Same", llm=model, tools=[look]), Agent(role="Same", llm=model, tools=[look])]
    tasks = [Task(description="a", agent=agents[1]), Task(description="b", agent=agents[0])]
    tasks.append(Task(description="c", agent=agents[0], context=[tasks[0]], tools=[look]))
    crew = Crew(agents=agents, tasks=tasks, checkpoint=config, runtime=runtime)
    again = Crew.from_checkpoint(break_off(crew), checkpoint=config, runtime=runtime)
    assert again.tasks[0].agent is again.agents[1]
    assert again.tasks[1].agent is again.agents[0]
    assert again.tasks[2].context is not None
    assert again.tasks[2].context[0] is again.tasks[0]
    assert again.agents[0].llm is again.agents[1].llm
    assert again.agents[0].tools[0] is again.agents[1].tools[0]
    assert again.tasks[2].tools is not None
    assert again.tasks[2].tools[0] is again.agents[0].tools[0]


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


def test_s1_8_an_output_class_that_is_gone_is_made_again_from_its_schema(
    runtime: Runtime, config: CheckpointConfig
) -> None:

    class Local(BaseModel):
        name: str
        people: int = 3

    agent = Agent(role="Clerk", llm=ScriptedModel(['{"name": "Oslo"}']))
    tasks = [
        Task(name="one", description="a", agent=agent, output_pydantic=Local),
        Task(name="two", description="b", agent=agent, output_pydantic=City),
    ]
    crew = Crew(tasks=tasks, checkpoint=config, runtime=runtime)
    again = Crew.from_checkpoint(break_off(crew), checkpoint=config, runtime=runtime)
    again.agents[0].llm = ScriptedModel(["never", '{"cityName": "Bergen", "people": 1}'])
    output = again.kickoff()
    assert output.tasks_output[0].pydantic.model_dump() == {"name": "Oslo", "people": 3}
    assert output.tasks_output[1].pydantic == City(cityName="Bergen", people=1)


def test_an_output_with_aliases_comes_back_as_it_was(runtime: Runtime, config: CheckpointConfig) -> None:
    agent = Agent(role="Clerk", llm=ScriptedModel(['{"cityName": "Oslo", "people": 7}']))
    tasks = [
        Task(name="one", description="a", agent=agent, output_pydantic=City),
        Task(name="two", description="b", agent=agent),
    ]
    crew = Crew(tasks=tasks, checkpoint=config, runtime=runtime)
    run_id = break_off(crew)
    crew.agents[0].llm = ScriptedModel(["never", "done"])
    assert crew.kickoff(from_checkpoint=run_id).tasks_output[0].pydantic == City(cityName="Oslo", people=7)


# -- what cannot be stored ---------------------------------------------------------------------------------------------


def test_s1_9_what_has_no_stored_form_is_refused_when_it_is_configured(config: CheckpointConfig) -> None:
    plain = ScriptedModel([])

    @tool
    def local() -> str:
        """Is nowhere to be found."""
        return ""

    with pytest.raises(NotStorableError, match=r"\$\.tools\[1\]\.func.*local"):
        Agent(role="A", llm=plain, tools=[look, local], checkpoint=config)
    with pytest.raises(NotStorableError, match=r"\$\.llm\.script"):
        Agent(role="A", llm=ScriptedModel(lambda *_: "x"), checkpoint=config)
    agent = Agent(role="A", llm=plain)
    with pytest.raises(NotStorableError, match=r"\$\.tasks\[0\]\.guardrails\[0\]: cannot store a lambda"):
        Crew(tasks=[Task(description="x", agent=agent, guardrails=[lambda output: (True, 1)])], checkpoint=config)
    with pytest.raises(NotStorableError, match=r"\$\.agents\[0\]\.tools\[0\]"):
        Crew(tasks=[Task(description="x", agent=Agent(role="B", llm=plain, tools=[local]))], checkpoint=config)
    with pytest.raises(NotStorableError, match=r"\$\.task_callback"):
        Crew(tasks=[Task(description="x", agent=agent)], task_callback=lambda output: None, checkpoint=config)
    loose = CheckpointConfig(config.store, self_contained=False)
    Agent(role="A", llm=ScriptedModel(lambda *_: "x"), tools=[local], checkpoint=loose)
    Crew(tasks=[Task(description="x", agent=agent, guardrail=lambda output: (True, 1))], checkpoint=loose)


def test_a_crew_that_is_not_self_contained_goes_on_with_an_object_like_the_first(
    runtime: Runtime, config: CheckpointConfig
) -> None:
    loose = CheckpointConfig(config.store, self_contained=False)

    def make(*lines: Any) -> Crew:
        agent = Agent(role="A", llm=ScriptedModel(list(lines)))
        tasks = [Task(description=name, agent=agent, callback=lambda output: None) for name in ("one", "two")]
        return Crew(tasks=tasks, checkpoint=loose, runtime=runtime)

    run_id = break_off(make("first"))
    with pytest.raises(StorageError, match=r"kickoff\(from_checkpoint="):
        Crew.from_checkpoint(run_id, checkpoint=loose, runtime=runtime)
    assert make("never", "second").kickoff(from_checkpoint=run_id).raw == "second"


def test_secrets_of_tools_are_not_stored_and_are_given_again(
    runtime: Runtime, config: CheckpointConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(
        role="A",
        llm=ScriptedModel([call("search"), "x"]),
        tools=[Search(api_key=SecretStr("sk-tool"))],
        checkpoint=config,
    )
    object.__setattr__(agent, "runtime", runtime)
    agent.kickoff("Go")
    with pytest.raises(SecretMissingError, match=r"search.api_key|Search.api_key"):
        Agent.from_checkpoint(agent.run_id or "", checkpoint=config, runtime=runtime)
    monkeypatch.setenv("HOLDFAST_SECRET_SEARCH_API_KEY", "sk-again")
    again = Agent.from_checkpoint(agent.run_id or "", checkpoint=config, runtime=runtime)
    assert again.tools[0].run() == "found with sk-again"


# -- agents ------------------------------------------------------------------------------------------------------------


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


# -- questions ---------------------------------------------------------------------------------------------------------


def asks(config: CheckpointConfig | None, runtime: Runtime, *lines: Any) -> Crew:
    agent = Agent(role="Clerk", llm=ScriptedModel(list(lines)))
    task = Task(name="draft", description="Write.", agent=agent, human_input=True)
    more = Task(name="print", description="Print.", agent=agent)
    return Crew(tasks=[task, more], checkpoint=config, human=LaterProvider(), runtime=runtime)


def test_a_person_is_shown_an_output_and_has_it_revised_another_day(runtime: Runtime, config: CheckpointConfig) -> None:
    crew = asks(config, runtime, "draft 1", "draft 2", "printed")
    pending = crew.kickoff()
    assert isinstance(pending, Pending)
    assert [request.output for request in pending.requests] == ["draft 1"]
    second = Crew.from_checkpoint(pending.run_id, checkpoint=config, runtime=runtime)
    second.human = LaterProvider()
    assert [request.output for request in second.pending] == ["draft 1"]
    pending = second.resume("Make it rhyme")
    assert isinstance(pending, Pending)
    assert [request.output for request in pending.requests] == ["draft 2"]
    third = Crew.from_checkpoint(pending.run_id, checkpoint=config, runtime=runtime)
    output = third.resume("Looks good!")
    assert [one.raw for one in output.tasks_output] == ["draft 2", "printed"]
    assert output.usage.requests == 3


def test_a_crew_without_checkpoints_that_has_to_wait_can_be_made_again() -> None:
    with Runtime(store=MemoryStore()) as runtime:
        crew = asks(None, runtime, "draft 1", "printed")
        pending = crew.kickoff()
        assert isinstance(pending, Pending)
        again = Crew.from_checkpoint(pending.run_id, runtime=runtime)
        assert again.resume("ok").raw == "printed"


def test_a_question_inside_a_tool_puts_the_run_down_and_the_tool_is_called_again(
    runtime: Runtime, config: CheckpointConfig
) -> None:
    class Doorman(Flow[dict[str, Any]]):
        @start()
        async def ask_guest(self) -> str:
            return str(await self.aask("Who is there?"))

    @tool(max_usage_count=1)
    async def door() -> str:
        """Asks who is there."""
        return str(await Doorman(human=LaterProvider()).akickoff())

    loose = CheckpointConfig(config.store, self_contained=False)
    agent = Agent(
        role="A", llm=ScriptedModel([call("door"), "welcome"]), tools=[door], checkpoint=loose, runtime=runtime
    )
    pending = agent.kickoff("Open")
    assert isinstance(pending, Pending)
    assert [request.message for request in pending.requests] == ["Who is there?"]
    assert agent.resume("Ada").raw == "welcome"
    assert [message.text for message in agent.messages if isinstance(message, ToolMessage)] == ["Ada"]
    assert door.usage_count == 1


# -- settings that inherit ---------------------------------------------------------------------------------------------


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


# -- budgets -----------------------------------------------------------------------------------------------------------


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


# -- named checkpoints, and files --------------------------------------------------------------------------------------


def test_a_task_of_a_crew_inside_a_flow_makes_a_checkpoint_that_the_flow_can_be_forked_from(
    runtime: Runtime, config: CheckpointConfig
) -> None:
    class Outer(Flow[dict[str, Any]]):
        @start()
        async def work(self) -> str:
            agent = Agent(role="A", llm=ScriptedModel(["one", "two"]))
            return str(await Crew(tasks=[Task(description=word, agent=agent) for word in "ab"]).akickoff())

    flow = Outer(checkpoint=config, runtime=runtime)
    assert flow.kickoff() == "two"
    store: Any = config.store
    marks = asyncio.run(store.marks(flow.run_id))
    assert [mark.trigger for mark in marks].count("task_completed") == 2


def test_every_event_can_make_a_checkpoint(runtime: Runtime) -> None:
    store = MemoryStore()
    agent = Agent(
        role="A", llm=ScriptedModel(["x"]), checkpoint=CheckpointConfig(store, on_events=("*",)), runtime=runtime
    )
    agent.kickoff("Go")
    marks = asyncio.run(store.marks(agent.run_id or ""))
    assert {"agent_execution_started", "llm_call_completed"} <= {mark.trigger for mark in marks}


def test_s1_2_a_crew_written_into_a_file_is_restored_where_there_is_no_journal(
    runtime: Runtime, tmp_path: Path
) -> None:
    first = CheckpointConfig(JsonProvider(tmp_path))
    crew = two_tasks(first, runtime, used("first", 7))
    with pytest.raises(ModelRequestError):
        crew.kickoff()
    [file] = [path for path in tmp_path.rglob("*.json") if path.is_file()][-1:]
    with Runtime(store=MemoryStore()) as other:
        again = Crew.from_checkpoint(file, runtime=other)
        again.agents[0].llm = ScriptedModel([used("never"), used("second", 5)])
        output = again.kickoff()
        assert ([one.raw for one in output.tasks_output], output.usage.input_tokens) == (["first", "second"], 12)


def test_s1_2_a_crew_whose_state_a_handler_writes_into_a_file_is_restored_from_it(
    runtime: Runtime, tmp_path: Path
) -> None:
    runtime.event_bus.enable_recording()
    files: list[Any] = []

    @runtime.event_bus.on(TaskCompletedEvent)
    async def keep(source: object, event: TaskCompletedEvent, state: Any) -> None:
        if event.task_name == "one" and not files:
            files.append(await state.acheckpoint(tmp_path))

    agent = Agent(role="Clerk", llm=ScriptedModel([used("first"), used("second")]))
    tasks = [Task(name=name, description=name, agent=agent) for name in ("one", "two")]
    crew = Crew(tasks=tasks, runtime=runtime)
    crew.kickoff()
    runtime.event_bus.flush()
    with Runtime(store=MemoryStore()) as other:
        again = Crew.from_checkpoint(files[0], runtime=other)
        assert again.kickoff().raw == "second"
        assert again.usage.requests == 2
