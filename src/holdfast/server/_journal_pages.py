"""Parts of a journal as the API shows them: events page by page, attempts of steps."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.checkpoints import locate
from holdfast.checkpoints._blobs import BlobReader
from holdfast.ports import JournalStore, Row
from holdfast.server._endpoint import Limit, Name, Position
from holdfast.server._problems import Refused
from holdfast.server._views import EventView, event_view, moment


class EventsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a journal."""

    after: Position = 0
    limit: Limit = 200
    branch: Name = ""
    """the one that was begun last, if left out"""


class EventPage(Struct, frozen=True):
    """A part of a journal."""

    events: list[EventView]
    next: int | None
    """what to give as `after` for the next page; null at the end"""


class Attempt(Struct, frozen=True):
    """One attempt of a step, as the journal has it."""

    step: str
    run_id: str
    attempt: int
    status: str = "running"
    started: datetime | None = None
    ended: datetime | None = None
    error: str = ""
    result: Any = None


async def read_events(journal: JournalStore, run_id: str, query: EventsQuery) -> EventPage:
    """A page of a journal; empty if nothing was written yet."""
    if await journal.run(run_id) is None:
        return EventPage([], None)
    branch = query.branch or (await locate(journal, run_id)).branch
    heads = {known.name: known.head for known in await journal.branches(run_id)}
    if branch not in heads:
        raise Refused(404, "unknown_branch", f"run {run_id} has no branch {branch!r}")
    blobs, upto = BlobReader(journal.blob), query.after + query.limit
    rows = [row async for row in journal.read(run_id, branch=branch, after=query.after, upto=upto)]
    shown = [event_view(await blobs.resolve_row(row)) for row in rows]
    return EventPage(shown, upto if upto < heads[branch] else None)  # a page whose rows were pruned is not the last


_OPENING, _CLOSING = "step_started", {
    "step_completed": "completed", "step_failed": "failed", "step_cancelled": "cancelled", "step_waiting": "waiting",
}  # fmt: skip


async def read_attempts(journal: JournalStore, run_id: str) -> list[Attempt]:
    """Every attempt of a step in a run's tree, in the order they began."""
    if await journal.run(run_id) is None:
        return []
    blobs, branch = BlobReader(journal.blob), (await locate(journal, run_id)).branch
    found: dict[tuple[str, str, int], Attempt] = {}
    async for row in journal.read(run_id, branch=branch):
        if row.type == _OPENING or row.type in _CLOSING:
            told = msgspec.json.decode((await blobs.resolve_row(row)).payload)
            step, number = told.get("step") or told["name"], told.get("execution") or told.get("attempt", 1)
            key = (row.run_id, step, number)
            found[key] = _noted(found.get(key) or Attempt(step, row.run_id, number), row, told)
    return [*found.values()]


def _noted(attempt: Attempt, row: Row, told: dict[str, Any]) -> Attempt:
    """An attempt with what one more row says of it."""
    at = moment(row.at_us)
    if row.type == _OPENING:
        return replace(attempt, status="running", started=at, ended=None)
    why = told.get("error") or told.get("reason") or ""
    return replace(attempt, status=_CLOSING[row.type], ended=at, error=why, result=told.get("result"))
