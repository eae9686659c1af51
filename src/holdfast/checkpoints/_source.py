"""What a configuration means: where a run is written down, and from which checkpoint there it goes on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from holdfast import stores
from holdfast.checkpoints._config import CheckpointConfig
from holdfast.checkpoints._files import read_document
from holdfast.checkpoints._import import import_checkpoint
from holdfast.clock import Clock
from holdfast.errors import StorageError
from holdfast.ids import IdFactory
from holdfast.ports import CheckpointProvider, JournalStore

Where: TypeAlias = str | os.PathLike[str]
"""The id of a checkpoint, the id of a run, or a file with a checkpoint."""


class Host(Protocol):
    """What is needed of a runtime."""

    clock: Clock
    new_id: IdFactory

    @property
    def store(self) -> JournalStore: ...


class Source(Struct, frozen=True):
    """Where a run is written down, and from which checkpoint there it goes on."""

    store: JournalStore | Any
    checkpoint: str | None = None
    exporter: CheckpointProvider | Any = None
    """who is given each checkpoint as a document, because the store is only in memory"""

    def place_of(self, where: Where) -> Where:
        """Where the checkpoint that `where` named is found again: a file that was read into a store in memory is read again."""
        return where if self.exporter is not None and _is_file(where) else self.checkpoint or where


async def source_of(config: CheckpointConfig, host: Host, where: Where | None) -> Source:
    """The source of a kickoff. `where` is the id of a checkpoint or of a run, or a file with one. Raises StorageError."""
    source = _without_checkpoint(config, host)
    if where is None:
        return source
    document = await _document(source, where)
    if document is None:
        return Source(source.store, str(where), source.exporter)
    from_file = f"from-{host.new_id()[-8:]}"  # the run may have gone on where the file comes from
    now = host.clock.time_ns() // 1000
    mark = await import_checkpoint(source.store, document, now_us=now, branch=from_file)
    return Source(source.store, mark.id, source.exporter)


def _without_checkpoint(config: CheckpointConfig, host: Host) -> Source:
    kept: Any = config.store
    if kept is None:
        return Source(host.store)
    if not hasattr(kept, "awrite"):  # a journal, not a provider
        return Source(kept)
    return Source(kept.journal) if kept.journal is not None else Source(stores.MemoryStore(), exporter=kept)


async def _document(source: Source, where: Where) -> bytes | None:
    """The document that `where` names; None if it is an id."""
    file = Path(where) if _is_file(where) else None
    if source.exporter is not None:
        newest = await source.exporter.alist(run_id=str(where), limit=1)  # a run's id stands for its last checkpoint
        try:
            found: bytes = await source.exporter.aread(newest[0].location if newest else str(where))
            return found
        except StorageError:
            if file is None or not file.is_file():
                raise
    return await asyncio.to_thread(read_document, file) if file is not None else None


def _is_file(where: Where) -> bool:
    return isinstance(where, os.PathLike) or where.endswith(".json")
