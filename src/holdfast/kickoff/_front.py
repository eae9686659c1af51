"""What can be kicked off: a flow, a crew, the loop of an agent. A front says how; everything else is the same for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from holdfast.checkpoints import CheckpointConfig
from holdfast.events._base import BaseEvent
from holdfast.graph import Graph, Program
from holdfast.graph._cell import SharedState
from holdfast.kickoff._asking import Asking
from holdfast.kickoff._budget import Budget
from holdfast.ports import HumanRequest
from holdfast.runs import Run

if TYPE_CHECKING:
    from holdfast.kickoff._kickoff import Kickoff

Moment: TypeAlias = Literal["started", "finished", "failed", "cancelled", "paused"]


class Saver(Protocol):
    """Saves the state of one run as its steps complete."""

    def reload(self, fresh: Any, inputs: Mapping[str, Any]) -> Any:
        """The state saved last under the id among the inputs, else the fresh one."""
        ...

    def completed(self, cell: SharedState) -> None:
        """The step that this code stands in has completed."""
        ...


class Front(Protocol):
    """A program with a name, a state to begin with, and events of its own for its beginning and its end."""

    @property
    def kind(self) -> str:
        """What runs of it are called in a journal: `flow`, `crew`, `agent`."""
        ...

    @property
    def name(self) -> str: ...

    @property
    def entity(self) -> Any:
        """Who its events come from."""
        ...

    @property
    def made_by(self) -> str:
        """How what made it is named in a journal: `module:class`."""
        ...

    @property
    def graph(self) -> Graph: ...

    @property
    def checkpoint(self) -> CheckpointConfig | None:
        """Where its runs are written down, if they are."""
        ...

    @property
    def state_example(self) -> Any:
        """The state each run starts with: a class, or an example that is copied."""
        ...

    @property
    def on_state_conflict(self) -> Literal["fail", "last"]: ...

    @property
    def budget(self) -> Budget | None:
        """What a run of it may use."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether any of its steps is a coroutine."""
        ...

    @property
    def may_ask(self) -> bool:
        """Whether it may have to wait for a person."""
        ...

    def program(self, run: Run, asking: Asking, done: Mapping[str, Any]) -> Program:
        """What the scheduler drives. `done` are results that only have to be merged, by execution key."""
        ...

    def typed(self, step: str, result: Any) -> Any:
        """A step's stored result with the type it had."""
        ...

    def stored(self, config: CheckpointConfig) -> dict[str, Any]:
        """What another process can make it again from, plain; empty if its class is enough.

        Raises NotStorableError, naming the place, if the configuration wants that and it cannot be had.
        """
        ...

    @property
    def is_apart(self) -> bool:
        """Whether it is not written down even inside a run that is."""
        ...

    def outcome(self, results: Mapping[str, Any], last: Any) -> Any:
        """What a kickoff returns: made of the results by execution key, and of the one that came last."""
        ...

    def saver(self, run: Run) -> Saver | None:
        """Who saves the state beside the journal, if anybody."""
        ...

    def event(self, moment: Moment, **about: Any) -> tuple[type[BaseEvent], dict[str, Any]]:
        """The event that tells of a moment of a run's life: its class and its payload.

        `about` is `inputs` of the start, `result` of the finish, `error` of a failure, `reason` of a cancellation, and
        `request`, the first of them, of a pause. The start also gets what a run inside another needs to be taken up again.
        """
        ...

    def begins(self, run_id: str, kickoff: Kickoff) -> None:
        """A kickoff begins; it is the latest."""
        ...

    def ends(self, run_id: str) -> None:
        """A kickoff is over."""
        ...

    def put_down(self, run_id: str, requests: tuple[HumanRequest, ...]) -> None:
        """Its run waits for people."""
        ...
