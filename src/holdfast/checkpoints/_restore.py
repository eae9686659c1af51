"""Restoring a run: find the place, take the last snapshot before it, fold the rows since then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.checkpoints._blobs import BlobReader
from holdfast.checkpoints._definition import Definition
from holdfast.checkpoints._facts import COMPLETED, STARTED, result_of, step_key
from holdfast.checkpoints._fold import Fold
from holdfast.checkpoints._rows import event_of
from holdfast.checkpoints._unstored import NOTHING_UNSTORED, Unstored
from holdfast.errors import CorruptStoreError, StorageError, StoreUnavailableError
from holdfast.events._base import BaseEvent
from holdfast.graph import Graph, GraphState
from holdfast.ports import BranchInfo, JournalStore, Mark, Row, RunInfo

_ODD = (StorageError, msgspec.MsgspecError, AttributeError, LookupError, TypeError, ValueError)
"""What rows that nobody of ours wrote, or a disk has changed, may come to."""


class Place(Struct, frozen=True):
    """A position in a run's journal."""

    info: RunInfo
    branch: str
    upto: int | None = None
    """None for the head"""
    mark: Mark | None = None


class Restored(Struct):
    """A run as its journal tells it, up to a position."""

    store: JournalStore | Any
    info: RunInfo
    branch: str
    fold: Fold
    mark: Mark | None = None
    """the checkpoint that was asked for, or the last one before the position"""

    @property
    def seq(self) -> int:
        return self.fold.seq

    @property
    def is_begun(self) -> bool:
        """Whether anything of the run was written down; else whoever took hold of it died at once."""
        return bool(self.fold.root.opened_by)

    @property
    def graph(self) -> GraphState:
        """Where the root run stands."""
        return self.fold.root.standing

    @property
    def state(self) -> dict[str, Any]:
        """The root run's state, plain."""
        return self.fold.root.state

    @property
    def results(self) -> dict[str, Any]:
        """Results that a step may still be given, by execution key."""
        return self.fold.root.results


async def locate(store: JournalStore, checkpoint: str) -> Place:
    """Where a checkpoint is: a mark's id, or a run's id for its head. Raises StorageError if there is none."""
    info = await store.run(checkpoint)  # first: a run is quickly found
    if info is not None:
        return Place(info, taken_last(await store.branches(checkpoint)).name)
    mark = await store.mark(checkpoint)
    info = await store.run(mark.root_run_id) if mark is not None else None
    if mark is None or info is None:
        raise StorageError(
            f"no checkpoint and no run is called {checkpoint!r}; `holdfast checkpoint list` says what there is"
        )
    return Place(info, mark.branch, mark.seq, mark)


def taken_last(branches: Iterable[BranchInfo]) -> BranchInfo:
    """The branch whose head a run's id stands for. One without a row was begun, or brought by a file, but never gone on with."""
    taken = [branch for branch in branches if branch.parent is None or branch.head > branch.fork_seq]
    return max(taken, key=lambda branch: branch.created_us)


async def restore(store: JournalStore, checkpoint: str, graph: Graph | None = None) -> Restored:
    """Fold a run up to a checkpoint: a mark's id, or a run's id for its head; with the graph it was recorded with, or another.

    Raises StorageError if there is none.
    """
    place = await locate(store, checkpoint)
    fold = await fold_upto(store, place, graph or definition_of(place.info).graph)
    return Restored(store, place.info, place.branch, fold, place.mark or await _last_mark(store, place))


async def fold_upto(store: JournalStore, place: Place, graph: Graph) -> Fold:
    """What the journal amounts to at a place. Raises CorruptStoreError, saying where, if what is stored there cannot be read."""
    root_run_id = place.info.root_run_id
    blobs = BlobReader(store.blob)
    fold = Fold(root_run_id, graph)
    snapshot = await store.last_snapshot(root_run_id, branch=place.branch, upto=place.upto)
    at = 0
    try:
        if snapshot is not None:
            at = snapshot.seq
            fold = Fold.decode(root_run_id, graph, await blobs.resolve(snapshot.data))
        async for row in store.read(root_run_id, branch=place.branch, after=fold.seq, upto=place.upto):
            at = row.seq
            fold.take(await blobs.resolve_row(row))
    except _ODD as error:
        if not at or isinstance(
            error, StoreUnavailableError | CorruptStoreError
        ):  # the store itself says what is wrong
            raise
        raise CorruptStoreError(
            f"run {root_run_id} cannot be restored: what is stored at position {at} of branch {place.branch!r} cannot be read "
            f"({str(error) or type(error).__name__}). Nothing was changed. An earlier checkpoint may be whole: "
            f"`holdfast checkpoint list --run {root_run_id}` lists them"
        ) from error
    return fold


async def completed_steps(store: JournalStore, restored: Restored) -> AsyncIterator[BaseEvent]:
    """The recorded events of executions that completed, in order: to be shown to listeners again."""
    place = Place(restored.info, restored.branch, restored.seq)
    finished = {event_type.type for event_type in COMPLETED}
    openers = {row.started_event_id async for row in _rows(store, place, *finished)}
    blobs, previous = BlobReader(store.blob), None
    async for row in _rows(store, place, *(one.type for one in STARTED), *finished):
        if row.type in finished or row.event_id in openers:
            yield event_of(await blobs.resolve_row(row), restored.info.root_run_id, previous)
            previous = row.event_id


async def all_results(
    store: JournalStore, run_id: str, branch: str, upto: int | None = None, unstored: Unstored = NOTHING_UNSTORED
) -> list[tuple[str, Any]]:
    """Every result of a root run's steps with its execution key, in the order they completed."""
    place = replace(await locate(store, run_id), branch=branch, upto=upto)
    blobs, found = BlobReader(unstored.reader(store)), []
    async for row in _rows(store, place, *(one.type for one in COMPLETED), unstored=unstored):
        event = event_of(await blobs.resolve_row(row), run_id, None)
        if row.run_id == run_id and isinstance(event, COMPLETED):
            step, number = step_key(event)
            if step:
                found.append((f"{step}#{number}", result_of(event)))
    return found


async def _rows(
    store: JournalStore, place: Place, *types: str, unstored: Unstored = NOTHING_UNSTORED
) -> AsyncIterator[Row]:
    head = 0
    async for row in store.read(place.info.root_run_id, branch=place.branch, upto=place.upto):
        head = row.seq
        if row.type in types:
            yield row
    for row in unstored.rows:
        if row.seq > head and row.type in types:
            yield row


async def _last_mark(store: JournalStore, place: Place) -> Mark | None:
    """The newest mark of a branch; while it has none, the last before it left its parent."""
    marks = await store.marks(place.info.root_run_id)
    branches = {branch.name: branch for branch in await store.branches(place.info.root_run_id)}
    name, upto = place.branch, branches[place.branch].head
    while True:
        found = next((mark for mark in marks if mark.branch == name and mark.seq <= upto), None)
        branch = branches[name]
        if found is not None or branch.parent is None:
            return found
        name, upto = branch.parent, min(upto, branch.fork_seq)


def definition_of(info: RunInfo) -> Definition:
    """What was stored beside a run. Raises StorageError if it is something else."""
    try:
        return msgspec.json.decode(info.definition, type=Definition)
    except msgspec.DecodeError as error:
        raise StorageError(f"what is stored of run {info.root_run_id} is not a definition: {error}") from error
