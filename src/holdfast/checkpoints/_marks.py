"""Named checkpoints as they are made: told of, handed to a provider that keeps documents, and bounded in number."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from holdfast.checkpoints._export import export_checkpoint
from holdfast.checkpoints._pruning import left_at
from holdfast.errors import HoldfastError
from holdfast.events._base import BaseEvent
from holdfast.events.families.checkpoint import (
    CheckpointCompletedEvent,
    CheckpointFailedEvent,
    CheckpointPrunedEvent,
    CheckpointStartedEvent,
)
from holdfast.logs import get_logger
from holdfast.ports import CheckpointProvider, JournalStore, Mark, Session
from holdfast.threads import LoopThread

log = get_logger("checkpoints")
EVERYTHING = 2**62
"""Stands for "no limit": a mark that was not listed would count as one to drop."""
Tell = Callable[[type[BaseEvent], dict[str, Any]], object]


class Marking:
    """What happens around the commit of a mark. A document that cannot be written is told of; the run goes on."""

    def __init__(
        self,
        store: JournalStore,
        session: Session,
        loop_thread: LoopThread,
        tell: Tell,
        wants: Callable[[type[BaseEvent]], bool],
        exporter: CheckpointProvider | None = None,
        most: int | None = None,
    ) -> None:
        self._store = store
        self._session = session
        self._loop_thread = loop_thread
        self._tell = tell
        self.wants = wants
        """Whether anybody would see an event."""
        self.exporter = exporter
        self._most = most
        self._about = {"provider": type(exporter or store).__name__, "branch": session.branch}
        self._began = 0.0

    def begin(self, marks: tuple[Mark, ...]) -> None:
        """These are about to be stored."""
        self._began = time.perf_counter()
        for mark in marks:
            self._tell(CheckpointStartedEvent, {"trigger": mark.trigger, **self._about})

    def fail(self, marks: tuple[Mark, ...], error: BaseException) -> None:
        """They could not be."""
        told = {"error": str(error), "error_type": type(error).__name__}
        for mark in marks:
            self._tell(CheckpointFailedEvent, {"trigger": mark.trigger, **told, **self._about})

    def end_now(self, marks: tuple[Mark, ...]) -> None:
        """They are stored. Not in the loop thread, which would wait for itself."""
        if self.exporter is None:
            self._tell_stored(marks, [mark.id for mark in marks])
        else:
            self._loop_thread.submit(self._export(marks, self.exporter)).result()

    async def end(self, marks: tuple[Mark, ...]) -> None:
        """`end_now`, without blocking the loop."""
        if self.exporter is None:
            self._tell_stored(marks, [mark.id for mark in marks])
        else:
            await self._export(marks, self.exporter)

    async def _export(self, marks: tuple[Mark, ...], exporter: CheckpointProvider) -> None:
        try:
            places = [await exporter.awrite(await export_checkpoint(self._store, mark.id)) for mark in marks]
        except (HoldfastError, OSError) as error:
            log.error("a checkpoint of run %s could not be written: %s", self._session.root_run_id, error)
            self.fail(marks, error)
            return
        self._tell_stored(marks, places)
        if self._most is not None:
            self._pruned(await exporter.aprune(run_id=self._session.root_run_id, keep=self._most))

    def _tell_stored(self, marks: tuple[Mark, ...], places: list[str]) -> None:
        took = (time.perf_counter() - self._began) * 1000
        for mark, place in zip(marks, places, strict=True):
            told = {"location": place, "trigger": mark.trigger, "duration_ms": took, **self._about}
            self._tell(CheckpointCompletedEvent, {"checkpoint_id": mark.id, "parent_id": mark.parent_id, **told})

    async def prune(self) -> None:
        """The run is over: keep no more of its marks than is wanted. What a branch stands on stays."""
        if self._most is None or self.exporter is not None:
            return
        mine = await self._store.marks(self._session.root_run_id, limit=EVERYTHING)
        old = [mark for mark in mine if mark.branch == self._session.branch][self._most :]
        gone = {mark.id for mark in old} - left_at(mine)
        if gone:
            await self._store.prune(
                self._session.root_run_id, keep_marks=[mark.id for mark in mine if mark.id not in gone]
            )
            self._pruned(len(gone))

    def _pruned(self, count: int) -> None:
        if count:
            self._tell(CheckpointPrunedEvent, {"removed_count": count, "max_checkpoints": self._most, **self._about})
