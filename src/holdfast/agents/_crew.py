"""`Crew`: agents and the tasks they do together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from holdfast.agents._agent import Agent
from holdfast.agents._crew_front import CrewFront
from holdfast.agents._plan import crew_graph
from holdfast.agents._resumable import Resumable
from holdfast.agents._stored_crew import load_crew
from holdfast.agents._task import Task, TaskCallback
from holdfast.checkpoints import CheckpointConfig, Where
from holdfast.errors import UsageError
from holdfast.events._stamping import EventSource
from holdfast.graph import Graph, to_mermaid
from holdfast.kickoff import human_provider, named_inputs
from holdfast.models import Model, RequestLimits
from holdfast.tools import BaseTool

MANAGER: dict[str, Any] = {
    "role": "Crew manager",
    "goal": "Get each task done well by giving its parts to the right co-workers, and answer with the finished result.",
    "backstory": "You lead a team. You do not do the work yourself: you delegate, ask, check what comes back, and put it together.",
}


class Process(StrEnum):
    """How a crew's tasks are done."""

    sequential = "sequential"
    """in their order, each by its agent"""
    hierarchical = "hierarchical"
    """in their order, each by a manager who gives the work to the agents"""


class Crew(Resumable):
    """Agents and the tasks they do together. `kickoff(inputs)` does all of them and returns a `CrewOutput`.

    Each task is a step and each agent's work a run inside the crew's. Written down (`checkpoint=True`), a crew that was killed
    goes on: tasks that are done are not done again, and an agent in mid-thought repeats at most one call.
    """

    kind: ClassVar[str] = "crew"

    name: str = "crew"
    agents: list[Agent] = Field(default_factory=list)
    tasks: list[Task]
    process: Process = Process.sequential
    manager_llm: str | Model | None = None
    """The model of the manager of a hierarchical crew."""
    manager_agent: Agent | None = None
    """The manager itself, in place of one that is made for the crew."""
    task_callback: TaskCallback | None = None
    """Called with the output of every task when it counts."""
    limits: RequestLimits | None = None
    """Caps on concurrent requests per provider, for agents that have none of their own."""
    human: Any = Field(default=None, repr=False)
    """Who is asked about tasks with `human_input`: a HumanProvider; None for the terminal."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.tasks:
            raise UsageError("a crew needs tasks: Crew(agents=[…], tasks=[Task(…)])")
        for task in self.tasks:
            if task.agent is not None and not any(task.agent is one for one in self.agents):
                self.agents.append(task.agent)
        if self.process is Process.hierarchical:
            if self.manager_agent is None and self.manager_llm is None:
                raise UsageError("a hierarchical crew needs a manager: manager_llm='provider:model' or manager_agent=…")
            if not self.agents:
                raise UsageError("a hierarchical crew needs agents that its manager can give work to")
        elif missing := [task.title for task in self.tasks if task.agent is None]:
            raise UsageError(f"nobody does task {missing[0]!r}: Task(agent=…), or Crew(process=Process.hierarchical)")
        human_provider(self.human)
        self.graph()
        if (config := self.checkpoint_config) is not None:  # what cannot be stored is refused here, not in mid-run
            self.front().stored(config)
        return self

    @property
    def event_source(self) -> EventSource:
        return EventSource("crew", self.id, self.name)

    def graph(self) -> Graph:
        """The graph its tasks make."""
        return crew_graph(self.name, self.tasks)

    def to_mermaid(self) -> str:
        """Its graph as a Mermaid flowchart."""
        return to_mermaid(self.graph())

    def all_tools(self) -> list[BaseTool]:
        """Every tool of its agents, tasks and manager, each once."""
        users: list[Agent | Task] = [*self.agents, *self.tasks, *([self.manager_agent] if self.manager_agent else [])]
        return list({id(tool): tool for user in users for tool in user.tools or ()}.values())

    def who_does(self, task: Task) -> tuple[Agent, Sequence[Agent]]:
        """Who does a task, and to whom that agent may give parts of it."""
        if self.process is Process.hierarchical:
            return self.manager(), [task.agent] if task.agent is not None else self.agents
        agent = task.agent
        assert agent is not None
        others = [one for one in self.agents if one is not agent]
        return agent, others if agent.allow_delegation else ()

    @property
    def everybody(self) -> list[Agent]:
        """Its agents, and its manager if it has one."""
        return [*self.agents, self.manager()] if self.process is Process.hierarchical else self.agents

    def manager(self) -> Agent:
        """Who leads a hierarchical crew; made when first needed, if it was not given."""
        if self.manager_agent is None:
            self.manager_agent = Agent(**MANAGER, llm=self.manager_llm, runtime=self.runtime)
        return self.manager_agent

    # -- running it ------------------------------------------------------------------------------------------------

    def kickoff(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        from_checkpoint: Where | None = None,
        stream: bool | None = None,
    ) -> Any:
        """Do all tasks, and return a `CrewOutput`. Each kickoff starts afresh.

        `inputs` fill braces in the texts of agents and tasks. `from_checkpoint` goes on with a recorded run: tasks that are done
        are not done again. With `stream=True` it returns a `RunStream` at once. If the run has to wait for a person or a key, the
        result is a `Pending`. Raises what failed a task, and as `Flow.kickoff` does.
        """
        return self.start(self.front(), self._given(inputs), from_checkpoint, stream)

    async def akickoff(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        from_checkpoint: Where | None = None,
        stream: bool | None = None,
    ) -> Any:
        """`kickoff` for coroutines."""
        return await self.astart(self.front(), self._given(inputs), from_checkpoint, stream)

    kickoff_async = akickoff

    @staticmethod
    def _given(inputs: Mapping[str, Any] | None) -> dict[str, Any]:
        return {"inputs": named_inputs(inputs)} if inputs is not None else {}

    def kickoff_for_each(self, inputs: Iterable[Mapping[str, Any]]) -> list[Any]:
        """One kickoff for each of the inputs, one after the other; the outputs in their order."""
        return [self.kickoff(one) for one in inputs]

    async def akickoff_for_each(self, inputs: Iterable[Mapping[str, Any]]) -> list[Any]:
        """One kickoff for each of the inputs, all at once; the outputs in their order.

        If one fails, the others are cancelled and its error is raised; an ExceptionGroup if several did.
        """
        try:
            async with asyncio.TaskGroup() as group:
                kickoffs = [group.create_task(self.akickoff(one)) for one in inputs]
        except ExceptionGroup as failures:
            if len(failures.exceptions) > 1:
                raise
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        return [kickoff.result() for kickoff in kickoffs]

    kickoff_for_each_async = akickoff_for_each

    def resume(self, answer: str = "", *, request_id: str | None = None) -> Any:
        """Go on with a run that waits for a person or a key. If it waits for several answers, say which one this is."""
        self._starter.answer(self.checkpoint_config, answer, request_id)
        return self.kickoff()

    async def aresume(self, answer: str = "", *, request_id: str | None = None) -> Any:
        """`resume` for coroutines."""
        self._starter.answer(self.checkpoint_config, answer, request_id)
        return await self.akickoff()

    # -- taking it up again ----------------------------------------------------------------------------------------

    @classmethod
    def made_again(cls, stored: dict[str, Any], config: CheckpointConfig, runtime: Any) -> Self:
        return load_crew(stored, cls, checkpoint=config, runtime=runtime)

    @property
    def title(self) -> str:
        return self.name

    def front(self) -> CrewFront:
        return CrewFront(self)
