"""What is asked of a job while it runs, on its way from the service to the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.jobs._scope import Request
from holdfast.logs import get_logger
from holdfast.ports import Ask, JobControl, JobRequest
from holdfast.runs import End, Run, RunStatus

if TYPE_CHECKING:
    from holdfast.jobs._body import JobBody

log = get_logger("jobs")
_FOR_LATER = {RunStatus.COMPLETED: {"rerun"}, RunStatus.FAILED: {"rerun", "answer"}, RunStatus.CANCELLED: set[str]()}
"""What stays asked of a job that has ended."""


class Inbox:
    """Takes requests from a job's control, hands them to its scheduler, and settles them once they are safe.

    One task reads them, from the beginning. What comes before the job's run is there is kept for it.
    """

    def __init__(self, control: JobControl) -> None:
        self.control = control
        self._known: dict[str, JobRequest] = {}
        """What is not settled."""
        self._kept: list[JobRequest] = []
        self._run: Run | None = None
        self._body: JobBody | None = None
        self._come = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    @property
    def unsettled(self) -> tuple[str, ...]:
        """The requests that have come and are not settled, by id."""
        return tuple(self._known)

    async def peek(self, seconds: float = 0.0) -> set[str]:
        """What kinds of things are asked of the job, if something is or comes in a moment."""
        await asyncio.sleep(0)  # what is there already is read by then
        if seconds and not self._kept:
            await asyncio.wait({waiter := asyncio.ensure_future(self._come.wait())}, timeout=seconds)
            waiter.cancel()
        return {request.kind for request in self._kept}

    async def _read(self) -> None:
        while True:
            request = await self.control.next_request()
            self._known[request.id] = request
            if self._run is None or self._body is None:
                self._kept.append(request)
                self._come.set()
            else:
                self._hand_on(request, self._run, self._body)
                self._body.scope.shared.knock()

    def begin(self, run: Run, body: JobBody) -> None:
        """Hand on what has come, and what comes from now on. The run is to have done nothing yet."""
        self._run, self._body = run, body
        for request in self._kept:
            self._hand_on(request, run, body)
        self._kept.clear()

    def _hand_on(self, request: JobRequest, run: Run, body: JobBody) -> None:
        told: dict[str, Any] = msgspec.json.decode(request.data or b"{}")
        if request.kind != "cancel":
            body.requests.append(_request(request, told))
        elif body.scheduler is None:
            body.unwanted = str(told.get("reason") or "cancelled")
        else:
            run.cancel(str(told.get("reason") or "cancelled"))

    async def settle(self, request: Request) -> None:
        """A request was acted on, and that is safe."""
        if (known := self._known.pop(request.id, None)) is not None:
            await self.control.settle(known)

    async def settle_rest(self, end: End, body: JobBody) -> tuple[str, ...]:
        """The job has ended, or was put down: what it was asked is acted on, and that is safe.

        But for what came too late to be heard: that is asked of whoever takes it up again. And for answers to steps of a job that
        is paused, or has failed and may be retried. Returns these: they can wait until it goes on.
        """
        early = _early(body) if end.status in (RunStatus.PAUSED, RunStatus.FAILED) else ()
        kept = {*self._unheard(end, body), *early}
        for request in [known for known in self._known.values() if known.id not in kept]:
            self._known.pop(request.id, None)
            await self.control.settle(request)
        return early

    def _unheard(self, end: End, body: JobBody) -> Iterator[str]:
        """What came too late; of one that has ended only what counts when it is taken up again."""
        if not end.status.is_terminal:
            yield from (request.id for request in (*body.requests, *(asked for _, asked in body.scope.shared.passed)))
            yield from (known.id for known in self._known.values() if known.kind == "cancel")
        else:
            kinds = _FOR_LATER[end.status]
            yield from (request.id for request in body.requests if request.kind in kinds)

    async def show(self, asks: tuple[Ask, ...]) -> None:
        await self.control.show(asks)

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.wait({self._reader})
        if not self._reader.cancelled() and (error := self._reader.exception()) is not None:
            log.warning("requests to a job could not be read: %s", error)


def _early(body: JobBody) -> tuple[str, ...]:
    """Answers that no step has taken yet."""
    acted, answers = body.scheduler.acted if body.scheduler is not None else [], body.scope.shared.answers
    return tuple(request.id for request in acted if request.kind == "answer" and request.ask in answers)


def _request(request: JobRequest, told: dict[str, Any]) -> Request:
    return Request(
        request.id,
        request.kind,
        step=str(told.get("step", "")),
        reason=str(told.get("reason", "")),
        by=request.by,
        ask=str(told.get("ask", "")),
        values=dict(told.get("values") or {}),
    )
