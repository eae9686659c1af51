"""`Flow`: methods that trigger one another, with a state they share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, get_args, get_origin

import msgspec

from holdfast.checkpoints import CheckpointConfig, Where
from holdfast.context import current_run_id, standing
from holdfast.errors import SyncInAsyncError, UsageError
from holdfast.events._stamping import EventSource
from holdfast.events.families.flow import FlowPlotEvent
from holdfast.flow._compile import FlowShape, check_names, compile_flow
from holdfast.flow._decorators import NOTE
from holdfast.flow._front import FlowFront, made_by_of
from holdfast.flow._recorded import class_of
from holdfast.graph import Graph, to_html, to_mermaid, to_svg
from holdfast.graph._cell import SharedState
from holdfast.human import ConsoleProvider, HumanFeedbackResult
from holdfast.ids import new_id
from holdfast.kickoff import (
    Asking,
    Budget,
    Kickoff,
    Plan,
    Starter,
    checked_budget,
    checkpoint_config,
    exchanged,
    human_provider,
)
from holdfast.ports import HumanProvider, HumanRequest, Usage

# Only type checkers need to know what a plain `Flow` has, and typing knows defaults from Python 3.13 on.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    S = TypeVarWithDefault("S", default=dict[str, Any])
else:
    S = TypeVar("S")


class Flow(Generic[S]):
    """Subclass it, decorate methods with `@start`, `@listen` and `@router`, and call `kickoff()`.

    `Flow[MyState]` gives it a typed state (a pydantic model or a dataclass); a plain `Flow` has a dict. Every state has
    an `id`. Each kickoff starts afresh: a new run, a new state. One object may be kicked off several times at once.

    Arguments: `initial_state`, a class or an example that is copied; `name`, else that of the class; `runtime`, else the default
    one; `checkpoint`, where its runs are written down so that they can be taken up again (True: the project's own store; None:
    nowhere); `human`, who is asked (the terminal, unless something else is given); `budget`, what each run may use. A class
    may set them too, for all of its objects.
    """

    initial_state: ClassVar[Any] = None
    """The state each run starts with: a class, or an example that is copied."""
    max_method_calls: ClassVar[int] = 100
    """How often one method may run in one kickoff."""
    on_state_conflict: ClassVar[Literal["fail", "last"]] = "fail"
    """What happens when methods that overlap change the same thing and no reducer decides: the run fails, or the last wins."""
    stream: bool = False
    """Whether a kickoff that does not say returns a `RunStream`, to be read while the run goes on."""
    name: str
    """What its runs are called: in the class, in `Flow(name=…)`, else the name of the class."""
    flow_id: str
    event_source: EventSource
    """What its events say of where they come from."""
    state_example: Any
    checkpoint: CheckpointConfig | None
    """Where its runs are written down, if they are; `True` means the project's own store."""
    human: HumanProvider
    """Who is asked by `ask` and `@human_feedback`."""
    budget: Budget | None
    """What each run of it may use, with the agents and crews inside it."""

    _starter: Starter
    _live: dict[str | None, Kickoff]
    """Those that run now, by the ids of their runs."""
    _cells: dict[str | None, SharedState]
    """Their states, which are asked for all the time."""
    _latest: Kickoff | None
    _state_type: ClassVar[Any] = None
    _shape: ClassVar[FlowShape | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._shape = None
        check_names(cls, {*vars(Flow), *Flow.__annotations__} - {"stream"})  # a method of that name does no harm
        for base in getattr(cls, "__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, Flow):
                [argument] = get_args(base)
                if not isinstance(argument, TypeVar):
                    cls._state_type = argument

    def __init__(
        self,
        *,
        initial_state: Any = None,
        name: str = "",
        runtime: Any = None,
        checkpoint: CheckpointConfig | bool | None = None,
        human: HumanProvider | None = None,
        stream: bool | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.flow_id = new_id()
        self.name = self._or_of_class("name", name or None) or type(self).__name__
        self.event_source = EventSource("flow", self.flow_id, self.name)
        self.state_example = initial_state if initial_state is not None else self._declared_state()
        self._starter = Starter(runtime)
        self.checkpoint = checkpoint_config(self._or_of_class("checkpoint", checkpoint))
        self.human = human_provider(self._or_of_class("human", human)) or ConsoleProvider()
        self.budget = checked_budget(self._or_of_class("budget", budget))
        if stream is not None:
            self.stream = stream
        self._live = {}
        self._cells = {}
        self._latest = None

    @classmethod
    def _or_of_class(cls, name: str, given: Any) -> Any:
        """An argument, else what the class sets under its name."""
        return given if given is not None else getattr(cls, name, None)

    @classmethod
    def _declared_state(cls) -> Any:
        return cls.initial_state if cls.initial_state is not None else cls._state_type

    # -- what it is ------------------------------------------------------------------------------------------------

    @classmethod
    def graph(cls) -> Graph:
        """The graph its methods make. Raises FlowDefinitionError if it could never run as written."""
        return cls.compiled().graph

    @classmethod
    def to_mermaid(cls) -> str:
        """Its graph as a Mermaid flowchart."""
        return to_mermaid(cls.graph())

    def plot(self, path: str | os.PathLike[str] = "flow.html") -> Path:
        """Draw its graph into a file: an SVG if that is called .svg, Mermaid text if .mmd, else a page. Returns its path.

        The file is replaced as a whole, or, when something fails, not at all.
        """
        path = Path(path)
        draw = {".svg": to_svg, ".mmd": to_mermaid}.get(path.suffix.lower(), to_html)
        graph = msgspec.structs.replace(self.graph(), name=self.name)
        _replace_file(path, draw(graph))
        told = FlowPlotEvent(flow_name=self.name, path=str(path))
        self._starter.runtime.event_bus.tell_outside(self, told)
        return path

    @classmethod
    def compiled(cls) -> FlowShape:
        """What its methods amount to, found out once."""
        if cls._shape is None:
            cls._shape = compile_flow(cls, cls.max_method_calls)
        return cls._shape

    @property
    def state(self) -> S:
        """The state: in a method, that method's own view of it; outside, that of the latest run."""
        here = standing()
        cell = self._cells.get(here.run_id) or self._kickoff().cell  # the first in nearly every case
        return cell.seen_from(here)  # type: ignore[no-any-return]

    @state.setter
    def state(self, value: S) -> None:
        cell = self._kickoff().cell
        cell.replace(exchanged(cell.current(), value))

    @property
    def method_outputs(self) -> list[Any]:
        """The results of the latest run's methods, in the order they completed."""
        return self._latest.outputs.all() if self._latest is not None else []

    @property
    def run_id(self) -> str | None:
        """The id of the latest run, by which it can be taken up again if it was written down; None before the first."""
        return self._kickoff().run_id

    @property
    def method_counts(self) -> dict[str, int]:
        """How often each method was called in the latest run; in a method, this call included.

        With the run's id it makes a key that is the same when a call is repeated after a crash; not for a method that runs for
        `each` item, whose calls overlap.
        """
        return self._kickoff().counts()

    @property
    def usage(self) -> Usage:
        """What the model calls of the latest run used, once it is over."""
        return self._kickoff().usage

    @property
    def human_feedback_history(self) -> list[HumanFeedbackResult]:
        """What people said in the latest run, oldest first; the last hundred."""
        return self._kickoff().feedback.all()

    @property
    def last_human_feedback(self) -> HumanFeedbackResult | None:
        """What a person said last in the latest run."""
        return next(reversed(self._kickoff().feedback.all()), None)

    @property
    def entity_id(self) -> str:
        return self.flow_id

    @property
    def entity_type(self) -> str:
        return "flow"

    def _kickoff(self) -> Kickoff:
        """The kickoff that this code belongs to; outside any, the latest."""
        found = self._live.get(current_run_id() or "") or self._latest
        if found is None:
            found = self._latest = Kickoff(FlowFront(self), Plan(), None)
        return found

    def keep_kickoff(self, run_id: str, kickoff: Kickoff) -> None:
        """A kickoff begins: it is the latest."""
        self.event_source = EventSource("flow", self.flow_id, self.name)  # it may have been given another name
        self._live[run_id] = self._latest = kickoff
        self._cells[run_id] = kickoff.cell

    def forget_kickoff(self, run_id: str) -> None:
        """A kickoff is over."""
        self._live.pop(run_id, None)
        self._cells.pop(run_id, None)

    # -- running it ------------------------------------------------------------------------------------------------

    def kickoff(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        from_checkpoint: Where | None = None,
        stream: bool | None = None,
    ) -> Any:
        """Run the flow and return the result of the method that completed last. Raises what a method raised.

        `inputs` set fields of the state. `from_checkpoint`, the id of a checkpoint, of a run, or a file, goes on where that
        run was: nothing that completed runs again, what was in flight does. If the run has to wait for a person or a secret, the
        result is a `Pending`. In a coroutine of a run, `await akickoff()` instead: this raises SyncInAsyncError.
        With `stream=True` it returns at once, with a `RunStream` of what the run does; that has the `result`.

        Of a run that is written down it also raises StoreUnavailableError when that fails; when one is taken up, StorageError
        if there is none or it has completed or was cancelled, RunBusyError while a live process holds it, GraphChangedError if
        the flow has other methods now.
        """
        front = FlowFront(self)
        return self._starter.start(front, inputs, from_checkpoint, streamed=self._streams(stream))

    async def akickoff(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        from_checkpoint: Where | None = None,
        stream: bool | None = None,
    ) -> Any:
        """`kickoff` for coroutines: `stream = await flow.akickoff(stream=True)`, then `async for frame in stream`."""
        front = FlowFront(self)
        return await self._starter.astart(front, inputs, from_checkpoint, streamed=self._streams(stream))

    def _streams(self, asked: bool | None) -> bool:
        return self.stream is True if asked is None else asked  # a method may have that name

    kickoff_async = akickoff

    # -- taking it up again ----------------------------------------------------------------------------------------

    @classmethod
    def from_checkpoint(
        cls,
        where: Where,
        *,
        checkpoint: CheckpointConfig | None = None,
        runtime: Any = None,
        **options: Any,
    ) -> Self:
        """A flow as it stood at a checkpoint: the id of one, the id of a run, or a file. Its next `kickoff()` goes on there.

        Called on a class it makes that class; called on `Flow` itself, the one that was recorded, if the program has
        imported it; nothing is imported here. `options` are the class's own arguments. Until it runs, asterisks stand for the
        secrets of its state. Raises StorageError if there is no such checkpoint.
        """
        return cls._recorded(where, checkpoint, runtime, options)

    @classmethod
    def fork(
        cls,
        where: Where,
        *,
        branch: str = "",
        state: Mapping[str, Any] | None = None,
        checkpoint: CheckpointConfig | None = None,
        runtime: Any = None,
        **options: Any,
    ) -> Self:
        """A flow as it stood at a checkpoint, on a branch of its own: what comes then leaves the recorded run as it is.

        `state` sets fields before it goes on; what methods have returned stays as recorded. Its next `kickoff()` makes the branch
        and runs it; without a name the branch is given one. Any run can be forked, a completed one too. Raises StorageError if
        there is no such checkpoint; so does `kickoff()` if the run has a branch of that name.
        """
        flow = cls._recorded(where, checkpoint, runtime, options)
        flow._starter.fork(branch, state or {})
        flow._kickoff().edit(state or {})
        return flow

    @classmethod
    def from_pending(
        cls, run_id: str, *, checkpoint: CheckpointConfig | None = None, runtime: Any = None, **options: Any
    ) -> Self:
        """A flow whose run waits for people: `pending` has the questions, `resume(answer)` goes on.

        Secrets that are missing are not among them. Raises StorageError if there is no such run.
        """
        return cls.from_checkpoint(run_id, checkpoint=checkpoint, runtime=runtime, **options)

    @property
    def pending(self) -> tuple[HumanRequest, ...]:
        """The questions that its run was put down with."""
        return self._starter.questions

    def resume(self, answer: str = "", *, request_id: str | None = None) -> Any:
        """Go on with a run that waits for a person. If it waits for several answers, say which one this is.

        Returns and raises what `kickoff` does: another `Pending` if more is needed. An answer counts although its time is over.
        Raises UsageError if the run waits for no such answer.
        """
        self._starter.answer(self.checkpoint, answer, request_id)
        return self.kickoff()

    async def aresume(self, answer: str = "", *, request_id: str | None = None) -> Any:
        """`resume` for coroutines."""
        self._starter.answer(self.checkpoint, answer, request_id)
        return await self.akickoff()

    resume_async = aresume

    def put_down(self, run_id: str, questions: tuple[HumanRequest, ...]) -> None:
        """Its run waits for people; the next `resume()` is about these questions."""
        self._starter.put_down(run_id, questions)

    @classmethod
    def _recorded(
        cls, where: Where, checkpoint: CheckpointConfig | None, runtime: Any, options: dict[str, Any]
    ) -> Self:
        config = checkpoint_config(cls._or_of_class("checkpoint", checkpoint)) or CheckpointConfig()
        restored, plan = Starter(runtime).find(config, where)
        flow = class_of(cls, restored)(checkpoint=config, runtime=runtime, **options)
        flow._starter.take_up(flow.name, config, restored, plan)
        flow._latest = Kickoff(FlowFront(flow), plan, None)
        flow._latest.show(restored, flow._starter.runtime)
        return flow

    @classmethod
    def is_runnable(cls) -> bool:
        """Whether it has methods of its own to run; the base class `Flow` has none."""
        return any(hasattr(value, NOTE) for base in cls.__mro__ for value in vars(base).values())

    @classmethod
    def known_subclasses(cls) -> dict[str, type[Self]]:
        """Every subclass that this program has defined or imported, by the name that journals know it under."""
        found: dict[str, type[Self]] = {}
        for kind in cls.__subclasses__():
            found[made_by_of(kind)] = kind
            found |= kind.known_subclasses()
        return found

    # -- asking people ---------------------------------------------------------------------------------------------

    def ask(
        self, message: str, *, timeout: float | None = None, metadata: Mapping[str, Any] | None = None
    ) -> str | None:
        """Ask a person, in a method, and return the answer; None if `timeout` seconds pass without one.

        If the answer will come later, the run is put down here; when it is taken up again the method runs from its
        beginning, and this returns the answer. Async methods use `await aask()`.
        """
        if asyncio._get_running_loop() is not None:
            raise SyncInAsyncError("ask() would block the loop of its run; use `await self.aask(…)`")
        asking = self._asking()
        return asking.ask(asking.request("input", message, timeout, metadata=dict(metadata or {})), self.human)

    async def aask(
        self, message: str, *, timeout: float | None = None, metadata: Mapping[str, Any] | None = None
    ) -> str | None:
        """`ask` for async methods."""
        asking = self._asking()
        return await asking.aask(asking.request("input", message, timeout, metadata=dict(metadata or {})), self.human)

    def _asking(self) -> Asking:
        kickoff = self._live.get(current_run_id() or "")
        if kickoff is None or kickoff.asking is None:
            raise UsageError("ask() is for the methods of a flow that runs: call it inside one")
        return kickoff.asking


def _replace_file(path: Path, text: str) -> None:
    """Write beside it first, so that nobody ever sees half a file."""
    beside = path.with_name(f".{new_id()}.tmp")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
