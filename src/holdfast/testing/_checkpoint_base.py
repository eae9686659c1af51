"""What the parts of `CheckpointProviderConformance` share: how to make a provider, and runs to put into it."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.checkpoints import export_checkpoint
from holdfast.checkpoints._document import decode_document, digest_of
from holdfast.ids import new_id
from holdfast.ports import Batch, CheckpointProvider, Mark, Session, Snapshot
from holdfast.stores import MemoryStore
from holdfast.testing._journal_base import NOW, make_info, make_mark, make_rows, open_run


class Story:
    """A run in memory that grows by rows, marks and branches, and tells each mark as a document."""

    def __init__(self, root_run_id: str | None = None) -> None:
        self.store = MemoryStore()
        self.root = root_run_id or new_id()
        self._heads = {"main": 0}
        self._last: dict[str, str | None] = {"main": None}

    async def go(self, rows: int = 3, *, branch: str = "main", snapshot: bytes | None = None, **changes: Any) -> Mark:
        """Some more rows, a large value, and a mark at the end of them."""
        head = self._heads[branch]
        seq = self._heads[branch] = head + rows
        value = f"large value of {self.root} {branch} {seq}".encode()
        payload = b'{"large":{"$blob":"%b"}}' % digest_of(value).encode()
        fields = {"at_us": NOW + seq, "parent_id": self._last[branch], "branch": branch, "root_run_id": self.root}
        mark = make_mark(seq, **(fields | changes))
        self._last[branch] = mark.id
        taken = Snapshot(seq, snapshot) if snapshot is not None else None
        await self.store.append(
            Batch(
                await self._session(branch),
                make_rows(head + 1, seq, payload=payload, delta=b'["set","x",1]'),
                ((digest_of(value), value),),
                taken,
                (mark,),
            )
        )
        return mark

    async def fork(self, branch: str, at: Mark, state: bytes | None = None) -> None:
        """A branch that leaves at a mark, with a state of its own if one is given."""
        await self.store.fork(self.root, branch=branch, parent=at.branch, at_seq=at.seq, now_us=NOW + at.seq)
        self._heads[branch], self._last[branch] = at.seq, at.id
        if state is not None:
            await self.store.append(Batch(await self._session(branch), snapshot=Snapshot(at.seq, state)))

    async def document(self, mark: Mark) -> bytes:
        return await export_checkpoint(self.store, mark.id)

    async def _session(self, branch: str) -> Session:
        return await open_run(self.store, make_info(self.root), branch=branch)


async def short_story(rows: int = 3, **changes: Any) -> tuple[Mark, bytes]:
    """A run of its own with one mark."""
    story = Story()
    mark = await story.go(rows, **changes)
    return mark, await story.document(mark)


def told(document: bytes) -> tuple[Any, ...]:
    """What a document amounts to, whichever journal it went through."""
    found = decode_document(document)
    return found.mark, found.rows, found.blobs, found.snapshot, found.info.definition


def write_for_ever(provider: CheckpointProvider) -> None:
    """For a process that is to be killed: write large documents, and say each one's id once it is written."""
    stories = asyncio.run(_long_stories(14))
    for mark, document in stories:
        provider.write(document)
        os.write(1, mark.id.encode() + b"\n")


async def _long_stories(count: int) -> list[tuple[Mark, bytes]]:
    return [await short_story(2_000) for _ in range(count)]


class CheckpointSuite(ABC):
    """The hooks a subclass fills."""

    @abstractmethod
    def make_provider(self) -> CheckpointProvider:
        """A provider on storage that is new and empty."""

    @abstractmethod
    def make_twin(self, provider: CheckpointProvider) -> CheckpointProvider:
        """Another provider object on the same storage, as another process would have."""

    @abstractmethod
    def twin_source(self, provider: CheckpointProvider) -> str:
        """Python that makes such a twin in another process and calls it `provider`."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[CheckpointProvider]:
        """A new provider, closed afterwards."""
        provider = self.make_provider()
        try:
            yield provider
        finally:
            await provider.aclose()

    @asynccontextmanager
    async def opened_beside(self, provider: CheckpointProvider) -> AsyncIterator[CheckpointProvider]:
        """A twin, closed afterwards."""
        twin = self.make_twin(provider)
        try:
            yield twin
        finally:
            await twin.aclose()

    @asynccontextmanager
    async def opened_twice(self) -> AsyncIterator[tuple[CheckpointProvider, CheckpointProvider]]:
        """Two objects on one storage."""
        async with self.opened() as provider, self.opened_beside(provider) as twin:
            yield provider, twin
