"""`RuntimeState` from a checkpoint: the recorded events and entities, to be looked at."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from holdfast.checkpoints._blobs import BlobReader
from holdfast.checkpoints._document import Document, decode_document
from holdfast.checkpoints._export import export_checkpoint
from holdfast.checkpoints._live import DocumentTree
from holdfast.checkpoints._rows import event_of
from holdfast.checkpoints._source import Where
from holdfast.errors import StorageError
from holdfast.events._state import RuntimeState
from holdfast.ports import JournalStore


class RecordedEntity(Struct, frozen=True):
    """A flow, crew, agent or run as a checkpoint knows it."""

    entity_id: str
    entity_type: str
    name: str = ""


def read_state(where: Where, store: Callable[[], JournalStore]) -> RuntimeState:
    """What a checkpoint recorded: a file, or an id in a store. Raises StorageError if there is none."""
    with ThreadPoolExecutor(1) as thread:  # the caller may stand in any loop
        return thread.submit(asyncio.run, _read(where, store)).result()


async def _read(where: Where, store: Callable[[], JournalStore]) -> RuntimeState:
    if not isinstance(where, os.PathLike) and not where.endswith(".json"):
        return await _state_of(decode_document(await export_checkpoint(store(), where)))
    try:
        return await _state_of(decode_document(await asyncio.to_thread(Path(where).read_bytes)))
    except OSError as error:
        raise StorageError(f"{where} cannot be read: {error.strerror or error}") from error


async def _state_of(document: Document) -> RuntimeState:
    root = document.info.root_run_id
    state = RuntimeState(max_events=max(1, len(document.rows)), branch=document.mark.branch, parent_id=document.mark.id)
    blobs, previous = BlobReader(_from(document)), None
    for row in document.rows:
        event = event_of(await blobs.resolve_row(row), root, previous)
        previous = row.event_id
        state.record(event)
        if event.source_type is not None and event.source_id is not None:
            entity = RecordedEntity(event.source_id, event.source_type, event.source_name or "")
            state.register(entity, root)
    state.keep_tree(root, DocumentTree(document))
    return state


def _from(document: Document) -> Callable[[str], Awaitable[bytes]]:
    async def blob(digest: str) -> bytes:
        return document.blobs[digest]

    return blob
