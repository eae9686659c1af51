"""What the parts of the outbox suite share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.ids import new_id
from holdfast.ports import (
    HOOK_EVENTS,
    Batch,
    Delivery,
    DeliveryQuery,
    Job,
    JobStore,
    JournalStore,
    Outbox,
    Row,
    RunInfo,
    Session,
    Subscription,
    Subscriptions,
)

EVERYTHING = Subscription("hook:all", frozenset(HOOK_EVENTS))
LATE = 10**15


class Office(Struct, frozen=True):
    """Jobs, their journals and their outbox, on one storage."""

    jobs: JobStore
    journals: JournalStore
    outbox: Outbox


def told(delivery: Delivery) -> Any:
    """What a delivery says."""
    return msgspec.json.decode(delivery.body)


async def written(outbox: Outbox, job: Job | None = None) -> list[Delivery]:
    """All there are, in the order of what happened."""
    return (await outbox.deliveries(DeliveryQuery(job_id="" if job is None else job.id, limit=10_000)))[::-1]


async def events(outbox: Outbox, job: Job | None = None) -> list[str]:
    return [one.event for one in await written(outbox, job)]


async def claimed(outbox: Outbox, owner: str = "me", now_us: int = LATE, limit: int = 100) -> list[Delivery]:
    return await outbox.claim(owner, now_us=now_us, until_us=now_us + 60, limit=limit)


def completed(step: str, seq: int, run_id: str, execution: int = 1) -> Row:
    """A row of a journal: a step gave its result."""
    payload = msgspec.json.encode({"name": step, "step": step, "execution": execution, "result": {"big": "x" * 50}})
    return Row(seq=seq, type="step_completed", event_id=new_id(), at_us=seq, run_id=run_id, payload=payload)


async def begin_journal(journals: JournalStore, job: Job) -> Session:
    info = RunInfo(job.id, "job", job.flow, "running", 0, "f1", 1, 1)
    return await journals.open(info, owner="me", now_us=1, hold_until_us=LATE)


async def append(journals: JournalStore, session: Session, rows: Sequence[Row]) -> None:
    await journals.append(Batch(session, rows=tuple(rows)))


class OutboxCase(ABC):
    """Fill `make_office`; and `make_twin` if storage can be shared."""

    @abstractmethod
    def make_office(self, hooks: Subscriptions) -> Office:
        """An office on storage that is new and empty, whose jobs and outbox tell these hooks."""

    def make_twin(self, office: Office) -> Outbox | None:
        """Another outbox on the same storage, as another process would have; None if it cannot be shared."""
        return None

    @asynccontextmanager
    async def opened(self, *hooks: Subscription) -> AsyncIterator[Office]:
        office = self.make_office(hooks)
        try:
            yield office
        finally:
            await office.outbox.aclose()
            await office.jobs.aclose()
            await office.journals.aclose()
