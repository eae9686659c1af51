"""`CheckpointConfig`: where a run is written down, and what makes a named checkpoint."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.checkpoints._log import Durability
from holdfast.ports import JournalStore


class CheckpointConfig(Struct, frozen=True):
    """Write a run down so that it can be resumed."""

    store: JournalStore | Any
    """where: a `SqliteStore`, `PostgresStore` or `MemoryStore`"""
    on_events: tuple[str, ...] = ("task_completed", "method_execution_finished")
    """event types that make a named checkpoint"""
    durability: Durability = "step"
    """`step`: a step's result is on disk before the next begins; `exit`: everything is written at the end"""
