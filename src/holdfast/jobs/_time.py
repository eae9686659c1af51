"""How long a step may take: its `timeout`, and the minutes of its `limits`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from msgspec.structs import replace

from holdfast.errors import AnswerPendingError, JobStepError
from holdfast.flowfiles import StepSpec
from holdfast.jobs._calls import Call
from holdfast.jobs._scope import Wait

_SEE_TO_IT = frozenset({"external", "poll"})
"""Kinds whose steps do nothing while they wait, and look at the time whenever they are woken."""


async def bounded(call: Call, work: Awaitable[Any]) -> Any:
    """The result of `work`. Once the step's time is up it is cancelled and awaited: a failure of category `timeout`, or `limit`.

    Time that a flow inside the step waits for someone counts too, over however many processes.
    """
    deadline = call.deadline_us
    if deadline is None or call.step.kind in _SEE_TO_IT:
        return await work
    started = call.execution.since_us or call.now_us
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(call.clock.sleep(max(0.0, (deadline - call.now_us) / 1e6)))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise overdue(call.step, "it took longer than")
        return task.result()
    except AnswerPendingError as pending:
        wait: Any = pending.requests[0]
        raise AnswerPendingError(requests=(_no_longer(wait, started, deadline),)) from None
    finally:
        timer.cancel()
        await stopped(task)


def _no_longer(wait: Wait, started_us: int, deadline_us: int) -> Wait:
    until = deadline_us if wait.until_us is None else min(wait.until_us, deadline_us)
    return replace(wait, until_us=until, since_us=started_us)


def overdue(step: StepSpec, what: str) -> JobStepError:
    """What to raise when a step's time is up; `what` it did in that time, as in "it took longer than"."""
    minutes, seconds = step.limits.max_duration_minutes, step.timeout_seconds
    if minutes is not None and (seconds is None or minutes * 60 < seconds):
        said = f"its limit of {minutes:g} minutes is reached (max_duration_minutes)"
        return JobStepError(f"step {step.name}: {said}", category="limit")
    return JobStepError(f"step {step.name}: {what} {seconds:g} s", category="timeout")


async def stopped(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait for it, so that nothing of it goes on; its outcome counts no more."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
