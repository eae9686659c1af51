"""Flows that steps ran before, found again in the journal: a step inside one can be run again without the rest."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.checkpoints import Progress, RunLog, locate
from holdfast.checkpoints._fold import Fold
from holdfast.checkpoints._restore import Place, definition_of, fold_upto
from holdfast.events.families.job import JobStartedEvent
from holdfast.events.families.step import StepCompletedEvent, StepFailedEvent

_ENDS = (StepCompletedEvent.type, StepFailedEvent.type)


async def flows_inside(log: RunLog, run_id: str, step: str, before: int) -> dict[str, tuple[str, Progress]]:
    """The flows of a step's last execution before this one that came to an end: their runs, by item; "" for the only one."""
    origins: dict[str, str] = {}
    ends: dict[str, tuple[int, int]] = {}
    await log.commit()
    async for row in log.store.read(log.session.root_run_id, branch=log.session.branch):
        if row.type == JobStartedEvent.type:
            origins[row.run_id] = _told(row.payload, "continues")
        elif row.type in _ENDS and _told(row.payload, "step") == step:
            number = _told(row.payload, "execution")
            if row.run_id != run_id or number < before:
                ends[row.run_id] = (number, row.seq)
    around: str = run_id
    while around and around not in ends:  # what it goes on from had that step done in another run
        around = origins.get(around, "")
    if not around:
        return {}
    number, seq = ends[around]
    return _children(await _fold(log, seq - 1), around, f"{step}#{number}/")


async def flow_now(log: RunLog, run_id: str, call: str) -> tuple[str, Progress] | None:
    """The run that a call of a step in flight started, as it stands."""
    await log.commit()
    fold = await _fold(log, None)
    parent = fold.runs.get(run_id)
    child = parent.children.get(call, "") if parent is not None else ""
    return (child, fold.runs[child]) if child in fold.runs else None


def _children(fold: Fold, run_id: str, begin: str) -> dict[str, tuple[str, Progress]]:
    parent = fold.runs.get(run_id)
    calls = parent.children if parent is not None else {}
    mine = {call: child for call, child in calls.items() if call.startswith(begin) and child in fold.runs}
    return {call.removeprefix(begin).partition(".")[2]: (child, fold.runs[child]) for call, child in mine.items()}


async def _fold(log: RunLog, upto: int | None) -> Fold:
    place = await locate(log.store, log.session.root_run_id)
    return await fold_upto(log.store, Place(place.info, log.session.branch, upto), definition_of(place.info).graph)


def _told(payload: bytes, name: str) -> Any:
    return msgspec.json.decode(payload).get(name, "")
