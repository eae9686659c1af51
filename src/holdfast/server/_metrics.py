"""Counts for Prometheus, in its text format."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TypeAlias

from holdfast.errors import StorageError
from holdfast.ports import JobStatus, JobStore

PART = 1000
"""So many changes are read at once."""
Labels: TypeAlias = tuple[tuple[str, str], ...]
Sample: TypeAlias = tuple[Labels, float]


class Metrics:
    """What this process counts by itself; the rest is looked up when somebody asks."""

    def __init__(self) -> None:
        self.calls: Counter[Labels] = Counter()
        self.seconds: Counter[Labels] = Counter()
        self.dropped: Counter[Labels] = Counter()

    def note_call(self, method: str, route: str, status: int, seconds: float) -> None:
        where = (("method", method), ("route", route))
        self.calls[(*where, ("status", str(status)))] += 1
        self.seconds[where] += seconds  # type: ignore[assignment]  # a Counter adds up anything

    def note_dropped(self, reason: str) -> None:
        """A stream's client was dropped."""
        self.dropped[(("reason", reason),)] += 1


class Endings:
    """How jobs ended since it began: read from their changes when somebody asks, so whichever process ran them."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs
        self._place: int | None = None
        self._counts: dict[str, float] = {str(status): 0.0 for status in JobStatus if status.is_terminal}
        self._alone = asyncio.Lock()

    async def begin(self) -> None:
        """Count from now on; if that is not called, or the store is away, from the first time that somebody asks."""
        with suppress(StorageError):
            self._place = await self._jobs.last_change()

    async def read(self) -> dict[str, float]:
        """How many, by status; one that was retried and ended again counts again."""
        async with self._alone:  # two who ask at once count nothing twice
            if self._place is None:
                self._place = await self._jobs.last_change()
            while changes := await self._jobs.changes(after=self._place, limit=PART):
                self._place = changes[-1].seq
                for change in changes:
                    if change.target.is_terminal:
                        self._counts[str(change.target)] += 1
            return dict(self._counts)


def family(name: str, kind: str, about: str, samples: Iterable[Sample]) -> str:
    """One metric with all of its samples."""
    lines = [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{_labels(labels)} {value:g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def by_label(label: str, counts: Mapping[str, float]) -> list[Sample]:
    return [(((label, key),), value) for key, value in counts.items()]


def _labels(labels: Labels) -> str:
    quoted = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{','.join(quoted)}}}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
