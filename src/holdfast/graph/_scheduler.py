"""The driver around the pure core: it does what `decide` says and records what happened. It decides nothing itself.

A stretch of blocking steps, one after the other, runs in one thread from its first step to its last: in the caller's when
a program is started from plain code, else in a thread of the runtime. An async step that nothing overlaps is awaited
where the driver is. Only steps that overlap get a task or a thread each.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.context import Position, leave, position, stand_at
from holdfast.errors import AnswerPendingError, NotStorableError, StateConflictError, StepFailedError
from holdfast.events import EventBus
from holdfast.events._base import BaseEvent
from holdfast.events.families.state import StateConflictEvent
from holdfast.graph._core import (
    Cancel,
    Command,
    Complete,
    Execution,
    Fail,
    GraphState,
    Park,
    Start,
    decide,
    evolve,
    failure_key,
    results_needed,
)
from holdfast.graph._facts import Began, Cancelled, Completed, Fact, Failed, Started, StepFailure, Waiting
from holdfast.graph._model import failure_label
from holdfast.graph._program import Log, NoState, Program, StateCell
from holdfast.runs import End, Run, RunStatus, Step
from holdfast.threads import done_here

Note: TypeAlias = Callable[[type[BaseEvent], dict[str, Any], bytes | None], str | None]
FORGET_AT = 64
"""How many results are kept before it is worth finding out which are still needed."""


class Outcome(Struct, frozen=True):
    """What became of an execution."""

    fact: Fact
    result: Any = None
    error: BaseException | None = None


class Flight(Struct, frozen=True, eq=False):
    """An execution that others overlap."""

    execution: Execution
    step: Step
    context: Context
    landed: asyncio.Future[None]


class Scheduler:
    """Drives one program inside one run."""

    def __init__(
        self,
        run: Run,
        program: Program,
        cell: StateCell | None = None,
        completed: Callable[[Any], None] = lambda result: None,
        log: Log | None = None,
    ) -> None:
        self.run = run
        self.program = program
        self.graph = program.graph
        self._routers = program.graph.routers
        self._spreading = program.graph.spreading
        self.state = GraphState()
        self.results: dict[str, Any] = {}
        """Results by execution key, as long as a step may still be given them."""
        self.errors: dict[str, BaseException] = {}
        self._cell = cell or NoState()
        self._notify = completed
        self._log = log
        self._flying: dict[str, Flight] = {}
        self.event_ids: dict[str, str] = {}
        """Of the events that told of these results."""
        self._unanswered: list[AnswerPendingError] = []
        self._weigh = self.weigh if type(self).weigh is not Scheduler.weigh else None
        bus = run.host.event_bus
        scribe = bus.scribe(run.outlet, run.speaker)
        self._note: Note = scribe.note if scribe else partial(_announce, bus, run.speaker)

    # -- the loop, twice: in a thread, and on an event loop ----------------------------------------------------------

    def begin(self) -> None:
        """The first fact, or the one that follows a restore."""
        self.state = evolve(self.graph, self.state, Began())

    def drive_in_thread(self) -> list[Command]:
        """Run blocking steps one after the other in this thread. Returns the commands that need more than that."""
        run, program, log, cell = self.run, self.program, self._log, self._cell
        outlet, ending = run.outlet, run.ending
        while True:
            if (outlet.crowded is not None or outlet.parent is not None) and outlet.crowding() is not None:
                self._await_reader_in_thread()
            commands, alone = self.decide()
            if alone is None or program.is_async(alone.step) or ending.is_requested or run.resumed is not None:
                return commands
            outside = stand_at(self.place(alone))
            try:
                cell.alone = alone.key  # it works on the state itself
                given = self._tell_started(alone)
                if log is not None:
                    log.commit_now()
                try:
                    result = program.call(alone, given)
                except (Exception, asyncio.CancelledError) as error:
                    outcome = self._broken_off(alone, error)
                else:
                    outcome = self._completed(alone, result)
                self._record(outcome, alone)
            finally:
                leave(outside)

    async def drive(self) -> Any:
        """Run the program to its end on this loop, and return the result of the execution that completed last."""
        try:
            return await self._drive_on()
        finally:  # on the way out nothing is left in flight, in the record or in the state
            for flight in list(self._flying.values()):
                self._stop(flight.execution)

    async def _drive_on(self) -> Any:
        while True:
            commands, alone = await self._drive_here()
            if alone is not None:
                await self._lend_thread()
            elif ended := self._ended(commands):
                if not await self.stay(ended):
                    return self.conclude(ended)
            else:
                await self._overlap(commands)

    async def _drive_here(self) -> tuple[list[Command], Execution | None]:
        """Await async steps one after the other on this loop. Returns what needs more than that, as `decide` has it."""
        run, program, log, cell = self.run, self.program, self._log, self._cell
        outlet, ending = run.outlet, run.ending
        while True:
            if (outlet.crowded is not None or outlet.parent is not None) and outlet.crowding() is not None:
                await self._await_reader()
            if ending.is_requested or run.resumed is not None:
                await self._await_gate()
                if ending.is_requested:
                    raise asyncio.CancelledError
            commands, alone = self.decide()
            if alone is None or not program.is_async(alone.step):
                return commands, alone
            outside = stand_at(self.place(alone))
            try:
                cell.alone = alone.key
                given = self._tell_started(alone)
                try:
                    if log is not None and (rest := log.commit_here()) is not None:
                        await rest
                    try:
                        result = await program.call(alone, given)
                    except Exception as error:
                        outcome = self._broken_off(alone, error)
                    else:
                        outcome = self._completed(alone, result)
                except asyncio.CancelledError:
                    if run.is_ending or _is_cancelled_here():
                        self._record(Outcome(Cancelled(alone.step, alone.number)), alone)
                        raise
                    outcome = _cancelled_by_itself(alone)
                self._record(outcome, alone)
            finally:
                leave(outside)

    # -- what a front end may do otherwise ---------------------------------------------------------------------------

    def decide(self) -> tuple[list[Command], Execution | None]:
        """What to do next; and the one execution to start, if nothing else is to be done and nothing is in flight.

        May take note of what has come from outside before.
        """
        commands = decide(self.graph, self.state)
        if len(commands) == 1 and type(command := commands[0]) is Start and not self._flying:
            return commands, command.execution
        return commands, None

    def weigh(self, outcome: Outcome, execution: Execution) -> Outcome:
        """What an outcome amounts to, before it is recorded."""
        return outcome

    def callers(self) -> list[asyncio.Future[Any]]:
        """What else ends the wait for executions in flight."""
        return []

    async def stay(self, ended: Complete | Fail | Park) -> bool:
        """Wait a while although there is nothing to do. Says whether there is something now."""
        return False

    async def _await_gate(self) -> None:
        """Between steps: none starts while the run is paused. What is done is on disk meanwhile."""
        if self.run.is_held_back:
            await self.commit()
            await self.run.gate()

    async def _await_reader(self) -> None:
        """Between steps: let whoever reads the run's stream catch up. What is done is on disk meanwhile."""
        await self.commit()
        await self.run.room()

    def _await_reader_in_thread(self) -> None:
        if self._log is not None:
            self._log.commit_now()
        self.run.room_in_thread()

    def drive_from_thread(self) -> Any:
        """Run the program to its end from a plain thread; a loop is borrowed only if a step needs one."""
        commands = self.drive_in_thread()
        if (ended := self._ended(commands)) and not self.run.is_ending:
            return self.conclude(ended)
        context = copy_context()
        waiter: Future[Any] = Future()
        step = self.run.spawn_silently(
            self._drive_for, waiter, name=self.graph.name, step_id=self.run.host.new_id(), context=context
        )
        first = concurrent.futures.FIRST_COMPLETED
        concurrent.futures.wait([waiter, step.over, self.run.ending.requested], return_when=first)
        if not waiter.done():  # the end was requested from outside
            step.cancel()
            concurrent.futures.wait([waiter, step.over], return_when=first)
        if not waiter.done():
            raise StepFailedError("the run was cancelled")
        return waiter.result()

    async def _drive_for(self, waiter: Future[Any]) -> None:
        try:
            result = await self.drive()
        except asyncio.CancelledError as error:
            waiter.set_exception(StepFailedError("the run was cancelled"))
            raise error
        except BaseException as error:
            waiter.set_exception(error)
        else:
            waiter.set_result(result)

    # -- one at a time -----------------------------------------------------------------------------------------------

    def _attempt(self, execution: Execution, given: Any) -> Outcome:
        """Call a blocking step here."""
        try:
            result = self.program.call(execution, given)
        except (Exception, asyncio.CancelledError) as error:
            return self._broken_off(execution, error)
        return self._completed(execution, result)

    async def _attempt_async(self, execution: Execution, given: Any) -> Outcome:
        """Await an async step here."""
        try:
            result = await self.program.call(execution, given)
        except Exception as error:
            return self._broken_off(execution, error)
        return self._completed(execution, result)

    def _broken_off(self, execution: Execution, error: BaseException) -> Outcome:
        """What came of a step that raised. Raises the cancellation of a run that ends."""
        if isinstance(error, AnswerPendingError):
            return Outcome(Waiting(execution.step, execution.number), error=error)
        if isinstance(error, asyncio.CancelledError):
            if self.run.is_ending:
                raise error
            return _cancelled_by_itself(execution)
        return Outcome(Failed(execution.step, execution.number, _text(error)), error=error)

    def _completed(self, execution: Execution, result: Any) -> Outcome:
        step = execution.step
        try:  # a result that names no route, or has no items, is none
            route = self.program.route(step, result) if step in self._routers else None
            items = self.program.items(step, result) if step in self._spreading else None
        except StepFailedError as error:
            return Outcome(Failed(step, execution.number, _text(error)), error=error)
        return Outcome(Completed(step, execution.number, route, items), result)

    async def _lend_thread(self) -> None:
        """Let a thread run the stretch of blocking steps that begins here."""
        await self.run.spawn_silently(
            self.drive_in_thread, name=self.graph.name, step_id=self.run.host.new_id(), context=copy_context()
        )

    # -- several at a time -------------------------------------------------------------------------------------------

    async def _overlap(self, commands: list[Command]) -> None:
        """Start and stop what is to be, then wait until something that overlaps has ended."""
        prepared = [self._prepare(command.execution) for command in commands if isinstance(command, Start)]
        cancels = [command.execution for command in commands if isinstance(command, Cancel)]
        for execution in cancels:
            self._stop(execution)
        await self.commit()
        for execution, given, context in prepared:
            self._launch(execution, given, context)
        if cancels or not self._flying:
            return
        landing = {flight.landed: key for key, flight in self._flying.items()}
        done, _ = await asyncio.wait({*landing, *self.callers()}, return_when=asyncio.FIRST_COMPLETED)
        for waiter in done & landing.keys():
            await self._land(landing[waiter])

    def _prepare(self, execution: Execution) -> tuple[Execution, Any, Context]:
        """Make a place for an execution and tell that it starts; it does once that is safe."""
        context = copy_context()
        context.run(position.set, self.place(execution))
        self._cell.enter_shared(execution.key)
        return execution, context.run(self._tell_started, execution), context

    def _launch(self, execution: Execution, given: Any, context: Context) -> None:
        attempt = self._attempt_async if self.program.is_async(execution.step) else self._attempt
        step = self.run.spawn_silently(
            attempt, execution, given, name=execution.step, step_id=execution.key, context=context.copy()
        )
        self._flying[execution.key] = Flight(execution, step, context, done_here(step.over))

    def _stop(self, execution: Execution) -> None:
        """Cancel an execution: its late result is refused from here on, whenever its code notices."""
        flight = self._flying.pop(execution.key, None)
        context = flight.context if flight is not None else copy_context()
        context.run(self._record, Outcome(Cancelled(execution.step, execution.number)), execution)
        if flight is not None:
            self.run.outlet.refused.add(execution.key)
            flight.step.cancel()

    async def _land(self, key: str) -> None:
        flight = self._flying.pop(key)
        execution = flight.execution
        try:
            outcome = await flight.step
        except asyncio.CancelledError:
            if self.run.is_ending:
                raise
            outcome = _cancelled_by_itself(execution)
        flight.context.run(self._record, outcome, execution)

    async def commit(self) -> None:
        """Make what happened so far safe."""
        if self._log is not None:
            await self._log.commit()

    # -- recording ---------------------------------------------------------------------------------------------------

    def _tell_started(self, execution: Execution) -> Any:
        """Tell that an execution starts. Returns what it is given."""
        fact = Started(execution.step, execution.number, execution.uses, execution.tries, execution.fallback)
        given, note = self.given(execution), self._note
        event_type, payload = self.program.event(fact, given, None)
        note(event_type, payload, None)  # called with all it takes, it is called without another interpreter loop
        self.state = evolve(self.graph, self.state, fact)
        return given

    def _record(self, outcome: Outcome, execution: Execution) -> None:
        """Make what happened part of the run: its state, the event, the fact. In the execution's own context."""
        key, delta, note = execution.key, None, self._note
        if (weigh := self._weigh) is not None:
            outcome = weigh(outcome, execution)
        if type(outcome.fact) is Completed:
            try:
                delta = self._cell.leave(key)
            except StateConflictError as error:
                self._tell_conflict(key, outcome.result, error)
                outcome = Outcome(Failed(execution.step, execution.number, _text(error)), error=error)
            except NotStorableError as error:
                error.trace_to(execution.step, "left in the state")
                raise
            else:
                self.results[key] = result = outcome.result
                notify = self._notify
                notify(result)
        else:
            self._cell.abandon(key)
        if outcome.error is not None:
            key = self._note_error(execution, outcome.error)
        event_type, payload = self.program.event(outcome.fact, outcome.result, outcome.error)
        try:
            if delta is not None and delta.operations and self._log is not None:
                event_id = note(event_type, payload, delta.encode())
            else:
                event_id = note(event_type, payload, None)
        except NotStorableError as error:
            error.trace_to(execution.step, "returned")
            raise
        if event_id is not None:
            self.event_ids[key] = event_id
        self.state = evolve(self.graph, self.state, outcome.fact)
        if len(self.results) >= FORGET_AT:
            self._forget()

    def _note_error(self, execution: Execution, error: BaseException) -> str:
        """Keep what an execution raised. Returns the key under which what listens to that is given it."""
        key = execution.key
        if isinstance(error, AnswerPendingError):
            self._unanswered.append(error)
            return key
        self.errors[key] = error
        if failure_label(execution.step) in self.graph.listeners:
            key = failure_key(key)
            self.results[key] = StepFailure(execution.step, str(error), type(error).__name__)
        return key

    def _tell_conflict(self, key: str, result: Any, error: StateConflictError) -> None:
        changes = {} if error.changes is None else msgspec.to_builtins(error.changes)
        told = {"path": error.path, "steps": list(error.steps), "fix": str(error)}
        self.run.tell(StateConflictEvent, **told, execution=key, result=result, changes=changes)

    def _forget(self) -> None:
        """Let go of results that no step can be given any more."""
        if self.graph.keeps_results:
            return
        needed = results_needed(self.state)
        self.results = {key: result for key, result in self.results.items() if key in needed}
        self.event_ids = {key: event_id for key, event_id in self.event_ids.items() if key in needed}

    def given(self, execution: Execution) -> Any:
        """What an execution is given."""
        if execution.cause is None:
            return None
        if (batch := self.state.batches.get(execution.cause)) is not None:
            return [self.results.get(key) for key in batch]
        result = self.results.get(execution.cause)
        return result if execution.index is None else result[execution.index]  # type: ignore[index]

    def place(self, execution: Execution) -> Position:
        """Where what an execution says and does stands."""
        run = self.run
        here, cause = run.place, self.event_ids.get(execution.cause or "")
        subject = self.program.subjects.get(execution.step, here.subject)
        return Position(run.id, here.scope, subject, cause or here.triggered_by, execution.key)

    # -- the end -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _ended(commands: list[Command]) -> Complete | Fail | Park | None:
        if len(commands) == 1 and isinstance(commands[0], Complete | Fail | Park):
            return commands[0]
        return None

    def conclude(self, ended: Complete | Fail | Park) -> Any:
        """The program's result; raises what failed it, all of it if several steps did."""
        if isinstance(ended, Complete):
            return self.results.get(ended.last) if ended.last is not None else None
        if isinstance(ended, Park):
            asked: Any = [one for found in self._unanswered for one in found.requests]
            asked = {one.id: one for one in asked}  # steps may need the same answer
            raise AnswerPendingError(requests=tuple(asked.values()))
        errors = [error for error in self.errors.values() if isinstance(error, Exception)]
        mine = [error for error in errors if _text(error) in ended.errors]
        if len(ended.errors) == 1 and len(mine) == 1:
            raise mine[0]
        if len(mine) > 1:
            raise ExceptionGroup(f"{len(mine)} steps failed", mine)
        raise StepFailedError("; ".join(ended.errors))


def _announce(
    bus: EventBus, speaker: object, event_type: type[BaseEvent], payload: dict[str, Any], changed: bytes | None
) -> str | None:
    """Tell of something in a run that is not written down: nobody asks what it changed."""
    return bus.note(speaker, event_type, payload)


def end_with(run: Run, result: Any) -> Any:
    """The result of a run whose program is done. Nothing waits for losers that cannot be stopped: they are told of the end."""
    if run.has_company:
        run.request_end(End(RunStatus.COMPLETED, result=result))
    return result


def _is_cancelled_here() -> bool:
    """Whether somebody cancelled the task that this code is in, as a loop does that shuts down."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _cancelled_by_itself(execution: Execution) -> Outcome:
    error = StepFailedError(f"step {execution.step} raised CancelledError, though nobody cancelled it")
    return Outcome(Failed(execution.step, execution.number, _text(error)), error=error)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
