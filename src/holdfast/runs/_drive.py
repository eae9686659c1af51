"""Who drives a run: its own body as far as it goes, a supervisor task on a loop, or the thread that called."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from holdfast.context import Position, at, position
from holdfast.errors import AlreadyFinishedError, RunEndedError
from holdfast.events._mailbox import in_handler
from holdfast.runs._end import End
from holdfast.runs._finish import finish, finish_at_once, finish_in_thread, see_off, see_off_at_once
from holdfast.runs._run import Run
from holdfast.runs._status import RunStatus
from holdfast.runs._steps import Body
from holdfast.threads import done_here

Duty = Callable[[Run], Coroutine[Any, Any, None]]
"""What a supervisor is called for."""


def drive(run: Run, body: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Let the body of a run on the running loop drive it. For whoever waits for its end, however often cancelled."""
    run.is_watched = True
    driver = Driver(run, body, args)
    run.ending.on_request = driver.call_supervisor
    try:
        run.start_body(driver)
    except RunEndedError:  # somebody asks for its end before it began
        if run.is_ending:  # else he calls the supervisor himself, in a moment
            driver.call_supervisor()


class Driver(Body):
    """A body that begins its run and, if there is nothing to wait for then, ends it: in its own thread, or its task.

    So a run that goes well takes two turns of its loop, and a supervisor only if it holds something, is written down, is heard
    by handlers that are awaited, or if somebody else asks for its end.
    """

    def __init__(self, run: Run, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__(run, call, args)
        self._surroundings = copy_context()
        self._end: End | None = None

    def _begin_in_thread(self, context: Context) -> None:
        self._submit(context, context, self._drive)

    def _drive(self) -> Any:
        """All of the run that needs no loop."""
        self._stand()
        if self.run.is_held_back:
            self._await_gate()
        result = self._call(*self._args)
        self._end = finish_at_once(self.run, result)
        return result

    def _stand(self) -> None:
        """Begin the run. Raises CancelledError if it is to end before anything was done."""
        run = self.run
        in_handler.set(False)  # also when a handler started it
        if not run.is_ending:
            run.begin()
        if run.is_ending:
            raise asyncio.CancelledError
        place = run.place
        position.set(Position(run.id, place.scope, place.subject, place.triggered_by, self.id))

    def _await_gate(self) -> None:
        self.run.gate_in_thread()
        if self.run.is_ending:
            raise asyncio.CancelledError

    def _notice(self, thread: Future[Any]) -> None:
        if self._end is None:
            super()._notice(thread)
        else:  # only now: the thread is free for whoever hears of the end
            self._thread = None  # which refers to this step: they would go only with the garbage
            self._see_off(self._end)

    def _complete(self, result: Any) -> None:
        end = finish_at_once(self.run, result)
        if end is None:
            super()._complete(result)
        else:
            self._see_off(end)

    def _see_off(self, end: End) -> None:
        if see_off_at_once(self.run, end):
            return
        if self._loop.is_running():
            self._on_loop(_leave)
        else:  # the loop was left while the body was in its thread
            self.run.host.loop_thread.submit(_leave(self.run))

    def call_supervisor(self) -> None:
        """Have the run ended as was asked. From any thread."""
        if not self.run.ending.entered:
            self._on_loop(_end_as_asked)

    def _on_loop(self, duty: Duty) -> None:
        if asyncio._get_running_loop() is self._loop:
            _start_duty(self.run, duty, self._surroundings)
        else:
            with suppress(RuntimeError):  # the loop is closed: the runtime ends what is left when it closes
                self._loop.call_soon_threadsafe(_start_duty, self.run, duty, self._surroundings)


def _start_duty(run: Run, duty: Duty, context: Context) -> None:
    """A supervisor for what is left to do of a run. A loop that shuts down may cancel it before its first turn: then, another."""

    def again(task: asyncio.Task[None]) -> None:
        if task.cancelled():
            _start_duty(run, duty, context)

    task = asyncio.get_running_loop().create_task(duty(run), name=_task_name(run), context=context)
    task.add_done_callback(again)
    run.host.look_after(task)


async def _end_as_asked(run: Run) -> None:
    in_handler.set(False)  # also when a handler started it
    if not (run.ending.entered or _is_stillborn(run)):
        run.begin()
    position.set(run.place)
    with suppress(AlreadyFinishedError):  # its loop was stuck for so long that its parent ended it
        await finish(run)


async def _leave(run: Run) -> None:
    in_handler.set(False)
    position.set(run.place)
    assert run.ending.asked is not None
    await see_off(run, run.ending.asked)


def supervise(run: Run, body: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Start a task on the running loop that drives a run, so that the loop's shutdown ends it though nobody waits for it."""
    task = asyncio.create_task(_supervise(run, body, args), name=_task_name(run))
    task.add_done_callback(lambda task: _end_unsupervised(run) if task.cancelled() else None)
    run.host.look_after(task)


def _task_name(run: Run) -> str:
    return f"holdfast-run-{run.name or run.id}"


async def _supervise(run: Run, body: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Begin a run, wait until its end is requested, and end it."""
    in_handler.set(False)  # also when a handler started it
    if not _is_stillborn(run):
        run.begin()
        position.set(run.place)
    if not run.is_ending:
        with suppress(RunEndedError):  # somebody asks for its end at this moment
            run.start_body(Body(run, body, args))
        await _until_requested(run)
    with suppress(AlreadyFinishedError):  # its loop was stuck for so long that its parent ended it
        await finish(run)


def _is_stillborn(run: Run) -> bool:
    """Whether a new run was cancelled before it began: the one end that needs no beginning."""
    asked = run.ending.asked
    return asked is not None and asked.status is RunStatus.CANCELLED and run.status is RunStatus.CREATED


async def _until_requested(run: Run) -> None:
    """Wait for a request. Cancelling the supervisor is one: its loop is shutting down."""
    while not run.is_ending:
        try:
            await done_here(run.ending.requested)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            run.depart("its event loop is shutting down")


def drive_in_thread(run: Run, body: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Run a blocking body in the calling thread, then end the run. Returns or raises what `run.result()` does."""
    run.is_watched = True
    run.begin()
    try:
        with at(run.place):
            result = body(run, *args)
        _await_the_rest(run)
    except Exception as error:
        run.request_end(End(RunStatus.FAILED, f"{type(error).__name__}: {error}", error=error))
        _finish_unless_given_up(run)
    except BaseException as error:
        run.request_end(End(RunStatus.CANCELLED, repr(error), error=error, departed=True))
        _finish_unless_given_up(run)
        raise
    else:
        run.request_end(End(RunStatus.COMPLETED, result=result))
        _finish_unless_given_up(run)
    return run.result()


def _finish_unless_given_up(run: Run) -> None:
    with suppress(AlreadyFinishedError):  # this thread was stuck for so long that its run was ended without it
        finish_in_thread(run)


def _await_the_rest(run: Run) -> None:
    """Let steps and child runs that the body started finish, unless the end is requested."""
    while run.holdings.at_work and not run.is_ending:
        left: list[Future[Any]] = [run.ending.requested, *(step.over for step in run.holdings.steps)]
        left += [child.ending.done for child in run.holdings.children]
        concurrent.futures.wait(left, return_when=concurrent.futures.FIRST_COMPLETED)


def _end_unsupervised(run: Run) -> None:
    """A supervisor that is cancelled before its first turn never runs: its loop is leaving, so end the run here."""
    if not run.ending.entered:
        run.depart("its event loop is shutting down")
        finish_in_thread(run)
