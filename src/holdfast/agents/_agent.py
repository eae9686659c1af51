"""`Agent`: a model with a role, a goal and tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

from msgspec.structs import replace
from pydantic import BaseModel, Field, PrivateAttr

from holdfast.agents._history import History, Policy
from holdfast.agents._prompts import form_prompt, system_prompt
from holdfast.agents._resumable import Resumable
from holdfast.agents._stored import load_agent
from holdfast.agents._work import AgentFront, Work
from holdfast.checkpoints import CheckpointConfig, Where, definition_of
from holdfast.errors import StorageError, UsageError
from holdfast.events._stamping import EventSource
from holdfast.kickoff import Budget, Kickoff, Starter
from holdfast.models import (
    Message,
    Model,
    ModelSettings,
    RequestLimits,
    SystemMessage,
    ToolMessage,
    UserMessage,
    load_messages,
    resolve_model,
)
from holdfast.tools import BaseTool, load_class

DEFAULT_MODEL = "HOLDFAST_MODEL"
"""The environment variable that names the model of agents that name none."""


class Agent(Resumable):
    """A model with a role, a goal and tools. `kickoff(prompt)` lets it work until it has an answer.

        Agent(role="Researcher", goal="Find facts", llm="openai:gpt-4o", tools=[search]).kickoff("Who wrote Emma?").raw

    Each model call and each tool call is a step: written down (`checkpoint=True`), a run that was killed goes on with the same
    messages and repeats at most the call that was under way. Tools that the model calls together run together.
    """

    role: str
    goal: str = ""
    backstory: str = ""
    llm: str | Model | None = None
    """The model, by name (`"provider:model"`) or as an object; None for the one that HOLDFAST_MODEL names."""
    tools: list[BaseTool] = Field(default_factory=list)
    settings: ModelSettings = Field(default_factory=ModelSettings)
    """How the model is to answer: temperature, length, thinking."""
    max_iter: int = Field(default=25, ge=1)
    """How often the model is asked in one piece of work; the last time it must answer, without tools."""
    max_execution_time: float | None = Field(default=None, gt=0)
    """Seconds that one piece of work may take."""
    on_overflow: Policy = "summarise"
    """What happens when the conversation outgrows the model's context: its older part is put shorter by the model, left out,
    or the run fails. An `llm_context_overflow` event says so."""
    allow_delegation: bool = False
    """Whether, in a crew, it may give work to its co-workers and ask them."""
    limits: RequestLimits | None = None
    """Caps on concurrent requests per provider, shared with whoever has the same object; for an `llm` given by name."""

    _model: Model | None = PrivateAttr(default=None)
    _form: type[BaseModel] | None = PrivateAttr(default=None)

    @property
    def entity_type(self) -> str:
        return "agent"

    @property
    def event_source(self) -> EventSource:
        return EventSource("agent", self.id, self.role)

    @property
    def whole_budget(self) -> Budget | None:
        """Its budget, with the time that its work may take."""
        if self.max_execution_time is None:
            return self.budget
        return replace(self.budget or Budget(), max_seconds=self.max_execution_time)

    # -- running it ------------------------------------------------------------------------------------------------

    def kickoff(
        self,
        prompt: str | Sequence[Message] | None = None,
        *,
        response_format: type[BaseModel] | None = None,
        from_checkpoint: Where | None = None,
        stream: bool | None = None,
    ) -> Any:
        """Let it work on a prompt, and return its `AgentOutput`. Each kickoff starts afresh.

        With `response_format` the answer is checked against that model, and is in `.pydantic`; what does not fit goes back
        to the model. `from_checkpoint`, the id of a run or a checkpoint, or a file, goes on with that run instead of a prompt.
        With `stream=True` it returns a `RunStream` at once. If the key of its model is missing and the run is written down, the
        result is a `Pending`.

        Raises AgentError if it finds no answer that counts, a ModelError, BudgetExceededError, and as `Flow.kickoff` does.
        """
        return self.start(*self._front(prompt, response_format, from_checkpoint), from_checkpoint, stream)

    async def akickoff(
        self,
        prompt: str | Sequence[Message] | None = None,
        *,
        response_format: type[BaseModel] | None = None,
        from_checkpoint: Where | None = None,
        stream: bool | None = None,
    ) -> Any:
        """`kickoff` for coroutines."""
        return await self.astart(*self._front(prompt, response_format, from_checkpoint), from_checkpoint, stream)

    kickoff_async = akickoff

    def resume(self, answer: str = "", *, request_id: str | None = None) -> Any:
        """Go on with a run that waits for an answer or a key."""
        self._starter.answer(self.checkpoint_config, answer, request_id)
        return self.kickoff()

    async def aresume(self, answer: str = "", *, request_id: str | None = None) -> Any:
        """`resume` for coroutines."""
        self._starter.answer(self.checkpoint_config, answer, request_id)
        return await self.akickoff()

    def _front(
        self, prompt: str | Sequence[Message] | None, form: type[BaseModel] | None, from_checkpoint: Where | None
    ) -> tuple[AgentFront, dict[str, Any]]:
        """What is kicked off, and what it begins with."""
        goes_on = from_checkpoint is not None or self._starter.is_planned
        if goes_on:
            if prompt is not None:
                raise UsageError("a run that is taken up has its prompt already: kickoff(from_checkpoint=…) alone")
            work = self.work((), form=form or self._form)
            return AgentFront(self, self.resolve_llm(), work), {}
        if prompt is None:
            raise UsageError(f"{self.role} needs a prompt: kickoff('what to do')")
        self._form = form
        front = AgentFront(self, self.resolve_llm(), self.work(self.first_messages(prompt, form), form=form))
        return front, front.inputs

    def first_messages(self, prompt: str | Sequence[Message], form: type[BaseModel] | None) -> list[Message]:
        """What its model is told first."""
        asked: list[Message] = [UserMessage(prompt)] if isinstance(prompt, str) else list(prompt)
        system = system_prompt(self.role, self.goal, self.backstory)
        if form is not None:
            system += f"\n\n{form_prompt(form)}"
        return [SystemMessage(system), *asked]

    def work(
        self, messages: Sequence[Message], *, form: type[BaseModel] | None, more_tools: Sequence[BaseTool] = ()
    ) -> Work:
        """A piece of work for it."""
        settings = self.settings
        if form is not None:
            settings = replace(settings, output_schema=form.model_json_schema(), output_name=form.__name__)
        return Work(
            name=self.role,
            messages=messages,
            tools=(*self.tools, *more_tools),
            form=form,
            settings=settings,
            max_turns=self.max_iter,
            on_overflow=self.on_overflow,
        )

    def resolve_llm(self, limits: RequestLimits | None = None) -> Model:
        """Its model. Raises UsageError if it has none."""
        if isinstance(self.llm, Model):
            return self.llm
        name = self.llm or os.environ.get(DEFAULT_MODEL)
        if not name:
            raise UsageError(f"{self.role} has no model: Agent(llm='provider:model'), or set {DEFAULT_MODEL}")
        if self._model is None or self._model.name != name:
            self._model = resolve_model(name, limits=self.limits or limits, clock=self._starter.runtime.clock)
        return self._model

    # -- taking it up again ----------------------------------------------------------------------------------------

    @classmethod
    def from_checkpoint(cls, where: Where, *, checkpoint: CheckpointConfig | None = None, runtime: Any = None) -> Self:
        """An agent in the middle of its work, as a checkpoint has it; its next `kickoff()` goes on there.

        Its messages and finished calls are as recorded (`messages`). Its tools, model and answer's form are made again from
        what this program has imported. Raises StorageError if there is no such checkpoint, or none of an agent.
        """
        config = checkpoint or CheckpointConfig()
        restored, plan = Starter(runtime).find(config, where)
        stored = definition_of(restored.info).entity
        if "agent" not in stored:
            raise StorageError(
                f"run {restored.info.root_run_id} is not of an agent that can be made again; it is of "
                f"{definition_of(restored.info).made_by}: make it, and kickoff(from_checkpoint={str(where)!r})"
            )
        agent = load_agent(stored["agent"], cls, checkpoint=config, runtime=runtime)
        agent._form = load_class(stored["form"]) if stored["form"] else None
        agent._starter.take_up(agent.role, config, restored, plan)
        agent._latest = Kickoff(AgentFront(agent, agent.resolve_llm(), agent.work((), form=agent._form)), plan, None)
        agent._latest.show(restored, agent._starter.runtime)
        agent._count_uses()
        return agent

    @property
    def messages(self) -> list[Message]:
        """The conversation of its latest run; of one that was restored, as far as that had come."""
        if self._latest is None or not self._latest.cell.current().get("messages"):
            return []
        first = load_messages(self._latest.cell.current()["messages"])
        return History(first, self._latest.results).messages()

    def _count_uses(self) -> None:
        """Count what its tools did in the run that was restored: what is stored of them is from its beginning."""
        used = [one.name for one in self.messages if isinstance(one, ToolMessage)]
        for tool in self.tools:
            tool._usage.used += used.count(tool.call_name)
