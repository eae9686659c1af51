"""Parts of a journal as the API shows them: events page by page, attempts of steps."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.checkpoints import locate
from holdfast.checkpoints._blobs import BlobReader
from holdfast.events.families.agent import AgentExecutionCompletedEvent
from holdfast.events.families.job import JobStartedEvent
from holdfast.events.families.llm import LLMCallCompletedEvent, LLMCallFailedEvent
from holdfast.events.families.step import (
    StepCancelledEvent,
    StepCompletedEvent,
    StepFailedEvent,
    StepStartedEvent,
    StepWaitingEvent,
)
from holdfast.jobs._listing import enter_place
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
    path: str
    """the step's name, after the names of the steps around it"""
    run_id: str
    attempt: int
    """which execution of the step; a loop makes a new one, a retry does not"""
    tries: int = 0
    """how often this execution had failed before"""
    is_fallback: bool = False
    status: str = "running"
    started: datetime | None = None
    ended: datetime | None = None
    error: str = ""
    rule: str = ""
    """the rule that said how to go on"""
    action: str = ""
    result: Any = None
    tokens: int = 0
    cost_usd: float = 0.0
    """of the model calls whose price is known"""


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


_OPENING, _CLOSING = StepStartedEvent.type, {
    StepCompletedEvent.type: "completed", StepFailedEvent.type: "failed", StepCancelledEvent.type: "cancelled",
    StepWaitingEvent.type: "waiting",
}  # fmt: skip


async def read_attempts(journal: JournalStore, run_id: str) -> list[Attempt]:
    """Every attempt of a step in a run's tree, in the order they began."""
    if await journal.run(run_id) is None:
        return []
    blobs, branch = BlobReader(journal.blob), (await locate(journal, run_id)).branch
    found = _Attempts(run_id)
    async for row in journal.read(run_id, branch=branch):
        if row.type in _TOLD:
            found.note(row, msgspec.json.decode((await blobs.resolve_row(row)).payload))
        found.place(row)
    return [*found.attempts.values()]


_SPENDING = (LLMCallCompletedEvent.type, LLMCallFailedEvent.type, AgentExecutionCompletedEvent.type)
_TOLD = {_OPENING, *_CLOSING, JobStartedEvent.type, *_SPENDING}
_Key = tuple[str, str, int, int]


class _Attempts:
    """Attempts, as more and more rows tell of them."""

    def __init__(self, root: str) -> None:
        self.attempts: dict[_Key, Attempt] = {}
        self._latest: dict[tuple[str, str, int], _Key] = {}
        self._places = {root: ""}
        self._within: dict[str, _Key] = {}
        """by event: the attempt that it happened in"""

    def place(self, row: Row) -> None:
        """Remember which attempt an event belongs to, for those that happen inside it."""
        if row.parent_event_id in self._within:
            self._within.setdefault(row.event_id, self._within[row.parent_event_id])

    def note(self, row: Row, told: dict[str, Any]) -> None:
        if row.type == JobStartedEvent.type:
            if told.get("called_as"):
                enter_place(self._places, row.run_id, told["called_as"])
        elif row.type in _SPENDING:
            self._count(self._within.get(row.parent_event_id or ""), told)
        else:
            self._step(row, told)

    def _count(self, key: _Key | None, told: dict[str, Any]) -> None:
        if key is not None:
            one = self.attempts[key]
            tokens = one.tokens + told.get("usage", {}).get("total_tokens", 0)
            self.attempts[key] = replace(one, tokens=tokens, cost_usd=one.cost_usd + (told.get("cost_usd") or 0.0))

    def _step(self, row: Row, told: dict[str, Any]) -> None:
        step, number = told.get("step") or told["name"], told.get("execution") or told.get("attempt", 1)
        place = (row.run_id, step, number)
        tries = told.get("tries", 0) if row.type == _OPENING else self._latest.get(place, (*place, 0))[3]
        key = (*place, tries)
        before = self.attempts.get(key) or Attempt(
            step, self._places.get(row.run_id, "") + step, row.run_id, number, tries, told.get("fallback", False)
        )
        self.attempts[key], self._latest[place] = _noted(before, row, told), key
        if row.type == _OPENING:
            self._within[row.event_id] = key


def _noted(attempt: Attempt, row: Row, told: dict[str, Any]) -> Attempt:
    """An attempt with what one more row says of it. One that goes on after it had waited began when it began."""
    at = moment(row.at_us)
    if row.type == _OPENING:
        return replace(attempt, status="running", started=attempt.started or at, ended=None, error="")
    why, verdict = told.get("error") or told.get("reason") or "", told.get("verdict") or {}
    status = _CLOSING[row.type]
    return replace(
        attempt, status=status, ended=None if status == "waiting" else at, error=why, result=told.get("result"),
        rule=verdict.get("rule", ""), action=verdict.get("action", ""),
    )  # fmt: skip
