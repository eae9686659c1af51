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
    """Write a run down so that it can be resumed: where, how soon, and which of its moments get a name.

    Raises UsageError if `on_events` is one text instead of several.
    """

    store: CheckpointProvider | JournalStore | Any = None
    """where: a provider (`SqliteProvider`, `PostgresProvider`, `JsonProvider`) or a journal store; None for the runtime's own"""
    on_events: tuple[str, ...] = MARKED
    """types of events, spelled as `holdfast events` has them, of the run or of runs inside it, that make a named checkpoint; `*`
    stands for all of them"""
    max_checkpoints: int | None = None
    """how many of these a branch keeps once its run is over; of documents, at any time. What a branch stands on stays. None for
    all"""
    durability: Durability = "step"
    """`step`: a step's result is on disk before the next begins; `async`: it is shortly after, and a crash loses the last few;
    `exit`: everything is written at the end, also when the run fails, waits or is left, and a crash loses all of it"""
    on_change: Literal["refuse", "adopt"] = "refuse"
    """whether a run goes on when its program has other steps, triggers or routes than it was recorded with"""
    secrets: Callable[[str], str | None] | None = None
    """gives a secret of the state when a run is resumed, by its path (`api_key`, `accounts.0.key`), or None if it has none;
    without it the environment does (`HOLDFAST_SECRET_API_KEY`)"""

    def __post_init__(self) -> None:
        given: object = self.on_events
        if isinstance(given, str):
            raise UsageError(f"on_events takes several event types: on_events=({given!r},)")
