"""`Agent`: a model with a role, a goal and tools."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from msgspec.structs import replace
from pydantic import BaseModel, Field, PrivateAttr, field_validator, model_validator

from holdfast.agents._arguments import only_tools
from holdfast.agents._history import History, Policy
from holdfast.agents._prompts import form_prompt, system_prompt
from holdfast.agents._resumable import Resumable
from holdfast.agents._stored import Shelf, dump_agent, load_agent
from holdfast.agents._work import AgentFront, Work
from holdfast.checkpoints import CheckpointConfig, Where
from holdfast.errors import UsageError
from holdfast.events._stamping import EventSource
from holdfast.kickoff import Budget, from_environment
from holdfast.models import (
    Message,
    Model,
    ModelSettings,
    RequestLimits,
    SystemMessage,
    UserMessage,
    load_messages,
    resolve_model,
)
from holdfast.tools import BaseTool, Toolbox, load_class

DEFAULT_MODEL = "HOLDFAST_MODEL"
"""The environment variable that names the model of agents that name none."""


class Agent(Resumable):
    """A model with a role, a goal and tools. `kickoff(prompt)` lets it work until it has an answer.

        Agent(role="Researcher", goal="Find facts", llm="openai:gpt-4o", tools=[search]).kickoff("Who wrote Emma?").raw

    Each model call and each tool call is a step: written down (`checkpoint=True`), a run that was killed goes on with the same
    messages and repeats at most the call that was under way. Tools that the model calls together run together.
    """

    kind: ClassVar[str] = "agent"

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
    """Caps on concurrent requests per provider, shared with whoever has the same object. Those of the `llm` come first."""

    _model: Model | None = PrivateAttr(default=None)
    _form: type[BaseModel] | None = PrivateAttr(default=None)

    @field_validator("tools", mode="before")
    @classmethod
    def _know_tools(cls, given: Any) -> Any:
        return only_tools(given)

    @model_validator(mode="after")
    def _check(self) -> Self:
        Toolbox(self.tools)
        if (config := self.checkpoint_config) is not None and config.self_contained:
            dump_agent(self, "$", Shelf())  # what cannot be stored is refused here, not in mid-run
        return self

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
        to the model. `from_checkpoint`, the id of a run or a checkpoint, or a file, goes on with that run instead of a prompt;
        one that was killed before its prompt was written down needs that again.
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
        if prompt is None and (from_checkpoint is not None or self._starter.is_planned):
            work = self.work((), form=form or self._form)
            return AgentFront(self, self.resolve_llm(), work), {}
        given: object = prompt
        if given is None or isinstance(given, Mapping):  # what a crew is given
            raise UsageError(f"{self.role} needs a prompt: kickoff('what to do')")
        wanted: object = form
        if wanted is not None and not (isinstance(wanted, type) and issubclass(wanted, BaseModel)):
            raise UsageError(f"response_format wants a pydantic model class, not {wanted!r}")
        self._form = form
        front = AgentFront(self, self.resolve_llm(), self.work(self.first_messages(prompt or (), form), form=form))
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
            limits=self.limits,
        )

    def resolve_llm(self) -> Model:
        """Its model. Raises UsageError if it has none."""
        if isinstance(self.llm, Model):
            return self.llm
        name = self.llm or os.environ.get(DEFAULT_MODEL)
        if not name:
            raise UsageError(f"{self.role} has no model: Agent(llm='provider:model'), or set {DEFAULT_MODEL}")
        if self._model is None or self._model.name != name:
            self._model = resolve_model(name, clock=self._starter.runtime.clock)
        return self._model

    # -- taking it up again ----------------------------------------------------------------------------------------

    @classmethod
    def made_again(cls, stored: dict[str, Any], config: CheckpointConfig, runtime: Any) -> Self:
        shelf = Shelf.load(stored["shared"], config.secrets or from_environment)
        agent = load_agent(stored["agent"], cls, shelf, checkpoint=config, runtime=runtime)
        agent._form = load_class(stored["form"]) if stored["form"] else None
        return agent

    @property
    def title(self) -> str:
        return self.role

    def all_tools(self) -> Sequence[BaseTool]:
        return self.tools

    def front(self) -> AgentFront:
        return AgentFront(self, self.resolve_llm(), self.work((), form=self._form))

    @property
    def messages(self) -> list[Message]:
        """The conversation of its latest run; of one that was restored, as far as that had come."""
        if self._latest is None or not self._latest.cell.current().get("messages"):
            return []
        first = load_messages(self._latest.cell.current()["messages"])
        return History(first, self._latest.results).messages()
