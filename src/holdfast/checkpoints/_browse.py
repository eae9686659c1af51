"""Looking at checkpoints: finding one by a part of its id, listing them, and telling what one holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from holdfast.checkpoints._blobs import BlobReader
from holdfast.checkpoints._facts import fact_of, result_of
from holdfast.checkpoints._restore import Restored, definition_of, restore
from holdfast.checkpoints._rows import event_of
from holdfast.deltas import decode_plain
from holdfast.errors import StorageError, UsageError
from holdfast.events._base import BaseEvent
from holdfast.graph import Cancelled, Completed, Fact, Failed, Started, Waiting
from holdfast.ports import BranchInfo, JournalStore, Mark, Row, RunInfo
from holdfast.runs import RunStatus

EVERYTHING = 2**62
"""Stands for "no limit" where a store wants a number."""
MANY = 1000
"""So many checkpoints of a run are shown in a tree."""
SHORT = 8
_NAMED = 5
INTERRUPTED = "interrupted"
"""What a run is called that is stored as running although nobody runs it: killed, left, and not taken up yet."""

_STATUS: dict[type[Fact], str] = {
    Started: "running",
    Waiting: "waiting",
    Completed: "completed",
    Failed: "failed",
    Cancelled: "cancelled",
}


class Found(Struct, frozen=True):
    """A checkpoint, or a run, which stands for its head."""

    run: RunInfo
    mark: Mark | None = None

    @property
    def id(self) -> str:
        return self.mark.id if self.mark is not None else self.run.root_run_id


class Listed(Struct, frozen=True):
    """A checkpoint in a list."""

    mark: Mark
    run: RunInfo
    subject: str = ""
    """what the event that triggered it was about: the method, the task"""


class RunTree(Struct, frozen=True):
    """A run with its branches and checkpoints, oldest first."""

    run: RunInfo
    branches: list[BranchInfo]
    checkpoints: list[Listed]
    has_older: bool = False
    """whether there are more checkpoints, older than these"""


class StepRecord(Struct):
    """One execution of a step, as far as a checkpoint knows it."""

    key: str
    status: str
    attempts: int | None = None
    """None when the rows that tell were pruned"""
    result: Any = None
    route: str | None = None
    error: str = ""


class Details(Struct, frozen=True):
    """Everything a checkpoint holds."""

    found: Found
    branch: str
    seq: int
    head: int
    """where its branch has got to since"""
    made_by: str
    """the module and class of the program; empty if it was not recorded"""
    subject: str
    state: dict[str, Any]
    steps: list[StepRecord]
    usage: dict[str, int]
    """tokens by kind, of all model calls so far"""


# -- finding -------------------------------------------------------------------------------------------------------


async def find(store: JournalStore, text: str) -> Found:
    """The checkpoint or run that `text` names: its id, or a beginning or an end of it that no other has.

    Raises UsageError, naming some that there are, when none or several fit.
    """
    if exact := await _find_exact(store, text):
        return exact
    marks = {mark.id: mark for mark in await store.marks(limit=EVERYTHING)}
    runs = {info.root_run_id: info for info in await store.runs(limit=EVERYTHING)}
    known = [*marks, *(run_id for run_id in runs if run_id not in marks)]
    fitting = [name for name in known if text and (name.startswith(text) or name.endswith(text))]
    if len(fitting) != 1:
        raise UsageError(_which(text, fitting, known))
    [name] = fitting
    mark = marks.get(name)
    return Found(runs[mark.root_run_id if mark is not None else name], mark)


async def find_run(store: JournalStore, text: str) -> RunInfo:
    """The run that `text` names, as `find` does; a checkpoint stands for its run."""
    return (await find(store, text)).run


async def _find_exact(store: JournalStore, text: str) -> Found | None:
    mark = await store.mark(text)
    info = await store.run(mark.root_run_id if mark is not None else text)
    return None if info is None else Found(info, mark)


def _which(text: str, fitting: list[str], known: list[str]) -> str:
    if not known:
        return f"there is no checkpoint {text!r}: the store is empty"
    named = fitting or known
    listed = ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
    if fitting:
        return f"{text!r} fits several: {listed}; give more of the id"
    return f"no checkpoint and no run is called {text!r}; there are: {listed}"


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """For each id the shortest end, of at least eight characters, that no other of them has.

    Ends, because ids begin with the time: those of one second begin alike.
    """
    names = set(ids)
    shortened: dict[str, str] = {}
    length = SHORT
    while names:
        ends = Counter(name[-length:] for name in names)
        unique = {name for name in names if ends[name[-length:]] == 1 or len(name) <= length}
        shortened |= {name: name[-length:] for name in unique}
        names -= unique
        length += 4
    return shortened


# -- listing -------------------------------------------------------------------------------------------------------


async def list_checkpoints(store: JournalStore, root_run_id: str | None = None, *, limit: int = 50) -> list[Listed]:
    """Checkpoints, newest first; of one run, or of all."""
    marks = await store.marks(root_run_id, limit=limit)
    runs = {run_id: await store.run(run_id) for run_id in {mark.root_run_id for mark in marks}}
    return [
        Listed(mark, info, _subject(await _row_at(store, mark)))
        for mark in marks
        if (info := runs[mark.root_run_id]) is not None
    ]


async def list_trees(store: JournalStore, root_run_id: str | None = None, *, limit: int = 50) -> list[RunTree]:
    """At most so many runs, the one that changed last first, with their branches and newest checkpoints."""
    if root_run_id is None:
        runs = await store.runs(limit=limit)
    else:
        runs = [info for info in [await store.run(root_run_id)] if info is not None]
    return [await _tree(store, info) for info in runs]


async def _tree(store: JournalStore, info: RunInfo) -> RunTree:
    branches = await store.branches(info.root_run_id)
    newest = await list_checkpoints(store, info.root_run_id, limit=MANY + 1)
    return RunTree(info, branches, newest[:MANY][::-1], has_older=len(newest) > MANY)


async def _row_at(store: JournalStore, mark: Mark) -> Row | None:
    """The row that a checkpoint was made after, if it is still there."""
    try:
        async for row in store.read(mark.root_run_id, branch=mark.branch, after=mark.seq - 1, upto=mark.seq):
            return row
    except StorageError:  # its run was deleted meanwhile
        return None
    return None


def _subject(row: Row | None) -> str:
    if row is None:
        return ""
    try:
        told = decode_plain(row.payload)
    except StorageError:  # an odd row is no reason to list nothing
        return ""
    names = (told.get(key) for key in ("method_name", "task_name", "name")) if isinstance(told, dict) else ()
    return row.origin.task_name or next((name for name in names if isinstance(name, str) and name), "")


# -- what a run is doing --------------------------------------------------------------------------------------------


def status_of(info: RunInfo, now_us: int) -> str:
    """The stored status of a run, except that one which nobody runs any more is `interrupted`. The store stays as it is."""
    return INTERRUPTED if info.status == RunStatus.RUNNING and not _is_held(info, now_us) else info.status


def step_status_of(step: StepRecord, details: Details, now_us: int) -> str:
    """What a step is doing at a checkpoint. At a branch's head that is now, so what its run left there is `interrupted` too."""
    is_now = step.status == "running" and details.seq == details.head
    return INTERRUPTED if is_now and status_of(details.found.run, now_us) == INTERRUPTED else step.status


def _is_held(info: RunInfo, now_us: int) -> bool:
    """Whether a process has the run, by the rules that decide whether another may take it up."""
    if not info.held_until_us:
        return False
    try:
        owner = definition_of(info).owner
    except StorageError:  # nothing is known of who has it, so only its hold counts
        return info.held_until_us > now_us
    return not owner.is_dead() and (info.held_until_us > now_us or owner.is_another_alive())


# -- one checkpoint ------------------------------------------------------------------------------------------------


async def describe(store: JournalStore, found: Found) -> Details:
    """Everything that a checkpoint holds. Raises StorageError if its rows cannot be read."""
    restored = await restore(store, found.id)
    heads = {branch.name: branch.head for branch in await store.branches(found.run.root_run_id)}
    steps, usage = await _told(store, restored)
    return Details(
        found,
        restored.branch,
        restored.seq,
        heads[restored.branch],
        made_by(found.run),
        _subject(await _row_at(store, found.mark)) if found.mark is not None else "",
        restored.state,
        list(steps.values()),
        dict(usage),
    )


async def _told(store: JournalStore, restored: Restored) -> tuple[dict[str, StepRecord], Counter[str]]:
    """What the rows up to a position tell of steps and of usage; of pruned rows, what a step may still be given."""
    root, blobs = restored.info.root_run_id, BlobReader(store.blob)
    steps: dict[str, StepRecord] = {}
    usage: Counter[str] = Counter()
    async for row in store.read(root, branch=restored.branch, upto=restored.seq):
        if row.run_id == root:
            _note(steps, event_of(await blobs.resolve_row(row), root, None))
        if row.type == "llm_call_completed":
            usage.update({name: n for name, n in decode_plain(row.payload).get("usage", {}).items() if type(n) is int})
    pruned = {key: result for key, result in restored.results.items() if key not in steps}
    return {key: StepRecord(key, "completed", result=result) for key, result in pruned.items()} | steps, usage


def _note(steps: dict[str, StepRecord], event: BaseEvent) -> None:
    fact = fact_of(event)
    if not isinstance(fact, Started | Completed | Failed | Cancelled | Waiting):
        return
    key = f"{fact.step}#{fact.number}"
    step = steps.setdefault(key, StepRecord(key, "running"))
    step.status = _STATUS[type(fact)]
    step.route = fact.route if isinstance(fact, Completed) else None
    step.result = result_of(event) if isinstance(fact, Completed) else None
    step.error = fact.error if isinstance(fact, Failed) else ""
    if step.status == "running":
        step.attempts = (step.attempts or 0) + 1


def made_by(info: RunInfo) -> str:
    """The module and class that a run was recorded with, as `--flow` takes it; empty if that is not known."""
    try:
        return definition_of(info).made_by
    except StorageError:
        return ""
