"""Agents, tasks and crews that are made with something else than they have say what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ConfigDict

from holdfast import Agent, BaseTool, Crew, ScriptedModel, Task
from holdfast.errors import UsageError


def depth(whale: str) -> str:
    """How deep a whale dives."""
    return whale


class Depth(BaseTool):
    name: str = "depth"
    description: str = "How deep a whale dives."

    def _run(self, whale: str) -> str:
        return whale


def agent(**more: Any) -> Agent:
    return Agent(role="Clerk", llm=ScriptedModel(["done"]), **more)


def crew(**more: Any) -> Crew:
    return Crew(tasks=[Task(description="Work.", agent=agent())], **more)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Agent(rol="Clerk"), "Agent has no 'rol'; did you mean 'role'"),  # type: ignore[call-arg]
        (lambda: agent(verbose=True), r"Agent has no 'verbose': .* kickoff\(stream=True\)"),
        (lambda: agent(max_rpm=3), "Agent has no 'max_rpm': .* limits=RequestLimits"),
        (lambda: Task(descripton="Work."), "Task has no 'descripton'; did you mean 'description'"),  # type: ignore[call-arg]
        (lambda: Task(description="Work.", xyz=1), "Task has no 'xyz'; it has id, name, description"),  # type: ignore[call-arg]
        (lambda: crew(memory=True), "Crew has no 'memory': there is no memory"),
        (lambda: crew(checkpoint="runs.db"), "checkpoint='runs.db' says not how: write checkpoint=True"),
        (lambda: crew(human=print), "cannot ask anybody"),
        (lambda: crew().kickoff("whales"), "inputs are names with values, .* not a str"),  # type: ignore[arg-type]
        (lambda: crew().kickoff_for_each({"topic": "whales"}), "inputs are names with values"),  # type: ignore[dict-item]
        (lambda: agent().kickoff("Work.", response_format=dict), "response_format wants a pydantic model class"),  # type: ignore[arg-type]
        (lambda: ScriptedModel("done"), r"a script is a list of answers: ScriptedModel\(\['done'\]\)"),
        (lambda: agent(tools=[depth]), "depth is no tool yet: write @tool above depth"),
        (lambda: agent(tools=[Depth]), r"Depth is no tool yet: Depth\(\)"),
        (lambda: Task(description="Work.", tools=[depth]), "depth is no tool yet"),  # type: ignore[list-item]
        (lambda: agent().kickoff({"topic": "whales"}), r"Clerk needs a prompt: kickoff\('what to do'\)"),  # type: ignore[arg-type]
    ],
)
def test_what_they_do_not_have_is_refused_with_what_to_write(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_a_subclass_may_have_more() -> None:
    class Named(Agent):
        desk: str = ""

    class Open(Agent):
        model_config = ConfigDict(extra="allow")

    assert Named(role="Clerk", desk="left").desk == "left"
    assert Open(role="Clerk", desk="right").model_extra == {"desk": "right"}  # type: ignore[call-arg]
