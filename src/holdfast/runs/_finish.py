"""The one door: how every run ends, whatever ended it.

Six parts in a fixed order, each bounded in time, none skipped because an earlier one failed. The caller may be cancelled
meanwhile, as `asyncio.run` does to every task when it leaves: the parts go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

from holdfast.clock import Clock
from holdfast.context import at
from holdfast.errors import FlushTimeoutError, RunUnrecordedError
from holdfast.events.families.resource import ResourceReleaseFailedEvent
from holdfast.logs import get_logger
from holdfast.ports import Lease
from holdfast.runs._end import End
from holdfast.runs._holdings import Holding
from holdfast.runs._run import Run
from holdfast.runs._status import RunStatus

log = get_logger("runs")


async def finish(run: Run) -> None:
    """End a run. Only its supervisor calls this, once; others ask with `run.request_end()`."""
    end = run.ending.enter_door()
    await _stop_work(run, end)
    await _release_leases(run)
    problem = await _commit(run, end)
    if problem is None:
        run.end_as(end)
        await _drain_handlers(run)
    await _close_channels(run, end)
    _tell_log(run, end)
    run.drop(end, problem)


def finish_in_thread(run: Run) -> None:
    """`finish` for a run that a plain thread drives: without a loop when there is nothing to wait for."""
    tree = run.outlet.tree
    if not run.holdings.is_empty or run.host.journal is not None or tree.lanes or tree.queue:
        run.host.loop_thread.submit(finish(run)).result()
        return
    end = run.ending.enter_door()
    run.holdings.close_to("work", "leases")
    run.end_as(end)
    if tree.lanes or tree.queue:
        run.host.loop_thread.submit(_drain_handlers(run)).result()
    _tell_log(run, end)
    run.drop(end)


async def _stop_work(run: Run, end: End) -> None:
    """Part 1: cancel and await steps and child runs; give up what does not stop in time."""
    run.holdings.close_to("work")
    steps, children = run.holdings.steps, run.holdings.children
    for child in children:
        child.cancel(end.reason or f"its parent run {end.status}")
    for step in steps:
        step.cancel()
    waits: list[Awaitable[Any]] = [asyncio.wrap_future(step.over) for step in steps]
    waits += [asyncio.wrap_future(child.ending.done) for child in children]
    await settle(waits, run.host.clock, run.host.grace)
    for step in steps:
        if not step.over.done():
            log.warning("step %s of run %s did not stop in %s s and was given up", step.name, run.id, run.host.grace)
            with at(run.place):
                step.disown()
    for child in children:
        if not child.ending.entered:  # the thread that drives it is stuck: end it from here
            await finish(child)


async def _release_leases(run: Run) -> None:
    """Part 2: give everything back, newest first. What cannot be given back is listed by the runtime."""
    run.holdings.close_to("leases")
    for lease in run.holdings.leases:
        problem = await _release(run, lease)
        if problem is None:
            continue
        log.error("run %s could not release %s %s: %s", run.id, lease.kind, lease.name, problem)
        run.host.keep(Holding(lease.kind, lease.name, run.id))
        with at(run.place):
            run.tell(
                ResourceReleaseFailedEvent,
                kind=lease.kind,
                resource=lease.name,
                error=str(problem),
                error_type=type(problem).__name__,
            )


async def _release(run: Run, lease: Lease) -> BaseException | None:
    """Release one lease, once more if a shutting-down loop cancelled the first try. Returns what went wrong."""
    for _ in range(2):
        with at(run.place):
            task = asyncio.ensure_future(run.release(lease))
        await settle([task], run.host.clock, run.host.grace)
        if not task.done():
            task.cancel()
            return TimeoutError(f"its release took longer than {run.host.grace} seconds")
        if not task.cancelled():
            return task.exception()
    return RuntimeError("its release was cancelled twice")


async def _commit(run: Run, end: End) -> BaseException | None:
    """Part 3: make the end durable. If that fails nothing is said to have ended, and recovery owns the run."""
    journal = run.host.journal
    if journal is None:
        return None
    task = asyncio.ensure_future(journal.commit_end(run.id, run.incarnation, end.status, end.reason))
    await settle([task], run.host.clock, run.host.grace)
    if task.done() and not task.cancelled() and task.exception() is None:
        return None
    cause = task.exception() if task.done() and not task.cancelled() else TimeoutError("the journal did not answer")
    problem = RunUnrecordedError(
        f"run {run.id} ended as {end.status}, but the journal could not be written ({cause}); "
        f"its stored status is unchanged and recovery will take it up"
    )
    problem.__cause__ = cause
    return problem


async def _drain_handlers(run: Run) -> None:
    """Part 4: let the handlers finish with the run's last events."""
    task = asyncio.ensure_future(run.host.event_bus.flush_run(run.outlet, run.host.grace))
    await settle([task], run.host.clock, run.host.grace)
    if not task.done():
        task.cancel()
    elif not task.cancelled() and isinstance(error := task.exception(), FlushTimeoutError):
        log.warning("handlers of run %s: %s", run.id, error)


async def _close_channels(run: Run, end: End) -> None:
    """Part 5: send the last frames and close the streams."""
    for channel in run.holdings.channels:
        task = asyncio.ensure_future(channel.close(end.status))
        await settle([task], run.host.clock, run.host.grace)
        if not task.done():
            task.cancel()
        elif not task.cancelled() and (error := task.exception()) is not None:
            log.error("a stream of run %s could not be closed", run.id, exc_info=error)


def _tell_log(run: Run, end: End) -> None:
    if end.status is RunStatus.FAILED and not run.is_watched:
        log.error("run %s (%s) failed and nobody waits for it", run.id, run.name, exc_info=end.error)


async def settle(waits: Iterable[Awaitable[Any]], clock: Clock, seconds: float) -> None:
    """Wait until all are done or the time is up. Cancelling the waiter does not cut it short; results are not looked at."""
    pending = {asyncio.ensure_future(w) for w in waits}
    if not pending:
        return
    deadline = clock.monotonic() + seconds
    timer = asyncio.ensure_future(clock.sleep(seconds))
    while pending and not (timer.done() and not timer.cancelled()):
        if timer.cancelled():
            timer = asyncio.ensure_future(clock.sleep(max(0.0, deadline - clock.monotonic())))
        try:
            done, _ = await asyncio.wait({*pending, timer}, return_when=asyncio.FIRST_COMPLETED)
            pending -= done
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
    timer.cancel()
