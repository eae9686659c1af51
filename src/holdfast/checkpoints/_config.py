"""`CheckpointConfig`: where a run is written down, and what makes a named checkpoint."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.events._codec import event_classes, registry
from holdfast.ports import CheckpointProvider, JournalStore

Durability = Literal["step", "async", "exit"]
OnChange = Literal["refuse", "adopt"]
MARKED = ("task_completed", "method_execution_finished")


class CheckpointConfig(Struct, frozen=True):
    """Write a run down so that it can be resumed: where, how soon, and which of its moments get a name.

    Raises UsageError for what cannot be meant, with what to write instead.
    """

    store: CheckpointProvider | JournalStore | Any = None
    """where: a provider (`SqliteProvider`, `PostgresProvider`, `JsonProvider`) or a journal store; None for the runtime's own"""
    on_events: Sequence[str] = MARKED
    """types of events, spelled as `holdfast events` has them, of the run or of runs inside it, that make a named checkpoint; `*`
    stands for all of them"""
    max_checkpoints: int | None = None
    """how many of these a branch keeps once its run is over; of documents, at any time. What a branch stands on stays. None for
    all"""
    durability: Durability = "step"
    """`step`: a step's result is on disk before the next begins; `async`: it is shortly after, and a crash loses the last few;
    `exit`: everything is written at the end, also when the run fails, waits or is left, and a crash loses all of it"""
    on_change: OnChange = "refuse"
    """whether a run goes on when its program has other steps, triggers or routes than it was recorded with"""
    self_contained: bool = True
    """whether agents, tasks, tools and models are stored too, so that `Crew.from_checkpoint` makes them again in a process that
    has only their classes and functions. False for what has no stored form (a lambda, a local function): then only
    `kickoff(from_checkpoint=…)` of an object like the first one goes on"""
    secrets: Callable[[str], Any] | None = None
    """gives a secret of the state when a run is resumed, by its path (`api_key`, `accounts.0.key`), or None if it has none;
    without it the environment does (`HOLDFAST_SECRET_API_KEY`)"""

    def __post_init__(self) -> None:
        store: object = self.store
        if store is not None and not (hasattr(store, "awrite") or hasattr(store, "append_now")):
            raise UsageError(
                f"a CheckpointConfig wants a provider or a store, not {store!r}: CheckpointConfig(SqliteProvider({str(store)!r}))"
            )
        for name, value, known in (
            ("durability", self.durability, get_args(Durability)),
            ("on_change", self.on_change, get_args(OnChange)),
        ):
            if value not in known:
                raise UsageError(f"{name}={value!r} is none of {', '.join(known)}")
        if self.max_checkpoints is not None and self.max_checkpoints < 1:
            raise UsageError(
                f"max_checkpoints={self.max_checkpoints!r} would keep none; write 1 or more, or None for all"
            )
        given: object = self.on_events
        if isinstance(given, str):
            raise UsageError(f"on_events takes several event types: on_events=({given!r},)")
        for event in self.on_events if self.on_events is not MARKED else ():
            _check_event(event)


def _check_event(name: str) -> None:
    """Refuse what looks like a known type misspelled. Other unknown ones may be defined later."""
    if name == "*" or registry.get(name) is not None:
        return
    if near := difflib.get_close_matches(name, event_classes(), n=1, cutoff=0.75):
        raise UsageError(f"on_events: no event has the type {name!r}; did you mean {near[0]!r}?")
