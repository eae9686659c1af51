"""Counts for Prometheus, in its text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

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
