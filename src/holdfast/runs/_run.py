"""`Run`: one execution and everything it owns."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.context import Position, at, position
from holdfast.errors import IllegalTransitionError, RunEndedError, SyncInAsyncError, WrongLoopError
from holdfast.events._base import BaseEvent
from holdfast.events._bus import EventBus
from holdfast.events._delivery import Outlet
from holdfast.events._handlers import DependsOn, HandlerFunction
from holdfast.events._mailbox import in_handler
from holdfast.events._publishing import Staged
from holdfast.events._stamping import EventSource
from holdfast.events._state import RuntimeState
from holdfast.events.families.resource import ResourceAcquiredEvent, ResourceReleasedEvent
from holdfast.events.families.run import (
    RunCancelledEvent,
    RunCompletedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunResumedEvent,
    RunStartedEvent,
    RunWaitingEvent,
)
from holdfast.ports import Channel, Entity, Journal, Lease
from holdfast.runs._end import End, Ending, RunRef, raise_end
from holdfast.runs._holdings import CallbackLease, Holding, Holdings
from holdfast.runs._status import RunStatus, check_transition
from holdfast.runs._steps import GraphStep, Step
from holdfast.threads import LoopThread, ThreadPool, done_here, signal_here

F = TypeVar("F", bound=HandlerFunction)


class RunHost(Protocol):
    """What a run needs of the runtime that holds it."""

    event_bus: EventBus
    clock: Clock
    threads: ThreadPool
    loop_thread: LoopThread
    grace: float

    def new_id(self) -> str: ...
    def forget(self, run: Run) -> None: ...
    def look_after(self, supervisor: asyncio.Task[None]) -> None: ...
    def disown(self, run_id: str, name: str, thread: Future[Any]) -> None: ...
    def keep(self, holding: Holding) -> None: ...


class RunEntity(Struct, frozen=True):
    """A bare run as a recording knows it."""

    entity_id: str
    name: str = ""
    entity_type: str = "run"


class StagedEnd(Struct, frozen=True):
    """An end that is recorded and not yet told of. It is entered, or dropped: what the tree tells meanwhile waits."""

    enter: Callable[[], None]
    event: Staged | None

    def drop(self) -> None:
        """Let others pass, if it was not entered."""
        if self.event is not None:
            self.event.drop()


class Run:
    """One execution. It owns its steps, child runs, leases, handlers and streams, and ends through `finish()` alone.

    Runs are made by a `Runtime`. `await run` gives the result of its body; it raises RunFailedError, whose `__cause__`
    is the error, or RunCancelledError.
    """

    def __init__(
        self,
        host: RunHost,
        *,
        name: str = "",
        parent: Run | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        entity: Entity | None = None,
        record: bool = False,
        resume: RunRef | None = None,
        journal: Journal | None = None,
        run_id: str | None = None,
    ) -> None:
        if resume is not None:
            check_transition(resume.run_id, resume.status, RunStatus.RUNNING)
        self.id = resume.run_id if resume else run_id or host.new_id()
        self.name = name
        self.parent = parent
        self.incarnation = resume.incarnation + 1 if resume else 1
        self.host = host
        self.loop = loop
        """The event loop it lives on; None when a plain thread drives it."""
        self.event_source = EventSource("run", self.id, name or None)
        self.speaker: object = entity or self
        """Who its own events come from: the flow, crew or agent it runs, or the run itself."""
        self.holdings = Holdings(self.id, name)
        self.ending = Ending(self.id)
        self.born_in_handler = host.event_bus.is_in_handler()
        """Started by a handler: its end cannot wait for handlers, one of which waits for it."""
        self.is_watched = False
        """Whether anybody waits for the result, so that an error need not be logged as well."""
        self._status = resume.status if resume else RunStatus.CREATED
        self._status_lock = threading.RLock()
        self._waiting: dict[str | None, int] = {}
        self.resumed: Future[None] | None = None
        """While it is held back: done when it goes on."""
        self._end_told = False
        self.is_begun = False
        """Whether it has entered `running`."""
        self.body: Step | None = None
        self._body_result: Any = None
        self._body_over = False
        if parent is not None:
            parent.holdings.add_child(self)
        self.meter: object = None
        """What it may use and has used, if whoever started it keeps account."""
        self.journal: Journal | None = journal or (parent.journal if parent else None)
        """Where the tree is written down, if it is."""
        self.outlet: Outlet = host.event_bus.open_outlet(
            self.id,
            parent=parent.outlet if parent else None,
            loop=loop,
            entity=entity or RunEntity(self.id, name),
            state=RuntimeState() if record else journal.state if journal is not None else None,
            log=journal,
            sequence=resume.sequence if resume else 0,
            name=name,
        )
        here = position.get() if parent is not None else Position()
        self.place = Position(self.id, here.scope, here.subject, here.triggered_by)
        """Where its own events stand: inside its `run` scope once it runs."""

    def __repr__(self) -> str:
        return f"<Run {self.name or self.id} {self._status}>"

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        return self._status

    @property
    def root_id(self) -> str:
        """The id of the run at the top of its tree."""
        return self.outlet.tree.root_run_id or self.id

    @property
    def runtime_state(self) -> RuntimeState | None:
        """What this run's tree has recorded, if it records; gone when the run ends."""
        return self.outlet.state

    @property
    def ref(self) -> RunRef:
        """What must be remembered to resume it."""
        return RunRef(self.id, self._status, self.incarnation, self.outlet.tree.sequence)

    @property
    def is_ending(self) -> bool:
        """Whether its end was requested. A long blocking step asks now and then, and returns."""
        return self.ending.is_requested

    @property
    def end_reason(self) -> str:
        """Why its end was requested; empty while it was not."""
        return self.ending.reason

    @property
    def has_company(self) -> bool:
        """Whether a step other than its body, or a run inside it, is at work."""
        return bool(self.holdings.children) or any(step is not self.body for step in self.holdings.steps)

    def inventory(self) -> list[Holding]:
        """Everything it holds now, the runs inside it included."""
        return self.holdings.inventory()

    # -- events ----------------------------------------------------------------------------------------------------

    def on(self, *event_types: type[BaseEvent], depends_on: DependsOn = None) -> Callable[[F], F]:
        """Decorator: hear events of this run and of the runs inside it, until it ends."""

        def decorate(function: F) -> F:
            self.host.event_bus.on_run(self.outlet, event_types, function, depends_on)
            return function

        return decorate

    def emit(self, event: BaseEvent) -> None:
        """Emit an event of this run: where this code stands if that is inside the run, else at the run's own level."""
        with at(self._here()):
            self.host.event_bus.emit(self, event)
            after = position.get()
        if position.get().run_id == self.id:
            position.set(after)

    def tell(self, event_type: type[BaseEvent], /, **payload: Any) -> BaseEvent | None:
        """Emit an event of our own making where this code stands, if anybody will see it."""
        return self.host.event_bus.announce(self.speaker, event_type, payload)

    def move(self, event_type: type[BaseEvent], /, **payload: Any) -> BaseEvent | None:
        """Tell of something that happens to the run as a whole; what comes later stands where it leads."""
        outside = position.set(self.place)
        try:
            event = self.host.event_bus.announce(self.speaker, event_type, payload)
            self.place = position.get()
        finally:
            position.reset(outside)
        return event

    def _here(self) -> Position:
        here = position.get()
        return here if here.run_id == self.id else self.place

    # -- status ----------------------------------------------------------------------------------------------------

    def _advance(self, target: RunStatus, event_type: type[BaseEvent], **payload: Any) -> None:
        """Write the status, checked against the table and told in the same breath. (`stage_end` writes the last one.)"""
        with self._status_lock:
            source = self._status
            self._check_transition(target)
            self._status = target
            self.move(event_type, from_status=str(source), **payload)

    def _check_transition(self, target: RunStatus) -> None:
        if self._end_told and not self._status.is_terminal:  # nothing is told of it after its end
            raise IllegalTransitionError(f"run {self.id} is ending and cannot become {target}")
        check_transition(self.id, self._status, target)

    def begin(self) -> None:
        """Enter `running`, if it has not. Its driver calls this."""
        with self._status_lock:
            if not self.is_begun:
                self.is_begun = True
                self._advance(RunStatus.RUNNING, RunStartedEvent, name=self.name, incarnation=self.incarnation)

    def stage_end(self, end: End) -> StagedEnd:
        """Stamp the event of the run's end and have it recorded. To enter it is to write the status and to tell of it.

        In between, `finish()` makes both durable in one transaction.
        """
        event_type, payload = _end_event(end)
        with self._status_lock:
            source = self._status
            check_transition(self.id, source, end.status)
            self._end_told = True
            outside = position.set(self.place)
            try:
                event = self.host.event_bus.stage(self.speaker, event_type, {"from_status": str(source), **payload})
                self.place = position.get()
            finally:
                position.reset(outside)

        def enter() -> None:
            with self._status_lock:
                self._status = end.status
            if event is not None:
                event.tell()

        return StagedEnd(enter, event)

    def pause(self, reason: str = "") -> None:
        """Let steps in flight finish and start no others until `resume()`."""
        with self._status_lock:
            self._check_transition(RunStatus.PAUSED)
            self.resumed = Future()  # before it is told of: a handler may resume at once
            self._advance(RunStatus.PAUSED, RunPausedEvent, reason=reason)

    def resume(self, reason: str = "") -> None:
        """Go on after `pause()`."""
        with self._status_lock:
            self._check_transition(RunStatus.RUNNING)
            if self._status is not RunStatus.PAUSED:
                raise IllegalTransitionError(
                    f"run {self.id} is {self._status} and cannot be resumed; only a paused run can"
                )
            gate, self.resumed = self.resumed, None
            self._advance(RunStatus.RUNNING, RunResumedEvent, reason=reason)
            self._note_waiting(0, reason)
        if gate is not None:
            gate.set_result(None)

    @property
    def is_held_back(self) -> bool:
        """Whether a step would wait at the gate."""
        return self.resumed is not None

    async def gate(self) -> None:
        """Where a step waits before it begins, while the run is paused."""
        while (resumed := self.resumed) is not None:
            await done_here(resumed)

    def gate_in_thread(self) -> None:
        """`gate` for blocking code; it waits no longer than the run is to go on."""
        while (resumed := self.resumed) is not None and not self.is_ending:
            waits: list[Future[Any]] = [resumed, self.ending.requested]
            concurrent.futures.wait(waits, return_when=concurrent.futures.FIRST_COMPLETED)

    async def room(self) -> None:
        """Wait while whoever reads the run's stream, or that of a run around it, is behind. Between steps, and after chunks."""
        await self.host.event_bus.await_room(self.outlet)

    def room_in_thread(self) -> None:
        """`room` for blocking code; it waits no longer than the run is to go on."""
        while not self.is_ending and (room := self.outlet.crowding()) is not None:
            waits: list[Future[Any]] = [room, self.ending.requested]
            concurrent.futures.wait(waits, return_when=concurrent.futures.FIRST_COMPLETED)

    @asynccontextmanager
    async def waiting(self, reason: str = "") -> AsyncIterator[None]:
        """Say that this step waits for something from outside. The run is `waiting` while all of its steps do."""
        self._note_waiting(+1, reason)
        try:
            yield
        finally:
            self._note_waiting(-1, reason)

    def _note_waiting(self, change: int, reason: str = "") -> None:
        """Bring the status in line with what the steps do. A step may wait for several things at once."""
        with self._status_lock:
            if change:
                waiter = position.get().step_id
                self._waiting[waiter] = self._waiting.get(waiter, 0) + change
                if not self._waiting[waiter]:
                    del self._waiting[waiter]
            if self.ending.entered:
                return
            steps = self.holdings.steps
            all_wait = bool(steps) and all(step.id in self._waiting for step in steps)
            if all_wait and self._status is RunStatus.RUNNING:
                self._advance(RunStatus.WAITING, RunWaitingEvent, reason=reason)
            elif not all_wait and self._status is RunStatus.WAITING:
                self._advance(RunStatus.RUNNING, RunResumedEvent, reason=reason)

    # -- work ------------------------------------------------------------------------------------------------------

    def spawn(self, call: Callable[..., Any], *args: Any, name: str = "") -> Step:
        """Start `call(*args)` as a step of this run: an async function on the loop, any other in a thread."""
        return self._start(Step(self, name or getattr(call, "__name__", "step"), call, args))

    def spawn_silently(self, call: Callable[..., Any], *args: Any, name: str, step_id: str, context: Context) -> Step:
        """Start a step that somebody else tells of, inside a context made for it."""
        step = GraphStep(self, name, call, args, step_id)
        self.holdings.add_step(step)
        step.start(context)
        return step

    def start_body(self, body: Step) -> None:
        """Start the body, in a copy of this context. Its driver calls this, once."""
        self.body = body
        self.holdings.add_step(body)
        body.start(copy_context())

    def _start(self, step: Step) -> Step:
        self.holdings.add_step(step)
        self._note_waiting(0)
        context = copy_context()
        context.run(position.set, self._here())
        context.run(in_handler.set, False)  # a step is no handler, also when a handler starts it
        step.start(context)
        return step

    def step_ended(self, step: Step, result: Any, error: BaseException | None) -> None:
        """A step's last words: a failure fails the run; after the last one it completes."""
        if step is self.body:  # before it is removed: a child that ends just now must see one or the other
            self._body_result, self._body_over = result, True
        self.holdings.remove_step(step)
        if isinstance(error, RunEndedError) and self.holdings.takes_no_work:
            return  # its own end, which somebody asks for, though perhaps only in a moment
        if error is None or not step.fails_run:
            self._note_waiting(0)
        elif isinstance(error, Exception):
            self.request_end(End(RunStatus.FAILED, f"{type(error).__name__}: {error}", error=error))
        else:
            self.request_end(End(RunStatus.CANCELLED, f"step {step.name} was cancelled", departed=True))
        self._complete_if_quiet()

    def child_ended(self, child: Run) -> None:
        """A child run's last words."""
        self.holdings.remove_child(child)
        self._complete_if_quiet()

    def _complete_if_quiet(self) -> None:
        if self._body_over and not self.holdings.at_work:
            self.request_end(End(RunStatus.COMPLETED, result=self._body_result))

    # -- holding ---------------------------------------------------------------------------------------------------

    def own(self, lease: Lease) -> None:
        """Take over a lease: `finish()` releases it on every path. Raises RunEndedError when it is too late for that."""
        self.holdings.add_lease(lease)
        with at(self._here()):
            self.tell(ResourceAcquiredEvent, kind=lease.kind, resource=lease.name)

    def hold(self, kind: str, name: str, release: Callable[[], object]) -> Lease:
        """Own something that `release()`, sync or async, gives back."""
        lease = CallbackLease(kind, name, release, self.host.threads)
        self.own(lease)
        return lease

    async def release(self, lease: Lease) -> None:
        """Give a lease back before the run ends. If that fails the run keeps it, and tries again when it ends."""
        await lease.release()
        self.holdings.remove_lease(lease)
        with at(replace(self._here(), step_id=None)):  # of the run, also if the step that held it was given up
            self.tell(ResourceReleasedEvent, kind=lease.kind, resource=lease.name)

    def hand_over(self) -> tuple[Lease, ...]:
        """Its leases, newest first, which are not its own from now on: whoever takes them gives them back."""
        leases = tuple(self.holdings.leases)
        for lease in leases:
            self.holdings.remove_lease(lease)
        return leases

    def attach(self, channel: Channel) -> None:
        """Own a stream: it is closed when the run ends."""
        self.holdings.add_channel(channel)

    # -- ending ----------------------------------------------------------------------------------------------------

    def request_end(self, end: End) -> bool:
        """Ask for the end of the run; its supervisor carries it out. Says whether this request was the first."""
        self.holdings.close_to("work")
        return self.ending.request(end)

    def cancel(self, reason: str = "cancelled") -> bool:
        """Ask the run to end as cancelled, with everything it started. From any thread; returns at once."""
        return self.request_end(End(RunStatus.CANCELLED, reason))

    def depart(self, reason: str) -> bool:
        """Ask the run to end because whoever ran it leaves: cancelled here, in its journal still to be taken up again."""
        return self.request_end(End(RunStatus.CANCELLED, reason, departed=True))

    async def acancel(self, reason: str = "cancelled") -> None:
        """`cancel`, and wait until nothing of the run is left."""
        self.cancel(reason)
        await self.ended()

    def drop(self, end: End, problem: BaseException | None = None) -> None:
        """Let go of all that is memory, and wake whoever waits for the run. The last thing a run does."""
        self.holdings.drop()
        self.body = self._body_result = self.ending.on_request = None
        self.host.event_bus.close_outlet(self.outlet)
        self.host.forget(self)
        if self.parent is not None:
            self.parent.child_ended(self)
        self.ending.problem = problem
        self.ending.close(end)

    # -- waiting for it --------------------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        return self._unwrap(await self.ended())

    async def ended(self) -> End:
        """Wait until nothing of the run is left, and say how it ended; a failed or cancelled one raises nothing here.

        Cancelling the wait leaves the run alone. Raises WrongLoopError in a loop other than the run's.
        """
        self.is_watched = True
        ending = self.ending
        if ending.end is None:
            if self.loop is not None and asyncio.get_running_loop() is not self.loop:
                raise WrongLoopError(
                    f"run {self.name or self.id} lives on another event loop; await it there, or call run.result() in a thread"
                )
            here, wake = signal_here()
            ending.wake_when_done(wake)
            await here
        assert ending.end is not None
        return ending.end

    def result(self, timeout: float | None = None) -> Any:
        """Wait in a thread, not in the run's own loop, and return what its body returned; raises as `await run` does."""
        self.is_watched = True
        if self.ending.end is None and self.loop is not None and asyncio._get_running_loop() is self.loop:
            raise SyncInAsyncError("run.result() would block the loop the run lives on; use `await run`")
        if self.ending.end is None and self._ends_after_handler():
            raise SyncInAsyncError(
                "run.result() in a handler of the run's own events would wait for itself; a run_completed event has the result"
            )
        return self._unwrap(self.ending.done.result(timeout))

    def _ends_after_handler(self) -> bool:
        """Whether this is a handler that runs inline, until whose return the run cannot end."""
        return not self.born_in_handler and self.outlet.tree.drainer == threading.get_ident()

    def _unwrap(self, end: End) -> Any:
        if self.ending.problem is not None:
            raise self.ending.problem
        if end.status in (RunStatus.WAITING, RunStatus.PAUSED) and end.error is not None:
            raise end.error
        if end.status not in (RunStatus.COMPLETED, RunStatus.WAITING, RunStatus.PAUSED):
            raise_end(self.id, self.name, end)
        return end.result


def _end_event(end: End) -> tuple[type[BaseEvent], dict[str, Any]]:
    """The event that tells of an end, and its payload."""
    if end.status is RunStatus.COMPLETED:
        return RunCompletedEvent, {"reason": end.reason, "result": end.result}
    if end.status is RunStatus.CANCELLED:
        return RunCancelledEvent, {"reason": end.reason}
    if end.status is RunStatus.WAITING:
        return RunWaitingEvent, {"reason": end.reason}
    if end.status is RunStatus.PAUSED:
        return RunPausedEvent, {"reason": end.reason}
    error = end.error
    told = (
        {"error": str(error), "error_type": type(error).__name__} if error else {"error": end.reason, "error_type": ""}
    )
    return RunFailedEvent, {"reason": end.reason, **told}
