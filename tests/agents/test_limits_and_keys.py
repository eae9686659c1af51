"""What bounds an agent: its model's context, caps on requests, and the key that it needs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.agents.support import QUICK, add, call, hear, last_text, provider_model

from holdfast import Agent, Budget, CheckpointConfig, Crew, Flow, Pending, Runtime, ScriptedModel, Task, start
from holdfast.errors import BudgetExceededError, ContextLengthError, ModelKeyMissingError
from holdfast.events import LLMContextOverflowEvent, RunWaitingEvent
from holdfast.models import ProviderModel, RequestLimits, UserMessage
from holdfast.stores import MemoryStore, SqliteStore
from holdfast.testing import Answer, Failure, Gate, ManualClock, ModelServer, ToolUse

KEY = "sk-never-to-be-seen"


# -- context -----------------------------------------------------------------------------------------------------------


def full(limit: int) -> Any:
    """A model with room for so many messages; it answers once it was told less."""

    def answer(messages: Any, tools: Any, settings: Any) -> Any:
        if len(messages) > limit:
            return ContextLengthError("too long", model="m")
        if "first part of a conversation" in last_text(messages):
            return "in short: one plus two"
        return call("add", '{"a": 1}') if len(messages) == 2 else "done"

    return answer


@pytest.mark.parametrize(("policy", "stands"), [("summarise", "in short: one plus two"), ("truncate", "was left out")])
def test_a_conversation_that_grows_too_long_is_put_shorter_and_an_event_says_so(
    runtime: Runtime, policy: Any, stands: str
) -> None:
    heard = hear(runtime, LLMContextOverflowEvent)
    agent = Agent(role="A", llm=ScriptedModel(full(3)), tools=[add], on_overflow=policy, runtime=runtime)
    output = agent.kickoff("Go")
    assert output.raw == "done"
    assert [event.action for event in heard] == [policy]
    assert any(isinstance(one, UserMessage) and stands in one.text for one in agent.messages)
    assert agent.messages[1] == UserMessage("Go")


def test_a_conversation_that_may_not_be_shortened_fails_the_run(runtime: Runtime) -> None:
    heard = hear(runtime, LLMContextOverflowEvent)
    agent = Agent(role="A", llm=ScriptedModel(full(3)), tools=[add], on_overflow="fail", runtime=runtime)
    with pytest.raises(ContextLengthError):
        agent.kickoff("Go")
    assert [event.action for event in heard] == ["fail"]


def test_a_prompt_that_never_fits_fails_the_run_and_does_not_go_round(runtime: Runtime) -> None:
    model = ScriptedModel(full(0))
    with pytest.raises(ContextLengthError):
        Agent(role="A", llm=model, runtime=runtime).kickoff("Go")
    assert model.count == 1


def test_a_provider_says_that_the_context_is_full(runtime: Runtime) -> None:
    script: list[Any] = [
        Answer(ToolUse("add", {"a": 1})),
        Failure(400, code="context_length"),
        "in short: three",
        "three",
    ]
    with ModelServer(script) as server:
        agent = Agent(role="A", llm=provider_model(server), tools=[add], runtime=runtime)
        assert agent.kickoff("Go").raw == "three"
        assert "in short: three" in str(server.requests[-1].messages)


# -- time ---------------------------------------------------------------------------------------------------------------


class Answering(Flow[dict[str, Any]]):
    """Asks an agent in its only step."""

    def __init__(self, agent: Agent, **options: Any) -> None:
        super().__init__(**options)
        self.agent = agent

    @start()
    async def work(self) -> str:
        return str(await self.agent.akickoff("Go"))


@pytest.mark.parametrize("kind", ["flow", "crew", "agent"])
async def test_the_time_of_a_run_is_up_and_it_goes_on_with_more(kind: str) -> None:
    clock, is_quick = ManualClock(), asyncio.Event()

    async def answer(messages: Any, tools: Any, settings: Any) -> str:
        await is_quick.wait()
        return "in time"

    async with Runtime(clock=clock, grace=2.0) as runtime:
        config = CheckpointConfig(MemoryStore(), self_contained=False)
        options: dict[str, Any] = {"checkpoint": config, "budget": Budget(max_seconds=5), "runtime": runtime}
        agent = Agent(role="Slow", llm=ScriptedModel(answer), **(options if kind == "agent" else {}))
        crew = Crew(name="Slow", tasks=[Task(description="x", agent=agent)], **options)
        flow = Answering(agent, name="Slow", **options)
        starts: dict[str, Any] = {"flow": flow.akickoff, "crew": crew.akickoff, "agent": agent.akickoff}
        work = asyncio.ensure_future(starts[kind](*(["Go"] if kind == "agent" else [])))
        while not agent.llm.count:  # type: ignore[union-attr] # noqa: ASYNC110 - until it is asked
            await asyncio.sleep(0)
        await clock.until_sleeping(2)  # the budget, and the hold on the journal
        clock.advance(5)
        with pytest.raises(BudgetExceededError, match="the time of Slow is up: it may take 5 s"):
            await work
        assert runtime.inventory() == []
        is_quick.set()
        run_id = {"flow": flow, "crew": crew, "agent": agent}[kind].run_id  # type: ignore[attr-defined]
        assert str(await starts[kind](from_checkpoint=run_id)) == "in time"


# -- caps --------------------------------------------------------------------------------------------------------------


async def test_two_crews_share_a_cap_on_requests_whatever_their_models_are_given_as(runtime: Runtime) -> None:
    gate = Gate(opens_at=2)
    limits = RequestLimits({"openai": 2})
    with ModelServer(lambda request: Answer(gate, "ok")) as server:
        crews = [
            Crew(
                tasks=[
                    Task(description=str(n), agent=Agent(role="A", llm=provider_model(server)), async_execution=True)
                    for n in range(3)
                ],
                limits=limits, runtime=runtime,
            )
            for _ in range(2)
        ]  # fmt: skip
        await asyncio.gather(*(crew.akickoff() for crew in crews))
        assert (len(server.requests), server.peak_active) == (6, 2)
    assert limits.in_use("openai") == 0


# -- keys --------------------------------------------------------------------------------------------------------------


def crew_without_key(server: ModelServer, config: Any, runtime: Runtime) -> Crew:
    """Two agents whose models, made for each, need the same key; nobody has it."""
    agents = [
        Agent(role=f"A{n}", llm=ProviderModel("anthropic:claude-opus-5", base_url=server.url, retries=QUICK))
        for n in range(2)
    ]
    tasks = [Task(name=f"t{n}", description="x", agent=agent, async_execution=True) for n, agent in enumerate(agents)]
    return Crew(tasks=tasks, checkpoint=config, runtime=runtime)


def test_s1_10_a_missing_key_puts_the_run_down_and_resume_brings_it_without_storing_it(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    heard = hear(runtime, RunWaitingEvent)
    with ModelServer(["one", "two"]) as server, SqliteStore(tmp_path / "runs.db") as store:
        config = CheckpointConfig(store)
        pending = crew_without_key(server, config, runtime).kickoff()
        assert isinstance(pending, Pending)
        assert [(one.kind, "ANTHROPIC_API_KEY" in one.message) for one in pending.requests] == [("secret", True)]
        assert heard[-1].reason == "needs_secret"
        assert server.requests == []
        again = Crew.from_checkpoint(pending.run_id, checkpoint=config, runtime=runtime)
        assert [one.kind for one in again.pending] == ["secret"]
        assert isinstance(again.kickoff(), Pending)  # still nobody has it
        output = Crew.from_checkpoint(pending.run_id, checkpoint=config, runtime=runtime).resume(KEY)
        assert sorted(one.raw for one in output.tasks_output) == ["one", "two"]
        assert all(KEY in str(request.headers) for request in server.requests), server.requests[0].headers
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"claude-opus-5" in written
    assert KEY.encode() not in written


def test_s1_10_a_key_that_was_an_argument_is_not_stored_and_asked_for_again(runtime: Runtime, tmp_path: Path) -> None:
    with ModelServer([Answer(ToolUse("add", {"a": 1})), Failure(400), "three"]) as server:
        with SqliteStore(tmp_path / "runs.db") as store:
            config = CheckpointConfig(store)
            model = provider_model(server, api_key=KEY)
            agent = Agent(role="A", llm=model, tools=[add], checkpoint=config, runtime=runtime)
            with pytest.raises(Exception, match="scripted failure"):
                agent.kickoff("Go")
            again = Agent.from_checkpoint(agent.run_id or "", checkpoint=config, runtime=runtime)
            pending = again.kickoff()
            assert isinstance(pending, Pending)
            assert again.resume(KEY).raw == "three"
        assert len(server.requests) == 3
    assert KEY.encode() not in b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_a_missing_key_of_a_run_that_is_not_written_down_is_an_error(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ModelKeyMissingError, match="OPENAI_API_KEY"):
        Agent(role="A", llm="openai:gpt-4o", runtime=runtime).kickoff("Go")
    with Runtime(store=MemoryStore()) as other, ModelServer(["ok"]) as server:
        agent = Agent(role="A", llm=ProviderModel("anthropic:claude-opus-5", base_url=server.url), checkpoint=False)
        crew = Crew(tasks=[Task(description="x", agent=agent)], checkpoint=True, runtime=other)
        assert isinstance(crew.kickoff(), Pending)
        assert crew.resume(KEY).raw == "ok"
