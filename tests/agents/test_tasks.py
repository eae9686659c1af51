"""Tasks of a crew: what they are told, what counts as their output, in what order they are done."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.agents.support import call, hear, last_text

from holdfast import Agent, Budget, Crew, Process, Runtime, ScriptedModel, Task, TaskOutput
from holdfast.errors import BudgetExceededError, GuardrailError, HoldfastError, UsageError
from holdfast.events import (
    CrewKickoffFailedEvent,
    LLMCallStartedEvent,
    LLMGuardrailCompletedEvent,
    LLMGuardrailFailedEvent,
    TaskCompletedEvent,
    TaskFailedEvent,
    TaskSkippedEvent,
    TaskStartedEvent,
)
from holdfast.models import AssistantMessage, Reply, Text
from holdfast.ports import Usage


class City(BaseModel):
    name: str
    people: int


def worker(*lines: Any, role: str = "Worker", **options: Any) -> Agent:
    script = lines[0] if len(lines) == 1 and callable(lines[0]) else list(lines)
    return Agent(role=role, llm=ScriptedModel(script), **options)


def crew_of(runtime: Runtime, *tasks: Task, **options: Any) -> Crew:
    return Crew(tasks=list(tasks), runtime=runtime, **options)


def priced(text: str, tokens: int = 10, cost: float = 0.5) -> Reply:
    return Reply(AssistantMessage((Text(text),)), Usage(1, tokens, 0, priced_usd=cost))


# -- what a task is told -----------------------------------------------------------------------------------------------


def test_tasks_are_done_in_order_and_told_what_came_before(runtime: Runtime) -> None:
    prompts: list[str] = []

    def answer(messages: Any, tools: Any, settings: Any) -> str:
        prompts.append(last_text(messages))
        return f"answer {len(prompts)}"

    agent = worker(answer, role="{kind} writer", goal="Write on {topic}")
    tasks = [
        Task(name="one", description="Find {topic}", expected_output="a {kind} list", agent=agent),
        Task(name="two", description="Write", agent=agent),
        Task(name="three", description="Check", agent=agent, context=[]),
    ]
    output = crew_of(runtime, *tasks).kickoff({"topic": "whales", "kind": "short"})
    assert [one.raw for one in output.tasks_output] == ["answer 1", "answer 2", "answer 3"]
    assert output.raw == str(output) == "answer 3"
    assert "Find whales" in prompts[0]
    assert "a short list" in prompts[0]
    assert "one:\nanswer 1" in prompts[1]
    assert "answer" not in prompts[2]
    assert output.tasks_output[0].agent_role == "short writer"
    assert agent.role == "{kind} writer"


def test_context_has_the_named_tasks_in_the_named_order(runtime: Runtime) -> None:
    prompts: list[str] = []

    def answer(messages: Any, tools: Any, settings: Any) -> str:
        prompts.append(last_text(messages))
        return f"answer {len(prompts)}"

    agent = worker(answer)
    first, second, third = (Task(description="the same", agent=agent) for _ in range(3))
    last = Task(description="sum up", agent=agent, context=[third, first])
    crew_of(runtime, first, second, third, last).kickoff()
    assert prompts[3].index("answer 3") < prompts[3].index("answer 1")
    assert "answer 2" not in prompts[3]


def test_context_that_can_never_be_there_is_refused() -> None:
    agent = worker("x")
    stranger = Task(description="elsewhere", agent=agent)
    with pytest.raises(UsageError, match="not a task of this crew"):
        Crew(tasks=[Task(description="here", agent=agent, context=[stranger])])
    later = Task(description="later", agent=agent)
    with pytest.raises(UsageError, match="not before it"):
        Crew(tasks=[Task(description="here", agent=agent, context=[later]), later])


def test_a_crew_that_cannot_work_is_refused_when_it_is_made() -> None:
    with pytest.raises(UsageError, match="needs tasks"):
        Crew(tasks=[])
    with pytest.raises(UsageError, match="nobody does task 'lonely'"):
        Crew(tasks=[Task(description="lonely")])
    with pytest.raises(UsageError, match="needs a manager"):
        Crew(agents=[worker("x")], tasks=[Task(description="x")], process=Process.hierarchical)
    with pytest.raises(UsageError, match="one form of output"):
        Task(description="x", output_pydantic=City, output_json=City)
    with pytest.raises(UsageError, match="role_"):
        Agent(role="x", role_="y")  # type: ignore[call-arg]


# -- async and conditional tasks ---------------------------------------------------------------------------------------


def test_async_tasks_overlap_and_the_next_one_waits_for_them(runtime: Runtime) -> None:
    meeting = threading.Barrier(2)

    async def meet(messages: Any, tools: Any, settings: Any) -> str:
        await asyncio.to_thread(meeting.wait, 10)
        return last_text(messages)

    agent = worker(meet)  # one agent at two tasks at once
    tasks = [
        Task(name="a", description="left", agent=agent, async_execution=True),
        Task(name="b", description="right", agent=agent, async_execution=True),
        Task(name="c", description="join", agent=worker(lambda messages, *_: last_text(messages))),
    ]
    output = crew_of(runtime, *tasks).kickoff()
    assert [one.raw for one in output.tasks_output[:2]] == ["left", "right"]
    assert "a:\nleft" in output.raw
    assert "b:\nright" in output.raw


def is_long(output: TaskOutput | None) -> bool:
    return output is not None and len(output.raw) > 5


async def is_short(output: TaskOutput | None) -> bool:
    return not is_long(output)


def test_a_task_whose_condition_does_not_hold_is_skipped(runtime: Runtime) -> None:
    heard = hear(runtime, TaskStartedEvent, TaskCompletedEvent, TaskSkippedEvent)
    first = Task(name="first", description="x", agent=worker("short"))
    more = Task(name="more", description="more", agent=worker("never"), condition=is_long)
    less = Task(name="less", description="less", agent=worker("less"), condition=is_short)
    last = Task(name="last", description="x", agent=worker("never"), condition=lambda output: False)
    output = crew_of(runtime, first, more, less, last).kickoff()
    assert [one.is_skipped for one in output.tasks_output] == [False, True, False, True]
    assert output.raw == "less"
    assert [(event.type, event.task_name) for event in heard if event.type != "task_started"] == [
        ("task_completed", "first"), ("task_skipped", "more"), ("task_completed", "less"), ("task_skipped", "last"),
    ]  # fmt: skip


def test_a_failing_task_fails_the_crew_with_its_own_error(runtime: Runtime) -> None:
    heard = hear(runtime, TaskFailedEvent, CrewKickoffFailedEvent)
    with pytest.raises(HoldfastError, match="has 0 answers"):
        crew_of(runtime, Task(description="x", agent=worker())).kickoff()
    assert [event.type for event in heard] == ["task_failed", "crew_kickoff_failed"]


# -- outputs -----------------------------------------------------------------------------------------------------------


def test_outputs_in_a_form_and_in_a_file(runtime: Runtime, tmp_path: Path) -> None:
    line = '{"name": "Oslo", "people": 7}'
    as_model = Task(description="x", agent=worker("no JSON", line), output_pydantic=City)
    where = str(tmp_path / "deep" / "{name}.json")
    as_dict = Task(description="x", agent=worker(line), output_json=City, output_file=where)
    output = crew_of(runtime, as_model, as_dict).kickoff({"name": "city"})
    assert output.tasks_output[0].pydantic == City(name="Oslo", people=7)
    assert output.tasks_output[0].json_dict is None
    assert output.json_dict == {"name": "Oslo", "people": 7}
    assert output.pydantic is None
    assert (tmp_path / "deep" / "city.json").read_text() == line
    assert len(list(tmp_path.rglob("*"))) == 2


def test_callbacks_are_told_once_of_each_output_and_a_broken_one_fails_the_task(runtime: Runtime) -> None:
    told: list[str] = []

    async def of_task(output: TaskOutput) -> None:
        told.append(f"task {output.raw}")

    def of_crew(output: TaskOutput) -> None:
        told.append(f"crew {output.raw}")

    crew_of(runtime, Task(description="x", agent=worker("hi"), callback=of_task), task_callback=of_crew).kickoff()
    assert told == ["task hi", "crew hi"]

    def broken(output: TaskOutput) -> None:
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        crew_of(runtime, Task(description="x", agent=worker("hi"), callback=broken)).kickoff()


# -- guardrails --------------------------------------------------------------------------------------------------------


def test_a_guardrail_sends_an_output_back_with_its_reason(runtime: Runtime) -> None:
    heard = hear(runtime, LLMGuardrailCompletedEvent)
    prompts: list[str] = []

    def answer(messages: Any, tools: Any, settings: Any) -> Reply:
        prompts.append(last_text(messages))
        return priced("good" if "too bad" in prompts[-1] else "bad")

    def judge(output: TaskOutput) -> tuple[bool, Any]:
        return (True, output) if output.raw == "good" else (False, "too bad")

    output = crew_of(runtime, Task(description="Do it", agent=worker(answer), guardrail=judge)).kickoff()
    assert output.raw == "good"
    assert "Do it" in prompts[1]
    assert "too bad" in prompts[1]
    assert [(event.success, event.error, event.retry_count) for event in heard] == [
        (False, "too bad", 0),
        (True, "", 1),
    ]
    assert output.tasks_output[0].usage == output.usage == Usage(2, 20, 0, priced_usd=1.0)


def test_a_guardrail_that_never_agrees_fails_the_task(runtime: Runtime) -> None:
    model = ScriptedModel(["bad"] * 9)
    task = Task(
        description="x",
        agent=Agent(role="w", llm=model),
        guardrail=lambda output: (False, "no"),
        guardrail_max_retries=2,
    )
    with pytest.raises(GuardrailError, match=r"refused 3 times.*no"):
        crew_of(runtime, task).kickoff()
    assert model.count == 3


def test_guardrails_are_asked_in_order_and_may_put_something_else_in_the_place(runtime: Runtime) -> None:
    async def shout(output: TaskOutput) -> tuple[bool, Any]:
        return True, output.raw.upper()

    def sign(output: TaskOutput) -> tuple[bool, Any]:
        return True, TaskOutput(f"{output.raw} (signed)")

    task = Task(description="x", agent=worker("hi"), guardrail=shout, guardrails=[sign])
    assert crew_of(runtime, task).kickoff().raw == "HI (signed)"


def test_what_a_guardrail_puts_in_the_place_keeps_the_form_of_the_task(runtime: Runtime) -> None:
    line = '{"name": "Oslo", "people": 7}'
    task = Task(
        description="x", agent=worker(line), output_pydantic=City,
        guardrail=lambda output: (True, output.pydantic.model_copy(update={"people": 8})),
    )  # fmt: skip
    assert crew_of(runtime, task).kickoff().pydantic == City(name="Oslo", people=8)
    broken = Task(description="x", agent=worker(line), output_json=City, guardrail=lambda output: (True, "no JSON"))
    with pytest.raises(GuardrailError, match="not in its form"):
        crew_of(runtime, broken).kickoff()


@pytest.mark.parametrize("verdict", [True, None, "fine", ("yes", 1), (True,)])
def test_a_guardrail_that_says_neither_yes_nor_no_is_told_what_to_say(runtime: Runtime, verdict: Any) -> None:
    heard = hear(runtime, LLMGuardrailFailedEvent)
    with pytest.raises(GuardrailError, match="must return"):
        crew_of(runtime, Task(description="x", agent=worker("hi"), guardrail=lambda output: verdict)).kickoff()
    assert heard[0].error_type == "GuardrailError"


def test_a_guardrail_that_raises_fails_the_task_with_that(runtime: Runtime) -> None:
    def judge(output: TaskOutput) -> tuple[bool, Any]:
        raise LookupError("no rules here")

    with pytest.raises(LookupError, match="no rules"):
        crew_of(runtime, Task(description="x", agent=worker("hi"), guardrail=judge)).kickoff()


# -- several kickoffs --------------------------------------------------------------------------------------------------


def echo(messages: Any, tools: Any, settings: Any) -> str:
    if "broken" in last_text(messages):
        raise ValueError("broken input")
    return last_text(messages)


def test_s1_17_a_second_kickoff_starts_afresh(runtime: Runtime) -> None:
    crew = crew_of(runtime, Task(description="say {word}", agent=worker(echo)))
    assert crew.kickoff({"word": "one"}).raw == "say one"
    first = crew.run_id
    assert crew.kickoff({"word": "two"}).raw == "say two"
    assert crew.run_id != first
    assert crew.kickoff().raw == "say {word}"


async def test_a_kickoff_for_each_of_many_inputs(runtime: Runtime) -> None:
    crew = crew_of(runtime, Task(description="say {word}", agent=worker(echo)))
    inputs = [{"word": str(number)} for number in range(20)]
    wanted = [f"say {number}" for number in range(20)]
    assert [one.raw for one in await crew.akickoff_for_each(inputs)] == wanted
    assert [one.raw for one in await asyncio.to_thread(crew.kickoff_for_each, inputs)] == wanted


async def test_one_of_many_that_fails_cancels_the_others(runtime: Runtime) -> None:
    cancelled = 0

    async def answer(messages: Any, tools: Any, settings: Any) -> str:
        nonlocal cancelled
        if "broken" in last_text(messages):
            raise ValueError("broken input")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled += 1
            raise
        return ""

    crew = crew_of(runtime, Task(description="say {word}", agent=worker(answer)))
    with pytest.raises(ValueError, match="broken input"):
        await crew.akickoff_for_each([{"word": "a"}, {"word": "b"}, {"word": "broken"}])
    assert cancelled == 2
    assert runtime.inventory() == []
    with pytest.raises(ValueError, match="broken input"):
        await asyncio.to_thread(crew.kickoff_for_each, [{"word": "broken"}])


# -- managers and co-workers -------------------------------------------------------------------------------------------


def delegate(coworker: str, call_id: str = "1") -> Any:
    return call("delegate_work_to_coworker", f'{{"task": "dig", "context": "deep", "coworker": "{coworker}"}}', call_id)


def test_a_manager_delegates_and_everybody_is_counted(runtime: Runtime) -> None:
    digger, painter = worker(priced("a hole", 5), role="Digger"), worker(role="Painter")
    manager = ScriptedModel([delegate("digger"), delegate("Nobody", "2"), priced("a fine hole", 7)])
    crew = Crew(
        agents=[digger, painter], tasks=[Task(description="Make a hole")], process=Process.hierarchical,
        manager_llm=manager, runtime=runtime,
    )  # fmt: skip
    started = hear(runtime, LLMCallStartedEvent)
    output = crew.kickoff()
    assert output.raw == "a fine hole"
    assert [event.agent_role for event in started] == ["Crew manager", "Digger", "Crew manager", "Crew manager"]
    assert {event.task_name for event in started} == {"task 1"}
    assert "there is no co-worker 'Nobody'; there are: Digger, Painter" in str(started[-1].new_messages)
    assert output.usage.requests == 4
    assert output.usage.input_tokens == output.tasks_output[0].usage.input_tokens == 12
    assert {role: used.input_tokens for role, used in output.usage_by_agent.items()} == {"Crew manager": 7, "Digger": 5}
    assert crew.usage == output.usage


def test_coworkers_with_one_role_can_both_be_reached(runtime: Runtime) -> None:
    boss = Agent(
        role="Boss",
        llm=ScriptedModel([[delegate("Digger"), delegate("Digger (2)", "2")], "done"]),
        allow_delegation=True,
    )
    first, second = worker("one", role="Digger"), worker("two", role="Digger")
    crew = Crew(agents=[first, second, boss], tasks=[Task(description="x", agent=boss)], runtime=runtime)
    assert crew.kickoff().usage.requests == 4


# -- budgets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "calls", "why"),
    [
        (Budget(max_requests=2), 2, "asked models 2 times"),
        (Budget(max_tokens=15), 2, "20 tokens"),
        (Budget(max_cost_usd=0.4), 1, r"\$0.5000"),
    ],
)
def test_a_budget_ends_the_crew_before_the_call_that_would_exceed_it(
    runtime: Runtime, budget: Budget, calls: int, why: str
) -> None:
    model = ScriptedModel([priced(str(number)) for number in range(4)])
    agent = Agent(role="w", llm=model)
    tasks = [Task(description=str(number), agent=agent) for number in range(4)]
    with pytest.raises(BudgetExceededError, match=why):
        crew_of(runtime, *tasks, budget=budget).kickoff()
    assert model.count == calls
    turns = [Reply(AssistantMessage((call("nothing"),)), Usage(1, 10, priced_usd=0.5))] * 4
    looping = crew_of(runtime, Task(description="x", agent=worker(*turns, role="w", budget=budget)))
    with pytest.raises(BudgetExceededError, match=f"the budget of w.*{why}"):  # an agent's own, for each piece of work
        looping.kickoff()
