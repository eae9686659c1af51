"""Which checkpoints are old enough to go; decided here for every provider."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from holdfast.errors import UsageError
from holdfast.ports import CheckpointInfo, Mark

M = TypeVar("M", CheckpointInfo, Mark)
"""A checkpoint as a provider lists it, or as a journal has it."""


def newest_first(infos: Iterable[M]) -> list[M]:
    return sorted(infos, key=lambda info: (info.at_us, info.id), reverse=True)


def check_asked(keep: int | None, before_us: int | None) -> None:
    """Raise UsageError unless a prune says what it wants."""
    if keep is None and before_us is None:
        raise UsageError("prune() wants keep=, before_us= or both: what it may not drop")
    if keep is not None and keep < 0:
        raise UsageError(f"keep must not be negative, and is {keep}")


def select_old(infos: Iterable[M], keep: int | None, before_us: int | None) -> list[M]:
    """What a prune drops. `keep` and `before_us` as `CheckpointProvider.prune` says."""
    runs: dict[str, list[M]] = defaultdict(list)
    for info in newest_first(infos):
        runs[info.root_run_id].append(info)
    return [info for run in runs.values() for info in _old_of_run(run, keep, before_us)]


def _old_of_run(run: list[M], keep: int | None, before_us: int | None) -> list[M]:
    branches: dict[str, list[M]] = defaultdict(list)
    for info in run:
        branches[info.branch].append(info)
    kept = {
        info.id
        for branch in branches.values()
        for rank, info in enumerate(branch)
        if (keep is not None and rank < keep) or (before_us is not None and info.at_us >= before_us)
    }
    if kept:
        kept |= {branch[0].id for branch in branches.values()}
        kept |= left_at(run)
    return [info for info in run if info.id not in kept]


def left_at(run: list[M]) -> set[str]:
    """Where branches left others: parents that are on another branch."""
    branches = {info.id: info.branch for info in run}
    pairs = [(info.parent_id, info.branch) for info in run if info.parent_id is not None]
    return {parent for parent, branch in pairs if branches.get(parent, branch) != branch}
