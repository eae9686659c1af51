"""Crews and agents as they are stored, and made again from that."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from tests.agents.office import City, Expert, Report, Search, always, fine, look, noted
from tests.agents.support import break_off, call, two_tasks, used

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
    start,
    tool,
)
from holdfast.errors import (
    GuardrailError,
    ModelRequestError,
    NotStorableError,
    StorageError,
)
from holdfast.events import (
    TaskCompletedEvent,
)
from holdfast.models import ModelSettings
from holdfast.stores import MemoryStore


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
    monkeypatch.setenv("HOLDFAST_SECRET_SEARCH_API_KEY", "sk-again")
    again = Agent.from_checkpoint(agent.run_id or "", checkpoint=config, runtime=runtime)
    assert again.tools[0].run() == "found with sk-again"


def test_s1_10_a_crew_whose_tool_lacks_its_secret_waits_until_resume_brings_it(
    runtime: Runtime, config: CheckpointConfig
) -> None:
    agent = Agent(
        role="A", llm=ScriptedModel(["one", call("search"), "two"]), tools=[Search(api_key=SecretStr("sk-tool"))]
    )
    tasks = [Task(name=word, description=word, agent=agent) for word in ("one", "two")]
    tasks[1].guardrail, tasks[1].guardrail_max_retries = refuse_once, 0
    crew = Crew(tasks=tasks, checkpoint=config, runtime=runtime)
    refused.clear()
    with pytest.raises(GuardrailError):
        crew.kickoff()
    again = Crew.from_checkpoint(crew.run_id or "", checkpoint=config, runtime=runtime)
    assert [(one.kind, "Search.api_key" in one.message) for one in again.pending] == [("secret", True)]
    waiting = again.kickoff()
    assert isinstance(waiting, Pending)
    assert [one.kind for one in waiting.requests] == ["secret"]
    assert again.resume("sk-again").raw == "two"
    assert again.agents[0].tools[0].run() == "found with sk-again"


refused: list[str] = []


def refuse_once(output: TaskOutput) -> tuple[bool, str]:
    refused.append(output.raw)
    return len(refused) > 1, output.raw


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


def test_a_stored_agent_that_does_not_fit_any_more_is_an_error_of_storage(
    runtime: Runtime, config: CheckpointConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew = two_tasks(config, runtime, used("first"))
    run_id = break_off(crew)
    monkeypatch.setattr("tests.agents.office.look", None)
    with pytest.raises(StorageError, match=r"tests\.agents\.office"):
        Crew.from_checkpoint(run_id, checkpoint=config, runtime=runtime)
