"""`executor: poll`: runs a command now and then until it has something to say. In between nothing of it runs."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast.flowfiles import Poll
from holdfast.jobs._calls import Call
from holdfast.jobs._time import overdue, stopped
from holdfast.jobs.executors._process import Ran, run_command, why
from holdfast.logs import get_logger

log = get_logger("jobs")
CHECK_SECONDS = 60.0
"""How long one check may take."""


async def run_poll(call: Call) -> Any:
    """The object that the command printed. Until then it waits: for the time of the next check."""
    executor = call.executor
    assert isinstance(executor, Poll)
    due, deadline = call.execution.until_us, call.deadline_us
    if due is not None and due > call.now_us and (deadline is None or deadline > call.now_us):
        raise call.wait_for(until_us=due)  # taken up again before its time
    found = await _check(call, executor, deadline)
    if found is not None:
        return found
    if deadline is not None and deadline <= call.now_us:
        raise overdue(call.step, "it was not done in")
    later = call.now_us + round(executor.interval_seconds * 1e6)
    raise call.wait_for(until_us=later if deadline is None else min(later, deadline))


async def _check(call: Call, executor: Poll, deadline: int | None) -> dict[str, Any] | None:
    """What one check found; None for not yet. One that hangs is ended, and tried again when the next is due."""
    left = CHECK_SECONDS if deadline is None else min(CHECK_SECONDS, max(0.1, (deadline - call.now_us) / 1e6))
    checking = asyncio.ensure_future(run_command(call, ("/bin/sh", "-c", executor.check_command)))
    timer = asyncio.ensure_future(call.clock.sleep(left))
    try:
        await asyncio.wait({checking, timer}, return_when=asyncio.FIRST_COMPLETED)
        return _found(call, checking.result()) if checking.done() else None
    finally:
        timer.cancel()
        await stopped(checking)


def _found(call: Call, ran: Ran) -> dict[str, Any] | None:
    """What a check found: an object when it is done, None for not yet."""
    if ran.code != 0:
        log.info("the check of step %s is tried again: %s", call.step.name, why(ran))
        return None
    try:
        found = msgspec.json.decode(ran.stdout) if ran.stdout.strip() else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
