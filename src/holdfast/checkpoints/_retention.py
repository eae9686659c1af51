"""Retention: which runs may go, and letting them go.

What can still be gone on with stays: a run that is held, running, waiting or paused is never touched, whatever the bounds say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Literal

from msgspec import Struct

from holdfast.errors import HoldfastError, RunBusyError
from holdfast.logs import get_logger
from holdfast.ports import JournalStore, RunInfo
from holdfast.runs import RunStatus

log = get_logger("checkpoints")
_DAY_US = 86_400_000_000
EVERYTHING = 2**62
"""Stands for "no limit" where a store wants a number."""

Bound = Literal["age", "runs", "bytes"]
_LAST = RunStatus.FAILED  # it can still be resumed: it goes after what cannot


class RetentionPolicy(Struct, frozen=True):
    """How much of the past is kept. None means: without bound."""

    max_age: timedelta | None = timedelta(days=90)
    """since a run was last written to"""
    max_runs: int | None = 10_000
    """that have ended"""
    max_bytes: int | None = 10 * 10**9
    """of all runs together"""


class Removed(Struct, frozen=True):
    """Something that was deleted, or would be."""

    id: str
    name: str
    status: str
    updated_us: int
    size: int
    bound: Bound
    """which bound it was over"""
    kind: str = "run"


class Collected(Struct, frozen=True):
    """What a collection removed, or would remove."""

    removed: tuple[Removed, ...] = ()
    busy: tuple[str, ...] = ()
    """runs that were to go, but somebody took them up in the meantime"""

    @property
    def size(self) -> int:
        """How many bytes that is. Large values that other runs share count here, though they stay."""
        return sum(removed.size for removed in self.removed)


async def plan_collection(store: JournalStore, policy: RetentionPolicy, *, now_us: int) -> Collected:
    """What `collect` would remove, in its order."""
    runs = await store.runs(limit=EVERYTHING)
    sizes = {info.root_run_id: await store.size(info.root_run_id) for info in runs}
    return Collected(
        tuple(
            Removed(info.root_run_id, info.name, info.status, info.updated_us, sizes[info.root_run_id], bound)
            for info, bound in _over_bounds(runs, sizes, policy, now_us)
        )
    )


async def collect(store: JournalStore, policy: RetentionPolicy, *, now_us: int) -> Collected:
    """Delete ended runs that are over the bounds: completed and cancelled ones first, then failed ones, each oldest first."""
    removed: list[Removed] = []
    busy: list[str] = []
    for planned in (await plan_collection(store, policy, now_us=now_us)).removed:
        if await _delete_unchanged(store, planned, now_us):
            removed.append(planned)
        else:
            busy.append(planned.id)
    return Collected(tuple(removed), tuple(busy))


async def _delete_unchanged(store: JournalStore, planned: Removed, now_us: int) -> bool:
    """Delete a run, unless somebody took it up since it was looked at."""
    info = await store.run(planned.id)
    if info is not None and (info.status, info.updated_us) != (planned.status, planned.updated_us):
        return False
    try:
        await store.delete(planned.id, now_us=now_us)
    except RunBusyError:
        return False
    return True


def _over_bounds(
    runs: list[RunInfo], sizes: dict[str, int], policy: RetentionPolicy, now_us: int
) -> Iterator[tuple[RunInfo, Bound]]:
    """The runs to delete, in order, each with the bound that it is over."""
    ended = [info for info in runs if RunStatus(info.status).is_terminal and info.held_until_us <= now_us]
    ended.sort(key=lambda info: (info.status == _LAST, info.updated_us))
    oldest = _before(policy.max_age, now_us)
    yield from ((info, "age") for info in ended if info.updated_us < oldest)
    total = sum(sizes.values()) - sum(sizes[info.root_run_id] for info in ended if info.updated_us < oldest)
    young = [info for info in ended if info.updated_us >= oldest]
    for place, info in enumerate(young):
        if policy.max_runs is not None and len(young) - place > policy.max_runs:
            yield info, "runs"
        elif policy.max_bytes is not None and total > policy.max_bytes:
            yield info, "bytes"
        else:
            return
        total -= sizes[info.root_run_id]


def _before(max_age: timedelta | None, now_us: int) -> int:
    """What is older than this is too old."""
    return 0 if max_age is None else now_us - max_age // timedelta(microseconds=1)


async def collect_daily(store: JournalStore, stamp: Path, *, now_us: int) -> tuple[Removed, ...]:
    """Collect by the default policy, unless that was done within a day: `stamp` is a file whose time says when."""
    try:
        last = await asyncio.to_thread(lambda: stamp.stat().st_mtime_ns // 1000 if stamp.exists() else 0)
        if now_us - last < _DAY_US:
            return ()
        await asyncio.to_thread(stamp.touch)
        collected = await collect(store, RetentionPolicy(), now_us=now_us)
    except (HoldfastError, OSError) as error:
        log.warning("old runs could not be collected: %s", error)
        return ()
    if collected.removed:
        log.info("%d old runs were removed (%d bytes)", len(collected.removed), collected.size)
    return collected.removed
