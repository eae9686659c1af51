"""What the parts of `JournalStoreConformance` share: how to make a store, and small things to put into it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from holdfast.ids import new_id
from holdfast.ports import Batch, JournalStore, Mark, Row, RunInfo, Session

SECOND = 1_000_000
NOW = 1_750_000_000 * SECOND
"""When the tests take place. Time enters only through arguments, so nobody waits."""


def make_info(root_run_id: str | None = None, **changes: Any) -> RunInfo:
    """A run to open."""
    values: dict[str, Any] = {
        "root_run_id": root_run_id or new_id(),
        "kind": "flow",
        "name": "Greeting",
        "status": "running",
        "incarnation": 0,
        "fingerprint": "f1",
        "created_us": NOW,
        "updated_us": NOW,
        "definition": b'{"class":"Greeting"}',
    }
    return RunInfo(**(values | changes))


def make_row(seq: int, **changes: Any) -> Row:
    """A row with a payload that says its position."""
    values: dict[str, Any] = {
        "seq": seq,
        "type": "method_execution_finished",
        "event_id": new_id(),
        "at_us": NOW + seq,
        "run_id": new_id(),
        "payload": b'{"seq":%d}' % seq,
    }
    return Row(**(values | changes))


def make_rows(first: int, last: int, **changes: Any) -> tuple[Row, ...]:
    return tuple(make_row(seq, **changes) for seq in range(first, last + 1))


def make_mark(seq: int, **changes: Any) -> Mark:
    values: dict[str, Any] = {"id": new_id(), "seq": seq, "at_us": NOW + seq, "trigger": "manual"}
    return Mark(**(values | changes))


def marked(batch: Batch, trigger: str | None = None) -> Batch:
    """The batch with a mark for each of its rows, named after it as a run's checkpoints are."""
    marks = tuple(
        Mark(row.event_id, row.seq, row.at_us, trigger or row.type, parent_id=new_id(), size=row.seq)
        for row in batch.rows
    )
    return msgspec.structs.replace(batch, marks=marks)


async def open_run(
    store: JournalStore,
    info: RunInfo | None = None,
    *,
    branch: str = "main",
    owner: str = "one",
    now_us: int = NOW,
    seconds: int = 60,
) -> Session:
    """Take hold of a run for some seconds."""
    return await store.open(
        info or make_info(), branch=branch, owner=owner, now_us=now_us, hold_until_us=now_us + seconds * SECOND
    )


async def positions(
    store: JournalStore, run: Session | str, *, branch: str = "main", after: int = 0, upto: int | None = None
) -> list[int]:
    """The positions a reader sees."""
    root_run_id = run if isinstance(run, str) else run.root_run_id
    return [row.seq async for row in store.read(root_run_id, branch=branch, after=after, upto=upto)]


def written(session: Session, first: int, last: int, **changes: Any) -> Batch:
    """A batch of rows, and whatever else is named."""
    return msgspec.structs.replace(Batch(session, make_rows(first, last)), **changes)


class JournalSuite(ABC):
    """The hooks a subclass fills."""

    @abstractmethod
    def make_store(self) -> JournalStore:
        """A store on storage that is new and empty."""

    def make_twin(self, store: JournalStore) -> JournalStore | None:
        """Another store object on the same storage, as another process would have; None if it cannot be shared."""
        return None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[JournalStore]:
        """A new store, closed afterwards."""
        store = self.make_store()
        try:
            yield store
        finally:
            await store.aclose()

    @asynccontextmanager
    async def opened_twice(self) -> AsyncIterator[tuple[JournalStore, JournalStore]]:
        """Two objects on one storage; where it cannot be shared, the same one twice."""
        async with self.opened() as store:
            twin = self.make_twin(store)
            try:
                yield store, twin or store
            finally:
                if twin is not None:
                    await twin.aclose()
