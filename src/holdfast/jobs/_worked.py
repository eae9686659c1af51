"""How long a job has been at work, over all the processes that had it. While it waits or is paused it is not."""

from __future__ import annotations

from holdfast.events.families.checkpoint import CheckpointRestoredEvent
from holdfast.events.families.job import JobStartedEvent, JobWaitingEvent
from holdfast.ports import JournalStore

_BEGAN = (JobStartedEvent.type, CheckpointRestoredEvent.type)


async def worked_us(store: JournalStore, root_run_id: str, branch: str, run_id: str) -> int:
    """What the journal of a tree says of one of its runs. One whose process ended without a word worked until its last line."""
    total, began, last = 0, None, 0
    async for row in store.read(root_run_id, branch=branch):
        if row.run_id == run_id and row.type in _BEGAN:
            total += last - began if began is not None else 0
            began = row.at_us
        elif row.run_id == run_id and row.type == JobWaitingEvent.type and began is not None:
            total, began = total + row.at_us - began, None
        last = row.at_us
    return total + (last - began if began is not None else 0)
