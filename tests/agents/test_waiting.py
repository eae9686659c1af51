"""Crews and agents that wait for people."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.agents.support import call, last_text

from holdfast import (
    Agent,
    CheckpointConfig,
    Crew,
    Flow,
    Pending,
    Runtime,
    ScriptedModel,
    Task,
    TaskOutput,
    start,
    tool,
)
from holdfast.human import LaterProvider
from holdfast.models import ToolMessage
from holdfast.ports import HumanRequest
from holdfast.stores import MemoryStore


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


def test_a_question_of_a_crew_inside_a_flow_is_answered_through_the_flow(
    runtime: Runtime, config: CheckpointConfig
) -> None:
    class Outer(Flow[dict[str, Any]]):
        @start()
        async def work(self) -> str:
            return str(await asks(None, runtime, "draft 1", "printed").akickoff())

    flow = Outer(checkpoint=config, runtime=runtime)
    pending = flow.kickoff()
    assert isinstance(pending, Pending)
    assert [request.output for request in pending.requests] == ["draft 1"]
    again = Outer.from_pending(pending.run_id, checkpoint=config, runtime=runtime)
    assert again.resume("yes") == "printed"


def test_what_a_person_wishes_is_not_forgotten_when_a_guardrail_refuses_the_revised_output(runtime: Runtime) -> None:
    class Editor:
        answers: ClassVar[list[str]] = ["Make it rhyme", "ok"]

        def request(self, request: HumanRequest) -> str:
            return self.answers.pop(0)

    prompts: list[str] = []
    drafts = ["draft 1", "bad", "draft 2"]

    def answer(messages: Any, tools: Any, settings: Any) -> str:
        prompts.append(last_text(messages))
        return drafts[len(prompts) - 1]

    def judge(output: TaskOutput) -> tuple[bool, Any]:
        return (False, "it is bad") if output.raw == "bad" else (True, output)

    agent = Agent(role="Clerk", llm=ScriptedModel(answer))
    task = Task(description="Write.", agent=agent, human_input=True, guardrail=judge)
    output = Crew(tasks=[task], human=Editor(), runtime=runtime).kickoff()
    assert output.raw == "draft 2"
    assert "Make it rhyme" in prompts[2]
    assert "it is bad" in prompts[2]
