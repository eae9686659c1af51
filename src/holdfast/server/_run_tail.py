"""What happens in one run of this process, or of a journal: its events, and pieces of text while they come.

What is written down can be read again by anybody. Pieces of text are live only, so a client that has missed some is told to
begin anew.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.checkpoints import locate
from holdfast.errors import RunEndedError
from holdfast.ports import JournalStore, Row
from holdfast.runs import Run, RunStatus
from holdfast.serde import to_plain
from holdfast.server._feeds import Entry, Gone
from holdfast.server._views import EventView, RunView, event_view, moment, run_view
from holdfast.streaming import Frame, Observer, observe

PART = 500
KNOWN = 10_000
"""Ids that are remembered, so that what was told live is not told again from the journal."""


class FrameView(Struct, frozen=True):
    """Something that happened in a run, as it happened."""

    type: str
    id: str
    run_id: str
    path: list[str]
    channel: str
    at: datetime
    data: Any


class Missed(Struct, frozen=True):
    """More happened at once than is kept for lookers-on: these frames will not come. The stream goes on."""

    count: int


class RunSnapshot(Struct, frozen=True):
    """A run, to begin with."""

    run: RunView | None
    head: int
    """the last position of its journal"""


RUN_FRAMES: dict[str, Any] = {
    "snapshot": RunSnapshot, "resync": RunSnapshot, "event": EventView, "frame": FrameView,
    "missed": Missed,
}  # fmt: skip


class RunTail:
    """Of one root run. Positions are `JOURNAL.LIVE`: rows read, and frames of this process told since its feed began."""

    def __init__(self, journal: JournalStore, run_id: str, run: Run | None) -> None:
        self._journal, self._run_id, self._run = journal, run_id, run
        self._told: OrderedDict[str, None] = OrderedDict()
        self._frames = 0
        self._row = 0
        self._life = run.id[-6:] + str(run.incarnation) if run is not None else "0"
        self._observer: Observer | None = _observer(run)

    async def may_have_grown(self) -> bool:
        return True

    async def ending(self) -> bytes | None:
        if self._run is not None:
            status: str = self._run.status
            over = self._run.ending.done.done()
        else:
            info = await self._journal.run(self._run_id)
            status = info.status if info is not None else "unknown"
            over = info is None or RunStatus(status).is_terminal
        return msgspec.json.encode({"status": status}) if over else None

    async def _head(self) -> tuple[str, int]:
        if await self._journal.run(self._run_id) is None:
            return "main", 0
        branch = (await locate(self._journal, self._run_id)).branch
        heads = {known.name: known.head for known in await self._journal.branches(self._run_id)}
        return branch, heads[branch]

    async def now(self) -> str:
        self._row = (await self._head())[1]
        return self._place()

    def _place(self) -> str:
        return f"{self._row}.{self._life}.{self._frames}"

    async def snapshot(self, event: str) -> Entry:
        _, head = await self._head()
        info = await self._journal.run(self._run_id)
        view = None if info is None else run_view(info, is_live=self._run is not None)
        if view is None and self._run is not None:
            view = live_view(self._run)
        return Entry(self._place(), event, msgspec.json.encode(RunSnapshot(view, head)))

    async def read(self, after: str, upto: str | None = None) -> list[Entry]:
        """The feed itself reads on; a client that comes back reads the journal up to where the feed is."""
        if upto is not None:
            return await self._again(after, int(upto.split(".")[0]))
        entries = [self._entry(frame) for frame in self._new_frames()]
        branch, head = await self._head()
        if head > self._row:
            entries += await self._rows(branch)
        return entries

    def _new_frames(self) -> list[Frame]:
        found: list[Frame] = []
        while self._observer is not None and len(found) < PART:
            frame = self._observer.poll()
            if frame is None:
                break
            found.append(frame)
        return found

    def _entry(self, frame: Frame) -> Entry:
        self._frames += 1
        self._told[frame.id] = None
        while len(self._told) > KNOWN:
            self._told.popitem(last=False)
        if frame.type == "dropped":  # by the run, not by us: `dropped` would say that the client is cut off
            return Entry(self._place(), "missed", msgspec.json.encode(Missed(frame.data["count"])))
        shown = FrameView(
            frame.type, frame.id, frame.run_id, [*frame.path], frame.channel, moment(frame.at), _data(frame.data)
        )
        return Entry(self._place(), "frame", msgspec.json.encode(shown))

    async def _rows(self, branch: str) -> list[Entry]:
        entries = []
        async for row in self._journal.read(self._run_id, branch=branch, after=self._row, upto=self._row + PART):
            self._row = row.seq
            if row.event_id not in self._told:
                entries.append(Entry(self._place(), "event", _encoded(row)))
        return entries

    async def _again(self, after: str, head: int) -> list[Entry]:
        """Rows after a position. Raises Gone if live frames were missed that no journal has."""
        parts = (after or f"0.{self._life}.{self._frames}").split(".")
        if len(parts) != 3 or not (parts[0].isdigit() and parts[2].isdigit()) or len(after) > 60:
            raise Gone
        row, frames = int(parts[0]), int(parts[2])
        if (self._run is not None and (parts[1], frames) != (self._life, self._frames)) or row > head:
            raise Gone
        if row == head or await self._journal.run(self._run_id) is None:
            return []
        branch, _ = await self._head()
        upto = min(row + PART, head)
        rows = [one async for one in self._journal.read(self._run_id, branch=branch, after=row, upto=upto)]
        return [Entry(f"{one.seq}.{parts[1]}.{frames}", "event", _encoded(one)) for one in rows]


def live_view(run: Run) -> RunView:
    """A run of this process that nothing was written down of."""
    kind = getattr(run.speaker, "entity_type", "run")
    return RunView(run.id, str(kind), run.name, run.status, run.incarnation, True, _born(run.id), None)


def _born(run_id: str) -> datetime | None:
    """Ids begin with the time; one that somebody chose tells nothing."""
    try:
        made = uuid.UUID(run_id)
    except ValueError:
        return None
    return moment((made.int >> 80) * 1000) if made.version == 7 else None


def _observer(run: Run | None) -> Observer | None:
    try:
        return observe(run) if run is not None else None
    except RunEndedError:  # just now
        return None


def _encoded(row: Row) -> bytes:
    return msgspec.json.encode(event_view(row))


def _data(data: dict[str, Any]) -> Any:
    """An event's payload as JSON; what has no form there is named by its type."""
    return {name: _shown(value) for name, value in data.items()}


def _shown(value: Any) -> Any:
    try:
        return to_plain(value)
    except Exception:  # whatever a program put into its event, a looker-on must not end for it
        return f"<{type(value).__name__}>"
