"""What the parts of the job store suite share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

from holdfast.ids import new_id
from holdfast.ports import (
    Caps,
    Job,
    JobMove,
    JobRequest,
    JobStatus,
    JobStore,
    Owner,
    Place,
    ProcessIdentity,
    WorkerInfo,
)

PROCESS = ProcessIdentity(Place("here", "boot-1", "pid:[1]"), 100, 12345, 2**63 + 5)
LONG = 10**15
ANY = Caps()


def make_job(**changes: Any) -> Job:
    """A job that waits for its first run."""
    values: dict[str, Any] = {"id": new_id(), "flow": "hello", "status": JobStatus.QUEUED, "created_us": 1}
    return Job(**(values | changes))


def make_worker(**changes: Any) -> WorkerInfo:
    values: dict[str, Any] = {"owner": Owner(new_id(), PROCESS), "held_until_us": LONG, "started_us": 1}
    return WorkerInfo(**(values | changes))


def make_request(job: Job, **changes: Any) -> JobRequest:
    values: dict[str, Any] = {"id": new_id(), "job_id": job.id, "kind": "pause", "at_us": 5}
    return JobRequest(**(values | changes))


def to(job: Job, target: JobStatus, **changes: Any) -> JobMove:
    """The move of a job, as it was read, to another status."""
    return JobMove(job.id, job.status, target, job.version, now_us=job.updated_us + 1, **changes)


async def moved(store: JobStore, job: Job, target: JobStatus, **changes: Any) -> Job:
    (after,) = await store.advance([to(job, target, **changes)])
    assert after is not None
    assert after.status is target
    return after


async def added(store: JobStore, **changes: Any) -> Job:
    job = make_job(**changes)
    await store.add([job])
    return await read(store, job)


async def read(store: JobStore, job: Job) -> Job:
    found = await store.job(job.id)
    assert found is not None
    return found


async def running(store: JobStore, **changes: Any) -> Job:
    """A job that a worker of its own has."""
    job, worker = await added(store, **changes), make_worker()
    await store.register(worker)
    claimed = await store.claim_job(job.id, worker.id, ANY, now_us=2)
    assert claimed is not None
    return claimed


async def refused(call: Awaitable[object], kind: type[Exception], *says: str) -> None:
    """Raise AssertionError unless the call raises such an error that says all this."""
    try:
        await call
    except kind as error:
        message = str(error)
    else:
        raise AssertionError(f"not refused: {says}")
    assert all(part in message for part in says), message


class JobStoreCase(ABC):
    """Fill `make_store`; and `make_twin` if storage can be shared."""

    @abstractmethod
    def make_store(self) -> JobStore:
        """A store on storage that is new and empty."""

    def make_twin(self, store: JobStore) -> JobStore | None:
        """Another store object on the same storage, as another process would have; None if it cannot be shared."""
        return None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[JobStore]:
        store = self.make_store()
        try:
            yield store
        finally:
            await store.aclose()
