"""`Flow`: methods that trigger one another, with a state they share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast, get_args, get_origin

import msgspec

from holdfast.checkpoints import CheckpointConfig
from holdfast.context import current_run_id
from holdfast.deltas import Shadow, fields_of
from holdfast.errors import RunFailedError, SyncInAsyncError, UsageError
from holdfast.events._stamping import EventSource
from holdfast.events.families.flow import (
    FlowCancelledEvent,
    FlowFailedEvent,
    FlowFinishedEvent,
    FlowPlotEvent,
    FlowStartedEvent,
)
from holdfast.flow._compile import FlowShape, compile_flow
from holdfast.flow._durable import Opening, open_journal, typed_results, waited_for
from holdfast.flow._persist import Saving
from holdfast.flow._program import FlowProgram
from holdfast.flow._state import fresh_state, restore_state, update_state, with_id
from holdfast.graph import Graph, Scheduler, end_with, to_html, to_mermaid, to_svg
from holdfast.graph._cell import SharedState
from holdfast.ids import new_id
from holdfast.ports import DefaultRuntime
from holdfast.runs import Run

S = TypeVar("S")


class Flow(Generic[S]):
    """Subclass it, decorate methods with `@start`, `@listen` and `@router`, and call `kickoff()`.

    `Flow[MyState]` gives it a typed state (a pydantic model or a dataclass); without one the state is a dict. Every state has
    an `id`. Each kickoff starts afresh: a new run, a new state. One object may be kicked off several times at once.
    """

    initial_state: ClassVar[Any] = None
    """The state each run starts with: a class, or an example that is copied."""
    max_method_calls: ClassVar[int] = 100
    """How often one method may run in one kickoff."""
    on_state_conflict: ClassVar[Literal["fail", "last"]] = "fail"
    """What happens when methods that overlap change the same thing and no reducer decides: the run fails, or the last wins."""
    name: str

    _state_type: ClassVar[Any] = None
    _shape: ClassVar[FlowShape | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._shape = None
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
        checkpoint: CheckpointConfig | None = None,
    ) -> None:
        self.flow_id = new_id()
        self.name = name or type(self).__name__
        self._example = initial_state if initial_state is not None else (type(self).initial_state or self._state_type)
        self._runtime = runtime
        self.checkpoint = checkpoint
        """Where its runs are written down, if they are."""
        self._live: dict[str, SharedState] = {}
        self._latest: SharedState | None = None
        self._outputs: list[Any] = []

    # -- what it is ------------------------------------------------------------------------------------------------

    @classmethod
    def graph(cls) -> Graph:
        """The graph its methods make. Raises FlowDefinitionError if it could never run as written."""
        return cls._compiled().graph

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
        (self._runtime or DefaultRuntime.get()).event_bus.tell_outside(self, told)
        return path

    @classmethod
    def _compiled(cls) -> FlowShape:
        if cls._shape is None:
            cls._shape = compile_flow(cls, cls.max_method_calls)
        return cls._shape

    @property
    def state(self) -> S:
        """The state: in a method, that method's own view of it; outside, that of the latest run."""
        return cast(S, self._cell().current())

    @state.setter
    def state(self, value: S) -> None:
        self._cell().replace(with_id(value))

    @property
    def method_outputs(self) -> list[Any]:
        """The results of the latest run's methods, in the order they completed."""
        return list(self._outputs)

    @property
    def entity_id(self) -> str:
        return self.flow_id

    @property
    def entity_type(self) -> str:
        return "flow"

    @property
    def event_source(self) -> EventSource:
        return EventSource("flow", self.flow_id, self.name)

    def _cell(self) -> SharedState:
        cell = self._live.get(current_run_id() or "") or self._latest
        if cell is None:
            cell = self._latest = SharedState(fresh_state(self._example))
        return cell

    # -- running it ------------------------------------------------------------------------------------------------

    def kickoff(self, inputs: Mapping[str, Any] | None = None, *, from_checkpoint: str | None = None) -> Any:
        """Run the flow and return the result of the method that completed last. Raises what a method raised.

        `inputs` set fields of the state. `from_checkpoint`, the id of a checkpoint or of a run, goes on where that run was:
        nothing that completed runs again. In a coroutine of a run, `await akickoff()` instead.
        """
        runtime = self._runtime or DefaultRuntime.get()
        if asyncio._get_running_loop() is not None and runtime.current_run() is not None:
            raise SyncInAsyncError(
                "kickoff() inside an async step would block the loop of its own run; use `await akickoff()`"
            )
        opening = None
        if (config := self._config(from_checkpoint)) is not None:
            opening = waited_for(runtime, open_journal(self, config, runtime, from_checkpoint))
        try:
            return runtime.run(self._run_blocking, inputs, opening, **self._options(opening))
        except RunFailedError as error:
            raise _cause(error) from _cause(error).__cause__
        finally:
            if opening is not None:  # also when the run could not even start
                opening.log.stop_beating()

    async def akickoff(self, inputs: Mapping[str, Any] | None = None, *, from_checkpoint: str | None = None) -> Any:
        """`kickoff` for coroutines."""
        runtime = self._runtime or DefaultRuntime.get()
        opening = None
        if (config := self._config(from_checkpoint)) is not None:
            opening = await open_journal(self, config, runtime, from_checkpoint)
        body = (
            self._run_async if self._compiled().awaited else self._run_blocking
        )  # the latter is one thread from end to end
        try:
            return await runtime.arun(body, inputs, opening, **self._options(opening))
        except RunFailedError as error:
            raise _cause(error) from _cause(error).__cause__
        finally:
            if opening is not None:  # also when the run could not even start
                opening.log.stop_beating()

    kickoff_async = akickoff

    def _config(self, from_checkpoint: str | None) -> CheckpointConfig | None:
        if from_checkpoint is not None and self.checkpoint is None:
            raise UsageError(
                "to go on from a checkpoint the flow must know where it is kept: Flow(checkpoint=CheckpointConfig(…))"
            )
        return self.checkpoint

    def _options(self, opening: Opening | None) -> dict[str, Any]:
        """How the runtime is to start the run."""
        options: dict[str, Any] = {"name": self.name, "entity": self}
        if opening is not None:
            options |= {"journal": opening.log, "resume": opening.ref, "run_id": opening.run_id}
        return options

    def _run_blocking(self, run: Run, inputs: Mapping[str, Any] | None, opening: Opening | None) -> Any:
        scheduler = self._prepare(run, inputs, opening)
        try:
            return self._finished(run, scheduler.drive_from_thread())
        except BaseException as error:
            self._broken(run, error)
            raise
        finally:
            self._live.pop(run.id, None)

    async def _run_async(self, run: Run, inputs: Mapping[str, Any] | None, opening: Opening | None) -> Any:
        scheduler = self._prepare(run, inputs, opening)
        try:
            return self._finished(run, await scheduler.drive())
        except BaseException as error:
            self._broken(run, error)
            raise
        finally:
            self._live.pop(run.id, None)

    def _prepare(self, run: Run, inputs: Mapping[str, Any] | None, opening: Opening | None) -> Scheduler:
        """Everything one kickoff needs: a state, a graph, a scheduler. The flow keeps the state when the run is over."""
        restored = opening.restored if opening is not None else None
        state = fresh_state(self._example)
        saving = Saving.begin(run, self.name, self._compiled().persist)
        if restored is not None:
            state = restore_state(state, restored.state)
        elif saving is not None:
            state = saving.reload(state, inputs or {})
        shadow = Shadow(fields_of(state) if restored is not None else {}) if opening is not None else None
        state = update_state(state, inputs or {})
        cell = SharedState(state, run_id=run.id, on_conflict=self.on_state_conflict, shadow=shadow)
        self._live[run.id] = self._latest = cell
        outputs: list[Any] = []
        self._outputs = outputs
        log = opening.log if opening is not None else None
        completed = outputs.append if saving is None else saving.after(cell, outputs.append)
        scheduler = Scheduler(run, FlowProgram(self, self._compiled()), cell, completed=completed, log=log)
        if log is not None:
            log.carry(cell.changes())
        run.move(FlowStartedEvent, flow_name=self.name, inputs=dict(inputs or {}))
        if restored is not None:
            scheduler.state, scheduler.results = restored.graph, typed_results(self, restored.results)
            outputs += scheduler.results.values()
            for event in restored.events:
                run.host.event_bus.replay(self, event)
        scheduler.begin()
        return scheduler

    def _finished(self, run: Run, result: Any) -> Any:
        run.move(FlowFinishedEvent, flow_name=self.name, result=result)
        return end_with(run, result)

    def _broken(self, run: Run, error: BaseException) -> None:
        if isinstance(error, Exception):
            run.move(FlowFailedEvent, flow_name=self.name, error=str(error), error_type=type(error).__name__)
        else:
            run.move(FlowCancelledEvent, flow_name=self.name, reason=run.end_reason)


def _cause(error: RunFailedError) -> BaseException:
    return error.__cause__ or error


def _replace_file(path: Path, text: str) -> None:
    """Write beside it first, so that nobody ever sees half a file."""
    beside = path.with_name(f".{new_id()}.tmp")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
