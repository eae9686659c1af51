"""`CheckpointConfig`: where a run is written down, and what makes a named checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.ports import CheckpointProvider, JournalStore

Durability = Literal["step", "async", "exit"]
MARKED = ("task_completed", "method_execution_finished")


class CheckpointConfig(Struct, frozen=True):
    """Write a run down so that it can be resumed."""

    store: CheckpointProvider | JournalStore | Any = None
    """where: a provider (`SqliteProvider`, `PostgresProvider`, `JsonProvider`) or a journal store; None for the runtime's own"""
    on_events: tuple[str, ...] = MARKED
    """event types that make a named checkpoint"""
    max_checkpoints: int | None = None
    """how many of these a run keeps once it is over; of documents, at any time. None for all"""
    durability: Durability = "step"
    """`step`: a step's result is on disk before the next begins; `async`: it is shortly after, and a crash loses the last few;
    `exit`: everything is written at the end"""
    on_change: Literal["refuse", "adopt"] = "refuse"
    """whether a run goes on when its program has other steps than it was recorded with"""
    secrets: Callable[[str], str | None] | None = None
    """gives a secret of the state when a run is resumed, by its path (`api_key`); None for the environment"""

    def __post_init__(self) -> None:
        given: object = self.on_events
        if isinstance(given, str):
            raise UsageError(f"on_events takes several event types: on_events=({given!r},)")
