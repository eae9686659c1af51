"""What a journal amounts to: the same fold that runs live, over what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from holdfast.checkpoints._rows import event_of
from holdfast.deltas import Delta, apply
from holdfast.errors import StorageError
from holdfast.events._base import BaseEvent
from holdfast.graph import Completed, Fact, Graph, GraphState, evolve
from holdfast.ports import JournalStore, RunInfo


class Restored(Struct):
    """A run as its journal tells it, up to a position."""

    info: RunInfo
    branch: str
    seq: int
    graph: GraphState
    state: dict[str, Any]
    """plain"""
    results: dict[str, Any]
    """by execution key"""
    events: list[BaseEvent]
    """of completed steps, to be shown to listeners again"""


async def restore(
    store: JournalStore,
    checkpoint: str,
    graph_of: Callable[[RunInfo], Graph],
    fact_of: Callable[[BaseEvent], tuple[Fact, Any] | None],
) -> Restored:
    """Fold a run up to a checkpoint: a mark's id, or a run's id for its head. Raises StorageError if there is none."""
    mark = await store.mark(checkpoint)
    root_run_id, branch, upto = (mark.root_run_id, mark.branch, mark.seq) if mark else (checkpoint, "main", None)
    info = await store.run(root_run_id)
    if mark is None and info is not None:  # a run's head is that of the branch it took last
        branch = max(await store.branches(root_run_id), key=lambda found: found.created_us).name
    if info is None:
        raise StorageError(
            f"no checkpoint and no run is called {checkpoint!r}; the store's runs() and marks() say what there is"
        )
    restored = Restored(info, branch, 0, GraphState(), {}, {}, [])
    graph, previous = graph_of(info), None
    async for row in store.read(root_run_id, branch=branch, upto=upto):
        event = event_of(row, root_run_id, previous)
        previous, restored.seq = row.event_id, row.seq
        if row.delta is not None and row.run_id == root_run_id:
            restored.state = apply(restored.state, Delta.decode(row.delta))
        if row.run_id == root_run_id and (told := fact_of(event)) is not None:
            fact, result = told
            restored.graph = evolve(graph, restored.graph, fact)
            if isinstance(fact, Completed):
                restored.results[f"{fact.step}#{fact.number}"] = result
                restored.events.append(event)
    return restored
