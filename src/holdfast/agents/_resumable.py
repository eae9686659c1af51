"""What agents and crews have in common: they are kicked off, streamed, written down, and taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from holdfast.agents._arguments import known_arguments
from holdfast.agents._secrets import secrets_needed
from holdfast.checkpoints import CheckpointConfig, Where, definition_of
from holdfast.errors import StorageError
from holdfast.ids import new_id
from holdfast.kickoff import Budget, Front, Kickoff, Starter, checkpoint_config
from holdfast.ports import HumanRequest, Usage
from holdfast.runs import Run
from holdfast.tools import BaseTool


class Resumable(BaseModel):
    """An object with kickoffs."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", protected_namespaces=()
    )

    kind: ClassVar[str]
    """what it is, as stored and told"""

    id: str = Field(default_factory=new_id)
    checkpoint: CheckpointConfig | bool | None = None
    """Where its runs are written down: True for the project's own store. None: as the run around it is, else nowhere. False:
    not even inside a run that is, so that a crash repeats all of it."""
    budget: Budget | None = None
    """What each run of it may use."""
    stream: bool = False
    """Whether a kickoff that does not say returns a `RunStream`."""
    runtime: Any = Field(default=None, repr=False)
    """The Runtime it runs in, else the default one."""

    _starter: Starter = PrivateAttr(default_factory=Starter)
    _latest: Kickoff | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _know_arguments(cls, given: Any) -> Any:
        return known_arguments(cls, given)

    @field_validator("checkpoint", mode="before")
    @classmethod
    def _know_checkpoint(cls, given: Any) -> Any:
        checkpoint_config(given)
        return given

    def model_post_init(self, context: Any, /) -> None:
        self._starter = Starter(self.runtime)

    @property
    def checkpoint_config(self) -> CheckpointConfig | None:
        return checkpoint_config(self.checkpoint)

    @property
    def starter(self) -> Starter:
        return self._starter

    @property
    def latest(self) -> Kickoff | None:
        """The latest kickoff."""
        return self._latest

    @latest.setter
    def latest(self, kickoff: Kickoff) -> None:
        self._latest = kickoff

    @property
    def run_id(self) -> str | None:
        """The id of the latest run, by which it can be taken up again if it was written down; None before the first."""
        return self._latest.run_id if self._latest is not None else None

    @property
    def usage(self) -> Usage:
        """What the model calls of the latest run used, once it is over."""
        return self._latest.usage if self._latest is not None else Usage()

    @property
    def pending(self) -> tuple[HumanRequest, ...]:
        """The questions that its run was put down with."""
        return self._starter.questions

    @property
    def entity_id(self) -> str:
        return self.id

    @property
    def entity_type(self) -> str:
        return self.kind

    # -- taking it up again ----------------------------------------------------------------------------------------

    @classmethod
    def from_checkpoint(cls, where: Where, *, checkpoint: CheckpointConfig | None = None, runtime: Any = None) -> Self:
        """One as it stood at a checkpoint: the id of one, the id of a run, or a file. Its next `kickoff()` goes on there.

        What was said and done is as recorded. Its agents, tasks, tools, models and forms of answers are made again from what this
        program has imported, and are as much the same objects as they were. Raises StorageError if there is no such checkpoint, or
        none of its kind.
        """
        config = checkpoint or CheckpointConfig()
        restored, plan = Starter(runtime).find(config, where)
        stored, run_id = definition_of(restored.info), restored.info.root_run_id
        if cls.kind not in stored.entity:
            raise StorageError(
                f"run {run_id} is not of a {cls.kind} that can be made again; it is of {stored.made_by}: make it, and "
                f"kickoff(from_checkpoint={str(where)!r})"
            )
        made = cls.made_again(stored.entity, config, runtime)
        made._starter.take_up(made.title, config, restored, plan)
        made._starter.need(secrets_needed(made.all_tools(), run_id, made.title))
        made._latest = Kickoff(made.front(), plan, None)
        made._latest.show(restored, made._starter.runtime)
        return made

    @classmethod
    def fork(
        cls, where: Where, *, branch: str = "", checkpoint: CheckpointConfig | None = None, runtime: Any = None
    ) -> Self:
        """One as it stood at a checkpoint, on a branch of its own: the recorded run stays as it is."""
        made = cls.from_checkpoint(where, checkpoint=checkpoint, runtime=runtime)
        made._starter.fork(branch, {})
        return made

    @classmethod
    def made_again(cls, stored: dict[str, Any], config: CheckpointConfig, runtime: Any) -> Self:
        """One like that which was stored."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """What people know it by."""
        raise NotImplementedError

    def all_tools(self) -> Sequence[BaseTool]:
        """Every tool that it may use."""
        raise NotImplementedError

    def front(self) -> Front:
        """What a kickoff of it is driven by."""
        raise NotImplementedError

    # -- kickoffs --------------------------------------------------------------------------------------------------

    def start(self, front: Front, inputs: Any, from_checkpoint: Where | None, stream: bool | None) -> Any:
        return self._starter.start(front, inputs, from_checkpoint, streamed=self._streams(stream))

    async def astart(self, front: Front, inputs: Any, from_checkpoint: Where | None, stream: bool | None) -> Any:
        return await self._starter.astart(front, inputs, from_checkpoint, streamed=self._streams(stream))

    def _streams(self, asked: bool | None) -> bool:
        return self.stream if asked is None else asked


E = TypeVar("E", bound=Resumable)


class ResumableFront(Generic[E]):
    """What the fronts of agents and crews have in common. One is made for each kickoff."""

    state_example: Any = dict
    on_state_conflict: Literal["fail", "last"] = "fail"
    is_async = True

    def __init__(self, entity: E) -> None:
        self.entity = entity
        self._kickoff: Kickoff | None = None

    @property
    def made_by(self) -> str:
        return f"{type(self.entity).__module__}:{type(self.entity).__qualname__}"

    @property
    def checkpoint(self) -> CheckpointConfig | None:
        return self.entity.checkpoint_config

    @property
    def budget(self) -> Budget | None:
        return self.entity.budget

    @property
    def is_apart(self) -> bool:
        return self.entity.checkpoint is False

    @property
    def kickoff(self) -> Kickoff:
        """The kickoff that has begun."""
        assert self._kickoff is not None
        return self._kickoff

    def saver(self, run: Run) -> None:
        return None

    def begins(self, run_id: str, kickoff: Kickoff) -> None:
        self._kickoff = self.entity.latest = kickoff

    def ends(self, run_id: str) -> None:
        self._kickoff = None

    def put_down(self, run_id: str, requests: tuple[HumanRequest, ...]) -> None:
        self.entity.starter.put_down(run_id, requests)
