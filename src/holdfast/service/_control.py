"""What a running job hears from outside and tells: the worker's side of `JobControl`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from holdfast.clock import Clock, SystemClock
from holdfast.errors import StoreUnavailableError
from holdfast.ports import Ask, Job, JobRequest, JobStore, LogLine
from holdfast.service._away import leave_alone
from holdfast.service._logs import LogWriter

logger = logging.getLogger(__name__)


class Control:
    """Of one claimed job. A store that is away is waited for: what the job has at work must not be lost for a note about it."""

    def __init__(self, jobs: JobStore, job: Job, log: LogWriter | None, clock: Clock | None = None) -> None:
        self._jobs, self._job, self._log = jobs, job, log
        self._clock: Clock = clock or SystemClock()
        self._requests: asyncio.Queue[JobRequest] = asyncio.Queue()
        self._delivered: set[str] = set()
        self.taken: list[str] = []
        """The requests that the runner knows of."""

    def deliver(self, requests: Iterable[JobRequest]) -> None:
        """Pass on what is new of a job's requests."""
        for request in requests:
            if request.id not in self._delivered:
                self._delivered.add(request.id)
                self._requests.put_nowait(request)

    @property
    def has_delivered_all(self) -> bool:
        """Whether the runner has taken every request there was."""
        return self._requests.empty()

    async def next_request(self) -> JobRequest:
        request = await self._requests.get()
        self.taken.append(request.id)
        return request

    async def settle(self, request: JobRequest) -> None:
        await self._patiently(lambda: self._jobs.settle(request.id))

    async def show(self, asks: Sequence[Ask]) -> None:
        now_us = self._clock.time_ns() // 1000
        await self._patiently(lambda: self._jobs.show(self._job.id, self._job.version, asks=asks, now_us=now_us))

    async def _patiently(self, write: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await write()
                return
            except StoreUnavailableError as error:
                logger.warning("something about job %s cannot be stored now, trying again: %s", self._job.id, error)
                await leave_alone(self._clock)

    def log(self, line: LogLine) -> None:
        if self._log is not None:
            self._log.write(line)

    def close(self) -> None:
        """The job is out of this worker's hands."""
        if self._log is not None:
            self._log.close()
