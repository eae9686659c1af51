"""What happens to one job, out of four sources: its changes of status, its journal, its live output, what it asks for.

A position names a place in each of them, so any server that has the project can go on from it, also one that was started
since.
"""

from __future__ import annotations

import asyncio
import heapq
import zlib
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.checkpoints import locate
from holdfast.ports import Job, JobStatus, JournalStore, Row, StepInfo
from holdfast.server._backend import Queue
from holdfast.server._feeds import Entry, Gone
from holdfast.server._logfile import read_end, read_part, size_of
from holdfast.server._views import (
    AskView,
    ChangeView,
    EventView,
    JobView,
    LogView,
    StepView,
    ask_view,
    change_view,
    event_view,
    job_view,
    log_view,
    step_view,
)
from holdfast.service import JobService

PART = 200
"""So many of each are read at once."""
LARGE = 64 * 1024
"""A longer event goes without its data: it can be asked for."""
IDLE_LOOKS = 20
"""Looks after which the store is read although nothing says that it has changed."""


class Place(Struct, frozen=True):
    """Where a client stands in each of the sources."""

    change: int = 0
    branch: int = 0
    """which branch of the journal, in the order they were begun"""
    row: int = 0
    log: int = 0
    asks: int = 0
    """a checksum of the questions it has seen: they are no list that grows"""

    def __str__(self) -> str:
        return f"{self.change}.{self.branch}.{self.row}.{self.log}.{self.asks}"

    @classmethod
    def read(cls, text: str) -> Place:
        """Raises Gone for what is no place."""
        parts = text.split(".")
        if len(parts) != 5 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
            raise Gone
        return cls(*map(int, parts))


class JobSnapshot(Struct, frozen=True):
    """A job as it is, to begin with."""

    job: JobView
    steps: list[StepView]
    log: list[LogView]
    """the end of its live output"""


JOB_FRAMES: dict[str, Any] = {
    "snapshot": JobSnapshot, "resync": JobSnapshot, "change": ChangeView, "event": EventView, "log": LogView,
    "asks": list[AskView],
}  # fmt: skip


class JobTail:
    """Of one job."""

    def __init__(self, queue: Queue, journal: JournalStore, job_id: str) -> None:
        self._queue, self._journal, self._job_id = queue, journal, job_id
        self._service = JobService(queue.jobs)
        self._log = queue.logs.path(job_id)
        self._stamp: tuple[int, int] | None = None
        self._looks = 0
        self._listed: tuple[tuple[int, int], list[StepInfo]] | None = None

    async def may_have_grown(self) -> bool:
        stamp, self._looks = (await self._queue.jobs.stamp(), size_of(self._log)), self._looks + 1
        if stamp == self._stamp and self._looks < IDLE_LOOKS:
            return False
        self._stamp, self._looks = stamp, 0
        return True

    async def ending(self) -> bytes | None:
        job = await self._queue.jobs.job(self._job_id)
        if job is None:
            return b'{"status":"deleted"}'
        return msgspec.json.encode({"status": job.status, "reason": job.reason}) if job.status.is_terminal else None

    async def now(self) -> str:
        return str(replace(await self._now(), asks=_sum(await self._queue.jobs.job(self._job_id))))

    async def _now(self) -> Place:
        changes = await self._service.history(self._job_id)
        branch, head = await self._branch()
        return Place(changes[-1].seq if changes else 0, branch[0], head, size_of(self._log))

    async def snapshot(self, event: str) -> Entry:
        where = await self._now()  # first: what happens meanwhile is told again rather than not at all
        job = await self._service.get(self._job_id)
        where = replace(where, asks=_sum(job))
        steps = await self._steps(job, where)
        lines = await asyncio.to_thread(read_end, self._log, where.log)
        shown = JobSnapshot(job_view(job), [*map(step_view, steps)], [*map(log_view, lines)])
        return Entry(str(where), event, msgspec.json.encode(shown))

    async def _steps(self, job: Job, where: Place) -> list[StepInfo]:
        """The steps of a job; for a crowd that comes at once the journal is read once."""
        if self._listed is None or self._listed[0] != (where.branch, where.row):
            self._listed = (where.branch, where.row), await self._queue.runner.steps(job)
        return self._listed[1]

    async def read(self, after: str, upto: str | None = None) -> list[Entry]:
        branch, head = await self._branch()
        place = Place.read(after) if after else Place(branch=branch[0])
        end = Place.read(upto) if upto else None
        if place.row and (place.branch != branch[0] or place.row > head):
            raise Gone
        if size_of(self._log) < place.log:
            raise Gone
        told = heapq.merge(
            await self._changes(place.change, end),
            await self._rows(branch[1], place.row, end),
            await self._lines(place.log, end),
            key=lambda one: one[0],
        )
        entries = _entries(replace(place, branch=branch[0]), told)
        return [*entries, *await self._asks(Place.read(entries[-1].id) if entries else place)]

    async def _asks(self, place: Place) -> list[Entry]:
        """What the job asks for, if it is something else than before. A job that has ended asks for nothing."""
        job = await self._queue.jobs.job(self._job_id)
        if job is None or job.status.is_terminal or _sum(job) == place.asks:
            return []
        asks = [ask_view(ask) for ask in job.asks]
        return [Entry(str(replace(place, asks=_sum(job))), "asks", msgspec.json.encode(asks))]

    async def _branch(self) -> tuple[tuple[int, str], int]:
        """The branch that the job goes on with, by number and name, and its head."""
        if await self._journal.run(self._job_id) is None:
            return (0, "main"), 0
        current = (await locate(self._journal, self._job_id)).branch
        branches = await self._journal.branches(self._job_id)
        number = next(index for index, branch in enumerate(branches) if branch.name == current)
        return (number, current), branches[number].head

    async def _changes(self, after: int, end: Place | None) -> list[Told]:
        found = await self._queue.jobs.changes(after=after, job_id=self._job_id, limit=PART)
        return [
            (change.at_us, "change", {"change": change.seq}, change_view(change))
            for change in found
            if end is None or change.seq <= end.change
        ]

    async def _rows(self, branch: str, after: int, end: Place | None) -> list[Told]:
        if await self._journal.run(self._job_id) is None or (end is not None and end.row <= after):
            return []
        upto = after + PART if end is None else min(after + PART, end.row)
        rows = [row async for row in self._journal.read(self._job_id, branch=branch, after=after, upto=upto)]
        if after and rows and rows[0].seq != after + 1:
            raise Gone  # what lies between was pruned
        return [(row.at_us, "event", {"row": row.seq}, event_view(_small(row))) for row in rows]

    async def _lines(self, after: int, end: Place | None) -> list[Told]:
        upto = size_of(self._log) if end is None else end.log
        if upto <= after:
            return []
        lines = await asyncio.to_thread(read_part, self._log, after, upto)
        return [(line.at_us, "log", {"log": place}, log_view(line)) for place, line in lines]


Told = tuple[int, str, dict[str, int], Any]
"""When, what kind, where it leads, and what is shown."""


def _entries(place: Place, told: Iterable[Told]) -> list[Entry]:
    entries = []
    for _, event, leads, shown in told:
        place = replace(place, **leads)
        entries.append(Entry(str(place), event, msgspec.json.encode(shown)))
    return entries


def _sum(job: Job | None) -> int:
    return zlib.crc32(msgspec.json.encode(job.asks)) if job is not None and job.asks else 0


def _small(row: Row) -> Row:
    return row if len(row.payload) <= LARGE else replace(row, payload=b'{"$omitted":true}')


class Counts(Struct, frozen=True):
    """How many jobs there are that have not ended, by status."""

    counts: dict[JobStatus, int]


CHANGES_FRAMES: dict[str, Any] = {"snapshot": Counts, "resync": Counts, "change": ChangeView}


class ChangesTail:
    """What happens to all jobs: their changes of status."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._stamp: int | None = None
        self._looks = 0

    async def may_have_grown(self) -> bool:
        stamp, self._looks = await self._queue.jobs.stamp(), self._looks + 1
        if stamp == self._stamp and self._looks < IDLE_LOOKS:
            return False
        self._stamp, self._looks = stamp, 0
        return True

    async def ending(self) -> bytes | None:
        return None

    async def now(self) -> str:
        return str(await self._queue.jobs.last_change())

    async def snapshot(self, event: str) -> Entry:
        where = await self.now()
        return Entry(where, event, msgspec.json.encode(Counts(await self._queue.jobs.count())))

    async def read(self, after: str, upto: str | None = None) -> list[Entry]:
        if not ((after.isascii() and after.isdigit() and len(after) < 16) or not after):
            raise Gone
        place = int(after or 0)
        if place > await self._queue.jobs.last_change():
            raise Gone
        changes = await self._queue.jobs.changes(after=place, limit=PART)
        kept = [change for change in changes if upto is None or change.seq <= int(upto)]
        return [Entry(str(change.seq), "change", msgspec.json.encode(change_view(change))) for change in kept]
