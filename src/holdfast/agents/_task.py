"""`Task`: a piece of work for a crew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from holdfast.agents._agent import Agent
from holdfast.agents._arguments import known_arguments, only_tools
from holdfast.agents._outputs import TaskOutput
from holdfast.errors import UsageError
from holdfast.ids import new_id
from holdfast.tools import BaseTool

Verdict = tuple[bool, Any]
Guardrail = Callable[[TaskOutput], Verdict | Awaitable[Verdict]]
"""Judges an output: `(True, value)` accepts it, or `value` in its place; `(False, why)` sends it back with the reason."""
TaskCallback = Callable[[TaskOutput], object]
Condition = Callable[[TaskOutput | None], bool | Awaitable[bool]]
"""Given the output of the task before it, says whether a task is done."""


class Task(BaseModel):
    """What is to be done, what its output must be, and who does it. Braces stand for inputs of the kickoff: `{topic}`.

    Functions given to it may be sync or async. They may be called again after a crash, until the task is recorded as done.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    id: str = Field(default_factory=new_id)
    name: str = ""
    description: str
    expected_output: str = ""
    agent: Agent | None = None
    """Who does it; in a hierarchical crew the manager decides."""
    context: list[Task] | None = None
    """The tasks whose outputs it is told; None for all before it that are done, an empty list for none."""
    tools: list[BaseTool] | None = None
    """In place of the agent's own."""
    output_pydantic: type[BaseModel] | None = None
    output_json: type[BaseModel] | None = None
    """Like `output_pydantic`, but the output is a dict."""
    output_file: str = ""
    """Where its output is written as text: replaced as a whole, folders made."""
    guardrail: Guardrail | None = None
    guardrails: list[Guardrail] = Field(default_factory=list)
    """Judges of its output, asked in order."""
    guardrail_max_retries: int = Field(default=3, ge=0)
    async_execution: bool = False
    """Whether the tasks after it need not wait: the next one that is not async does."""
    condition: Condition | None = None
    human_input: bool = False
    """Whether a person is shown the output, and may have it revised, before it counts."""
    callback: TaskCallback | None = None
    """Called with the output when it counts."""

    @model_validator(mode="before")
    @classmethod
    def _know_arguments(cls, given: Any) -> Any:
        return known_arguments(cls, given)

    @field_validator("tools", mode="before")
    @classmethod
    def _know_tools(cls, given: Any) -> Any:
        return only_tools(given)

    @model_validator(mode="after")
    def _check(self) -> Task:
        if self.output_pydantic is not None and self.output_json is not None:
            raise UsageError("a task has one form of output: output_pydantic or output_json")
        return self

    @property
    def form(self) -> type[BaseModel] | None:
        """The form its output must have."""
        return self.output_pydantic or self.output_json

    @property
    def judges(self) -> list[Guardrail]:
        """Every guardrail, in order."""
        return [*([self.guardrail] if self.guardrail is not None else []), *self.guardrails]

    @property
    def title(self) -> str:
        """Its name, or the beginning of its description."""
        return self.name or self.description.strip().partition("\n")[0][:60]
