"""The durable side of a kickoff: its journal, and taking it up again from a checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from holdfast import stores
from holdfast.checkpoints import (
    STEP_EVENTS,
    CheckpointConfig,
    Journalling,
    LooseLog,
    Progress,
    Restored,
    RunLog,
    Source,
    Where,
    all_results,
    completed_steps,
    definition_of,
    encode_document,
    import_checkpoint,
    restore,
    source_of,
)
from holdfast.checkpoints._unstored import NOTHING_UNSTORED, Unstored
from holdfast.context import position
from holdfast.errors import NotStorableError, StorageError
from holdfast.events._base import BaseEvent
from holdfast.graph import StepFailure
from holdfast.ports import JournalStore
from holdfast.runs import Run, RunRef, RunStatus

if TYPE_CHECKING:
    from holdfast.kickoff._front import Front

T = TypeVar("T")


class Plan(Struct, frozen=True):
    """What a kickoff is asked to do."""

    inputs: Mapping[str, Any] = {}
    checkpoint: Where | None = None
    """where to go on from; None to start afresh"""
    branch: str | None = None
    """the branch to begin there; None to go on with the run itself"""
    edits: Mapping[str, Any] | None = None
    """fields of the state to set before it goes on"""
    answers: Mapping[str, str] = {}
    """of people, by the id of the request"""
    config: CheckpointConfig | None = None
    """where it is kept, if what is kicked off does not say"""


class Opening(Struct, frozen=True):
    """What a kickoff begins with when it is written down."""

    log: RunLog
    run_id: str
    ref: RunRef | None = None
    """of the run that is taken up again"""
    progress: Progress | None = None
    """how far that had come"""
    shown: list[BaseEvent] = []
    """recorded events for the listeners of this process"""
    called_as: str = ""
    """of a run inside another: the run and the call that started it"""
    branch: str = "main"
    restored_from: str = ""

    @property
    def is_inner(self) -> bool:
        return bool(self.called_as)


async def open_journal(front: Front, config: CheckpointConfig, runtime: Any, plan: Plan) -> Opening:
    """Start the journal of a new run, or take up the one that a checkpoint belongs to."""
    source = await source_of(config, runtime, plan.checkpoint)
    store = source.store
    bus = runtime.event_bus
    journalling = Journalling(
        config,
        source,
        runtime.clock,
        runtime.new_id,
        runtime.loop_thread,
        lambda event_type, payload: bus.announce(front.entity, event_type, payload),
        bus.wants,
        bus.listeners,
        kind=front.kind,
        entity=front.stored(config),
    )
    made_by, graph = front.made_by, front.graph
    if source.checkpoint is None:
        run_id = runtime.new_id()
        return Opening(await journalling.begin(run_id, graph, made_by, plan.inputs), run_id)
    restored = await restore(store, source.checkpoint, graph)
    front.check_inputs(restored, plan.inputs)
    if plan.branch is None:
        log, ref = await journalling.resume(restored, graph, made_by)
    else:
        log, ref = await journalling.fork(restored, graph, made_by, plan.branch)
    log.answers.update(plan.answers)
    shown = await _shown(store, restored, runtime)
    progress = restored.fold.root if restored.is_begun else None
    return Opening(log, ref.run_id, ref, progress, shown, branch=log.session.branch, restored_from=source.checkpoint)


def check_inputs(restored: Restored, inputs: Mapping[str, Any]) -> None:
    """A run that was killed before its first row begins now. Raises StorageError if what it was given is lost."""
    lost = [name for name in definition_of(restored.info).inputs if name not in inputs]
    if lost and not restored.is_begun:
        raise StorageError(
            f"run {restored.info.root_run_id} was killed before its inputs were written down: give {', '.join(lost)} again, "
            f"kickoff(inputs, from_checkpoint=…)"
        )


async def open_recorded(front: Front, runtime: Any, plan: Plan) -> Opening:
    """Start a journal in memory for a run whose bus records, so that `RuntimeState.checkpoint` can write it into a file."""
    config = CheckpointConfig(stores.MemoryStore(), on_events=())
    journalling = Journalling(
        config,
        Source(config.store),
        runtime.clock,
        runtime.new_id,
        runtime.loop_thread,
        lambda event_type, payload: None,
        lambda event_type: False,
        runtime.event_bus.listeners,
        LooseLog,
        front.kind,
        _stored_if_it_can(front, config),
    )
    run_id = runtime.new_id()
    log = await journalling.begin(run_id, front.graph, front.made_by)
    runtime.event_bus.keep_tree(run_id, log)
    return Opening(log, run_id)


def _stored_if_it_can(front: Front, config: CheckpointConfig) -> dict[str, Any]:
    """Nobody asked for this run to be written down, so what has no stored form is not refused."""
    try:
        return front.stored(config)
    except NotStorableError:
        return {}


async def _shown(store: JournalStore, restored: Restored, runtime: Any) -> list[BaseEvent]:
    """What listeners are shown again: nothing is read when nobody listens."""
    if not any(map(runtime.event_bus.wants, STEP_EVENTS)):
        return []
    return [event async for event in completed_steps(store, restored)]


async def keep_waiting(log: LooseLog, runtime: Any) -> None:
    """Write a run that waits for people, and is not written down otherwise, into the runtime's store."""
    document = await log.document()
    waiting = msgspec.structs.replace(document.info, status=RunStatus.WAITING)
    written = encode_document(msgspec.structs.replace(document, info=waiting))
    await import_checkpoint(runtime.store, written, now_us=runtime.clock.time_ns() // 1000)


def open_inside(parent: Run, runtime: Any) -> Opening | None:
    """A kickoff inside a run that is written down goes into that run's journal, and is taken up again with it."""
    log = parent.journal
    if not isinstance(log, RunLog):
        return None
    call = log.next_call(parent.id, position.get().step_id)
    called_as = f"{parent.id} {call}"
    recorded = log.recorded_call(parent.id, call)
    if recorded is None:
        return Opening(log, runtime.new_id(), called_as=called_as)
    run_id, progress = recorded
    status = RunStatus.FAILED if progress.standing.errors else RunStatus.CREATED
    return Opening(log, run_id, RunRef(run_id, status), progress, called_as=called_as)


def waited_for(runtime: Any, coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, for plain code."""
    if runtime.loop_thread.is_current():  # which cannot wait for itself
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, coroutine).result()
    result: T = runtime.loop_thread.submit(coroutine).result()
    return result


def typed_results(front: Front, results: Mapping[str, Any]) -> dict[str, Any]:
    """Stored results, by execution key, with the types they had."""
    return {key: _typed_by(front, key, result) for key, result in results.items()}


def _typed_by(front: Front, key: str, result: Any) -> Any:
    if key.endswith("!"):
        return msgspec.convert(result, StepFailure)
    return front.typed(key.rpartition("#")[0], result)


async def recorded_outputs(
    front: Front,
    store: JournalStore,
    run_id: str,
    branch: str,
    upto: int | None = None,
    unstored: Unstored = NOTHING_UNSTORED,
) -> list[Any]:
    """Every result of a run, in the order they completed."""
    results = await all_results(store, run_id, branch, upto, unstored)
    return [front.typed(key.rpartition("#")[0], result) for key, result in results]
