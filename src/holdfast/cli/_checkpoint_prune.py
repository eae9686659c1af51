"""`holdfast checkpoint prune`: which checkpoints go, and what that frees."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec import Struct

from holdfast.checkpoints import find_run, select_old
from holdfast.cli._terminal import printable, show_size
from holdfast.errors import UsageError
from holdfast.ports import JournalStore, Mark

EVERYTHING = 2**62


class PrunePlan(Struct, frozen=True):
    """What is to go of the runs that were looked at."""

    going: list[Mark]
    staying: list[Mark]


async def plan_prune(
    store: JournalStore, run: str | None, keep: int | None, max_age: timedelta | None, now_us: int
) -> PrunePlan:
    """Find what may go, of one run or of all. Raises UsageError when nothing says what."""
    if keep is None and max_age is None:
        raise UsageError("say what may go: --keep N, --older-than AGE, or both")
    root = (await find_run(store, run)).root_run_id if run is not None else None
    before_us = None if max_age is None else now_us - max_age // timedelta(microseconds=1)
    marks = await store.marks(root, limit=EVERYTHING)
    going = select_old(marks, keep, before_us)
    gone = {mark.id for mark in going}
    return PrunePlan(going, [mark for mark in marks if mark.id not in gone])


async def carry_out(store: JournalStore, plan: PrunePlan) -> int:
    """Drop what is to go, and return how many bytes that freed. What was added meanwhile stays."""
    freed = 0
    for root, going in _by_run(plan.going).items():
        gone = {mark.id for mark in going}
        present = await store.marks(root, limit=EVERYTHING)
        freed += await store.prune(root, keep_marks=[mark.id for mark in present if mark.id not in gone])
    return freed


def _by_run(marks: list[Mark]) -> dict[str, list[Mark]]:
    grouped: dict[str, list[Mark]] = {}
    for mark in marks:
        grouped.setdefault(mark.root_run_id, []).append(mark)
    return grouped


def prune_data(plan: PrunePlan, freed: int | None) -> dict[str, Any]:
    """As data; `freed` is None when nothing was done."""
    dropped = [{"id": mark.id, "run_id": mark.root_run_id, "branch": mark.branch} for mark in plan.going]
    return {"dropped": dropped, "kept": len(plan.staying), "freed": freed, "dry_run": freed is None}


def prune_lines(plan: PrunePlan, freed: int | None) -> list[str]:
    """As text; `freed` is None when nothing was done."""
    staying = f"{len(plan.staying)} stay"
    if freed is not None:
        return [f"dropped {_count(plan.going)}, {staying}; {show_size(freed)} freed"]
    named = [f"{printable(mark.id)}\t{printable(mark.branch)}\t{mark.seq}" for mark in plan.going]
    return [*named, f"would drop {_count(plan.going)}, {staying}"]


def _count(marks: list[Mark]) -> str:
    return f"{len(marks)} checkpoint" + ("" if len(marks) == 1 else "s")
