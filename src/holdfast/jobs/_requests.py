"""What is asked of a job while it runs, on its way from the service to the scheduler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.jobs._scope import Request, Shared
from holdfast.logs import get_logger
from holdfast.ports import Ask, JobControl, JobRequest
from holdfast.runs import Run

if TYPE_CHECKING:
    from holdfast.jobs._body import JobBody

log = get_logger("jobs")


class Inbox:
    """Takes requests from a job's control, hands them to its scheduler, and settles them once they are safe."""

    def __init__(self, control: JobControl) -> None:
        self.control = control
        self._next: asyncio.Task[JobRequest] | None = None
        self._pump: asyncio.Task[None] | None = None
        self._known: dict[str, JobRequest] = {}

    async def peek(self, seconds: float) -> str:
        """What is asked of the job, if that is waiting or comes in a moment; empty if nothing is."""
        self._next = self._next or asyncio.ensure_future(self.control.next_request())
        await asyncio.wait({self._next}, timeout=seconds)
        return self._next.result().kind if self._next.done() else ""

    def begin(self, run: Run, body: JobBody, shared: Shared) -> None:
        """Hand on what comes, from now on."""
        self._pump = asyncio.create_task(self._hand_on(run, body, shared))

    async def _hand_on(self, run: Run, body: JobBody, shared: Shared) -> None:
        while True:
            task = self._next or asyncio.ensure_future(self.control.next_request())
            self._next = task
            request = await task
            self._next = None
            told = self._note(request, body)
            if request.kind == "cancel":
                run.cancel(str(told.get("reason") or "cancelled"))
            shared.knock()

    def _note(self, request: JobRequest, body: JobBody) -> dict[str, Any]:
        self._known[request.id] = request
        told: dict[str, Any] = msgspec.json.decode(request.data or b"{}")
        if request.kind != "cancel":
            body.requests.append(_request(request, told))
        return told

    def hand_over(self, body: JobBody) -> None:
        """Give the body what was found by `peek`, so that it is there when it begins."""
        if self._next is not None and self._next.done() and self._next.result().kind != "cancel":
            request, self._next = self._next.result(), None
            self._note(request, body)

    async def settle(self, request: Request) -> None:
        """A request was acted on, and that is safe."""
        if (known := self._known.pop(request.id, None)) is not None:
            await self.control.settle(known)

    async def settle_all(self) -> None:
        """The job has ended or was put down: all that it was asked is acted on, and that is safe."""
        for request in list(self._known.values()):
            self._known.pop(request.id, None)
            await self.control.settle(request)

    async def show(self, asks: tuple[Ask, ...]) -> None:
        await self.control.show(asks)

    async def close(self) -> None:
        tasks = [task for task in (self._pump, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("requests to a job could not be read: %s", error)


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
