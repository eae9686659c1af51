"""Who drives a run: a supervisor task on a loop, or the thread that called."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from holdfast.context import at, position
from holdfast.errors import AlreadyFinishedError
from holdfast.events._mailbox import in_handler
from holdfast.runs._end import End
from holdfast.runs._finish import finish, finish_in_thread
from holdfast.runs._run import Run
from holdfast.runs._status import RunStatus
from holdfast.threads import done_here


async def supervise(run: Run, body: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Begin a run, wait until its end is requested, and end it."""
    in_handler.set(False)  # also when a handler started it
    if not _is_stillborn(run):
        run.begin()
        position.set(run.place)
    if not run.is_ending:
        run.spawn_body(body, args)
        await _until_requested(run)
    with suppress(AlreadyFinishedError):  # its loop was stuck for so long that its parent ended it
        await finish(run)


def _is_stillborn(run: Run) -> bool:
    """Whether a new run was cancelled before it began: the one end that needs no beginning."""
    requested = run.ending.requested
    return run.status is RunStatus.CREATED and requested.done() and requested.result().status is RunStatus.CANCELLED


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


def start_supervisor(run: Run, body: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Task[None]:
    """The run's supervisor, as a task on the running loop. The runtime keeps it until it is done."""
    task = asyncio.create_task(supervise(run, body, args), name=f"holdfast-run-{run.name or run.id}")
    task.add_done_callback(lambda task: _end_unsupervised(run) if task.cancelled() else None)
    return task


def _end_unsupervised(run: Run) -> None:
    """A supervisor that is cancelled before its first turn never runs: its loop is leaving, so end the run here."""
    if not run.ending.entered:
        run.depart("its event loop is shutting down")
        finish_in_thread(run)
