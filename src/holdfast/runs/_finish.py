"""The one door: how every run ends, whatever ended it.

Six parts in a fixed order, each bounded in time, none skipped because an earlier one failed. The caller may be cancelled
meanwhile, as `asyncio.run` does to every task when it leaves: the parts go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.clock import Clock
from holdfast.context import at
from holdfast.errors import AlreadyFinishedError, RunUnrecordedError
from holdfast.events.families.resource import ResourceReleaseFailedEvent
from holdfast.logs import get_logger
from holdfast.runs._end import End
from holdfast.runs._holdings import Holding
from holdfast.runs._run import Run
from holdfast.runs._status import RunStatus
from holdfast.threads import done_here

log = get_logger("runs")

MOMENT = 0.02
"""Seconds within which most things end that are asked to."""


async def finish(run: Run) -> None:
    """End a run. Only its supervisor calls this, once; others ask with `run.request_end()`."""
    end = run.ending.enter_door()
    await _stop_work(run, end)
    await _release_leases(run)
    staged = run.stage_end(end)
    try:
        problem = await _commit(run, end)
        if problem is None:
            staged.enter()
    finally:
        staged.drop()
    await see_off(run, end, problem)


async def see_off(run: Run, end: End, problem: BaseException | None = None) -> None:
    """What is left once the end was told of."""
    await _drain_handlers(run)
    await _close_channels(run, end)
    _tell_log(run, end)
    run.drop(end, problem)


def finish_in_thread(run: Run) -> None:
    """`finish` for a run that a plain thread drives: without a loop when there is nothing to wait for."""
    if not is_quiet(run):
        run.host.loop_thread.submit(finish(run)).result()
        return
    end = run.ending.enter_door()
    run.stage_end(end).enter()
    if not see_off_at_once(run, end):
        run.host.loop_thread.submit(see_off(run, end)).result()


def finish_at_once(run: Run, result: Any) -> End | None:
    """`finish` for a run whose body has returned, up to where it is told of, if nothing has to be awaited for that.

    Returns the end; `see_off` is still to be done. None if it must go the long way: somebody else asked for its end, or it
    holds something.
    """
    end = End(RunStatus.COMPLETED, result=result)
    if not is_quiet(run) or not run.ending.claim(end):
        return None
    try:
        run.stage_end(end).enter()
    except BaseException as error:  # of a handler that ends the program
        run.drop(end, error)
        raise
    return end


def is_quiet(run: Run) -> bool:
    """Whether parts 1 to 3 have nothing to do. Then the run takes nothing in any more."""
    return run.journal is None and run.holdings.close_if_quiet(run.body)


def see_off_at_once(run: Run, end: End) -> bool:
    """`see_off` of a run without streams, if no handler is at work. Says whether that was so."""
    if not _is_settled(run):
        return False
    _tell_log(run, end)
    run.drop(end)
    return True


def _is_settled(run: Run) -> bool:
    return run.born_in_handler or run.host.event_bus.is_settled(run.outlet)


async def _stop_work(run: Run, end: End) -> None:
    """Part 1: cancel and await steps and child runs; give up what does not stop in time."""
    run.holdings.close_to("work")
    steps, children = run.holdings.steps, run.holdings.children
    for child in children:
        child.cancel(end.reason or f"its parent run {end.status}")
    for step in steps:
        step.cancel()
    waits: list[Awaitable[Any]] = [done_here(step.over) for step in steps]
    waits += [done_here(child.ending.done) for child in children]
    await settle(waits, run.host.clock, run.host.grace)
    for step in steps:
        if not step.over.done():
            log.warning("step %s of run %s did not stop in %s s and was given up", step.name, run.id, run.host.grace)
            with at(run.place):
                step.disown()
    for child in children:
        if not child.ending.entered:  # the thread that drives it is stuck: end it from here
            with suppress(AlreadyFinishedError):  # it came to its door by itself just now
                await finish(child)


async def _release_leases(run: Run) -> None:
    """Part 2: give everything back, newest first. What cannot be given back is listed by the runtime."""
    run.holdings.close_to("leases")
    for lease in run.holdings.leases:
        problem = await _carry_out(run, partial(run.release, lease))
        if problem is None:
            continue
        log.error("run %s could not release %s %s: %s", run.id, lease.kind, lease.name, problem)
        run.host.keep(Holding(lease.kind, lease.name, run.id))
        told = {"error": str(problem), "error_type": type(problem).__name__}
        with at(run.place):
            run.tell(ResourceReleaseFailedEvent, kind=lease.kind, resource=lease.name, **told)


async def _commit(run: Run, end: End) -> RunUnrecordedError | None:
    """Part 3: make the end durable. If that fails nothing is said to have ended, and recovery owns the run."""
    if run.journal is None:
        return None
    cause = await _carry_out(run, partial(run.journal.commit_end, run.id, end.stored_status))
    if cause is None:
        return None
    problem = RunUnrecordedError(
        f"run {run.id} ended as {end.status}, but the journal could not be written ({cause}); "
        f"its stored status is unchanged and recovery will take it up"
    )
    problem.__cause__ = cause
    return problem


async def _drain_handlers(run: Run) -> None:
    """Part 4: let the handlers finish with the run's last events."""
    if _is_settled(run):
        return
    problem = await _carry_out(run, partial(run.host.event_bus.flush_run, run.outlet, None))
    if problem is not None:
        log.warning("handlers of run %s were still at work when it ended: %s", run.id, problem)


async def _close_channels(run: Run, end: End) -> None:
    """Part 5: send the last frames and close the streams."""
    for channel in run.holdings.channels:
        problem = await _carry_out(run, partial(channel.close, end.status))
        if problem is not None:
            log.error("a stream of run %s could not be closed", run.id, exc_info=problem)


async def _carry_out(run: Run, call: Callable[[], Coroutine[Any, Any, object]]) -> BaseException | None:
    """Do one thing within the grace, once more if a shutting-down loop cut off the first try. Returns what went wrong."""
    grace = run.host.grace
    for _ in range(2):
        with at(run.place):
            task = asyncio.ensure_future(call())
        await settle([task], run.host.clock, grace)
        if not task.done():
            task.cancel()
            return TimeoutError(f"it did not answer: it took longer than {grace} seconds")
        if not task.cancelled():
            return task.exception()
    return RuntimeError("it was cancelled twice")


def _tell_log(run: Run, end: End) -> None:
    if end.status is RunStatus.FAILED and not run.is_watched:
        log.error("run %s (%s) failed and nobody waits for it", run.id, run.name, exc_info=end.error)


async def settle(waits: Iterable[Awaitable[Any]], clock: Clock, seconds: float) -> None:
    """Wait until all are done or the time is up. Cancelling the waiter does not cut it short; results are not looked at."""
    pending = {asyncio.ensure_future(w) for w in waits}
    if not pending:
        return
    deadline = clock.monotonic() + seconds
    timer: asyncio.Task[None] | None = None
    while pending and not (timer is not None and timer.done() and not timer.cancelled()):
        try:
            if timer is None:  # most are done before it is worth its while to set an alarm
                done, _ = await asyncio.wait(pending, timeout=MOMENT)
            else:
                done, _ = await asyncio.wait({*pending, timer}, return_when=asyncio.FIRST_COMPLETED)
            pending -= done
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        if pending and (timer is None or timer.cancelled()):
            timer = asyncio.ensure_future(clock.sleep(max(0.0, deadline - clock.monotonic())))
    if timer is not None:
        timer.cancel()
