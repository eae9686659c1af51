"""Tools by which an agent of a crew gives work to the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

from pydantic import Field

from holdfast.agents._agent import Agent
from holdfast.agents._prompts import task_prompt
from holdfast.tools import BaseTool

AskAgent = Callable[[Agent, str], Awaitable[str]]
"""Lets an agent work on a prompt, and gives its answer."""


class _CoworkerTool(BaseTool):
    """What both tools need."""

    not_stored: ClassVar[str] = "it belongs to a crew, which makes it again"

    coworkers: list[Agent] = Field(repr=False)
    ask: Any = Field(repr=False)

    def find(self, name: str) -> Agent:
        """The co-worker with a role. Raises ValueError that says which there are."""
        wanted = name.strip().strip("\"'").casefold()
        for agent in self.coworkers:
            if agent.role.strip().casefold() == wanted:
                return agent
        known = ", ".join(agent.role for agent in self.coworkers)
        raise ValueError(f"there is no co-worker {name!r}; there are: {known}")


class DelegateWorkTool(_CoworkerTool):
    """Gives a task to a co-worker."""

    name: str = "delegate_work_to_coworker"
    description: str = "Give a task to a co-worker and get the result."

    async def _run(self, task: str, context: str, coworker: str) -> str:
        told = task_prompt(task, "", context)
        answer: str = await self.ask(self.find(coworker), told)
        return answer


class AskQuestionTool(_CoworkerTool):
    """Asks a co-worker a question."""

    name: str = "ask_question_to_coworker"
    description: str = "Ask a co-worker a question and get the answer."

    async def _run(self, question: str, context: str, coworker: str) -> str:
        told = task_prompt(question, "a short, direct answer", context)
        answer: str = await self.ask(self.find(coworker), told)
        return answer


def coworker_tools(coworkers: Sequence[Agent], ask: AskAgent) -> list[BaseTool]:
    """The tools of an agent with these co-workers; none if it has none."""
    if not coworkers:
        return []
    who = "; ".join(f"{agent.role}: {agent.goal}" if agent.goal else agent.role for agent in coworkers)
    kinds = (DelegateWorkTool, AskQuestionTool)
    return [
        kind(
            description=f"{kind.model_fields['description'].default} Co-workers: {who}",
            coworkers=list(coworkers),
            ask=ask,
        )
        for kind in kinds
    ]
