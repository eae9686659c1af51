"""Checkpoints of a run that is going on, as documents: what is stored of it, and what is not yet."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from msgspec.structs import replace

from holdfast.checkpoints._document import Document, decode_document, encode_document
from holdfast.checkpoints._export import export_checkpoint
from holdfast.checkpoints._provider_json import JsonProvider
from holdfast.checkpoints._rows import envelope_of
from holdfast.checkpoints._unstored import Unstored
from holdfast.events._base import BaseEvent, stamp
from holdfast.events._record import EventRecord
from holdfast.events._state import RuntimeState
from holdfast.ports import JournalStore, Mark, Row


async def live_document(store: JournalStore, unstored: Unstored, mark: Mark) -> Document:
    """A document of a run at the position of a mark."""
    stored = decode_document(await export_checkpoint(store, mark.root_run_id, branch=mark.branch))
    upto = stored.mark.seq
    rows = [row for row in stored.rows if row.seq <= mark.seq]
    rows += [row for row in unstored.rows if upto < row.seq <= mark.seq]
    branches = (*stored.branches[:-1], replace(stored.branches[-1], head=mark.seq))
    blobs = {**stored.blobs, **unstored.blobs}
    return replace(stored, mark=mark, rows=tuple(rows), branches=branches, blobs=blobs)


class RecordedTree:
    """What `RuntimeState` writes into files: a run tree as a document."""

    __slots__ = ()

    async def document(self) -> Document:
        """The tree as it is now. Raises StorageError if something in it cannot be stored."""
        raise NotImplementedError

    async def acheckpoint(self, directory: str | os.PathLike[str], branch: str | None = None) -> str:
        """Write it into a file in a directory, and say where; on a branch of its own if that is given."""
        document = await self.document()
        if branch is not None and branch != document.mark.branch:
            document = document.on_branch(branch, document.mark.at_us)
        return await JsonProvider(directory).awrite(encode_document(document))

    def checkpoint(self, directory: str | os.PathLike[str], branch: str | None = None) -> str:
        """`acheckpoint`, blocking. In a thread of its own, since the caller may stand in any loop."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self.acheckpoint(directory, branch)).result()


Unbuilt: TypeAlias = tuple[type[BaseEvent], dict[str, Any], int, str | None, Row]
"""An event that nobody heard: its class, all of its fields, its number, the event before it, and its row."""


class JournalledState(RuntimeState):
    """What handlers are shown of a tree that is written down: its newest events. The others are in the journal."""

    def __init__(self, shown: int, root_run_id: str, branch: str, parent_id: str | None) -> None:
        self._root_run_id = root_run_id
        self._recent: deque[BaseEvent | Unbuilt] = deque(maxlen=shown)
        super().__init__(max_events=shown, branch=branch, parent_id=parent_id)
        self.show: Callable[[Unbuilt], None] = self._recent.append
        """Keep an event that is not built yet."""

    def record(self, event: BaseEvent) -> None:
        self._recent.append(event)

    @property
    def event_record(self) -> EventRecord:
        """The newest events, linked. Built and linked when it is asked for: most runs are never looked at."""
        record = EventRecord(self.max_events)
        for event in list(self._recent):
            record.add(self._built(*event) if isinstance(event, tuple) else event)
        return record

    def _built(
        self, event_type: type[BaseEvent], payload: dict[str, Any], number: int, before: str | None, row: Row
    ) -> BaseEvent:
        event = event_type(**payload)
        stamp(event, envelope_of(row, self._root_run_id, before, number))
        return event

    def finish_tree(self, root_run_id: str) -> None:
        """It ends with its run."""


class DocumentTree(RecordedTree):
    """A tree that was read from a document."""

    def __init__(self, document: Document) -> None:
        self._document = document

    async def document(self) -> Document:
        return self._document
