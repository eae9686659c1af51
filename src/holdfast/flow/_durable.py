"""The durable side of a flow: its journal, and taking it up again from a checkpoint."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from msgspec import Struct
from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from holdfast.checkpoints import CheckpointConfig, Journalling, Restored, RunLog, restore
from holdfast.flow._program import fact_of
from holdfast.ports import RunInfo
from holdfast.runs import RunRef

if TYPE_CHECKING:
    from holdfast.flow._flow import Flow

T = TypeVar("T")


class Opening(Struct, frozen=True):
    """What a kickoff begins with when it is written down."""

    log: RunLog
    run_id: str
    ref: RunRef | None = None
    """of the run that is taken up again"""
    restored: Restored | None = None


async def open_journal(flow: Flow[Any], config: CheckpointConfig, runtime: Any, checkpoint: str | None) -> Opening:
    """Start the journal of a new run of a flow, or take up the one that a checkpoint belongs to."""
    journalling = Journalling(config, runtime.clock, runtime.new_id, runtime.loop_thread)
    made_by = f"{type(flow).__module__}:{type(flow).__qualname__}"
    graph = flow.graph()
    if checkpoint is None:
        run_id = runtime.new_id()
        return Opening(await journalling.begin(run_id, graph, made_by), run_id)

    def graph_of(info: RunInfo) -> Any:
        return graph

    restored = await restore(config.store, checkpoint, graph_of, fact_of)
    log, ref = await journalling.resume(restored, graph, made_by)
    return Opening(log, ref.run_id, ref, restored)


def waited_for(runtime: Any, coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, for plain code."""
    result: T = runtime.loop_thread.submit(coroutine).result()
    return result


def typed_results(flow: Flow[Any], results: dict[str, Any]) -> dict[str, Any]:
    """Stored results with the types that the methods' annotations give them; plain data where there is none, or it does not fit."""
    return {key: _typed(getattr(type(flow), key.rpartition("#")[0]), result) for key, result in results.items()}


def _typed(method: Any, result: Any) -> Any:
    try:
        kind = get_type_hints(method).get("return")
        return result if kind is None else TypeAdapter(kind).validate_python(result)
    except (NameError, TypeError, ValidationError, PydanticSchemaGenerationError):
        return result
