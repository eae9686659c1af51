"""Patience with a store that cannot be reached."""

from __future__ import annotations

import asyncio

from holdfast.clock import Clock

AWAY_SECONDS = 1.0
"""How long to leave a store alone that cannot be reached, and a run that another process still holds."""


async def leave_alone(clock: Clock) -> None:
    """Leave a store alone for a moment, before it is tried again.

    A store that fails in the moment its caller is cancelled says that it failed. Here the caller learns of the other thing:
    raises CancelledError if its task is to end.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    await clock.sleep(AWAY_SECONDS)
