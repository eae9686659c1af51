"""What every outbox decides the same way: who is told of a change, and what is said. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.ids import new_id
from holdfast.ports import WEBHOOK, Ask, Delivery, HookEvent, Job, JobStatus, Row, Subscription, Subscriptions

STEP: HookEvent = "step_completed"
REASON = 2_000
"""Characters of a reason that are told."""
FORMS = 64 * 1024
"""Bytes of questions that are told; beyond that they go without their forms, which can be asked for."""

_EVENTS: dict[JobStatus, HookEvent] = {
    JobStatus.AWAITING_APPROVAL: "approval_needed",
    JobStatus.PAUSED: "paused",
    JobStatus.COMPLETED: "completed",
    JobStatus.FAILED: "failed",
    JobStatus.CANCELLED: "cancelled",
}
_EPOCH = datetime.fromtimestamp(0, UTC)


def nobody() -> Subscriptions:
    return ()


class Telling:
    """Who is to be told of what happens to jobs, as one store has it; and whether it has told anybody yet."""

    def __init__(self, read: Callable[[], Subscriptions] = nobody) -> None:
        self._read = read
        self.subscriptions: Subscriptions = ()
        self.has_told = False

    def prepare(self) -> None:
        """Learn who is to be told, the first time. Raises what reading that raises, before anything is written."""
        if self._read is not nobody:
            self.subscriptions, self._read = self._read(), nobody

    def hears(self, job_webhook: str) -> bool:
        """Whether anybody may want to hear of a job with this address of its own."""
        return bool(self.subscriptions or job_webhook)


class Happening(Struct, frozen=True):
    """Something that happened to a job, as it is to be told."""

    event: HookEvent
    at_us: int
    asks: tuple[Ask, ...] = ()
    step: str = ""
    attempt: int = 0


class _Step(Struct):
    """What is read of a completed step; its result is skipped."""

    step: str = ""
    execution: int = 0
    elsewhere: str = field(name="$blob+json", default="")
    """the hash under which all of it is kept, if it is large"""


_read_step = msgspec.json.Decoder(_Step).decode


def happening(job: Job, asked: tuple[Ask, ...], at_us: int) -> Happening | None:
    """What there is to tell of a job as it is, that asked for `asked` before; None if that is nothing to anybody.

    A job that waits for a time only is no news, and neither is a question that was there before.
    """
    fresh = news(job.asks, asked)
    if (event := _EVENTS.get(job.status)) is not None:
        return Happening(event, at_us, fresh)
    if fresh:
        return Happening("waiting", at_us, fresh)
    stuck = job.status is JobStatus.WAITING and not job.asks and job.wake_us is None
    return Happening("waiting", at_us) if stuck else None


def news(asks: Iterable[Ask], asked: Iterable[Ask]) -> tuple[Ask, ...]:
    """Those that were not asked before."""
    known = {ask.id for ask in asked}
    return tuple(ask for ask in asks if ask.id not in known)


def completed_step(data: bytes, at_us: int, blob: Callable[[str], bytes]) -> Happening | None:
    """What a row of a journal says of a step of the graph. `blob` finds large values by their hash."""
    told = _read_step(data)
    if told.elsewhere:
        told = _read_step(blob(told.elsewhere))
    return Happening(STEP, at_us, step=told.step, attempt=told.execution) if told.step else None


def is_own_step(row: Row, job_id: str) -> bool:
    """Whether a row tells that a step of the job's own flow completed."""
    return row.type == STEP and row.run_id == job_id


def follows_steps(flow: str, subscriptions: Iterable[Subscription]) -> bool:
    """Whether anybody wants to hear of a flow's steps."""
    return any(STEP in one.on and fnmatchcase(flow, one.flow) for one in subscriptions)


def deliveries(job: Job, what: Happening, subscriptions: Iterable[Subscription]) -> list[Delivery]:
    """What goes out, to each target that wants to know: the project's hooks, and the job's own address but of steps."""
    targets = [one.target for one in subscriptions if what.event in one.on and fnmatchcase(job.flow, one.flow)]
    if job.webhook and what.event != STEP:
        targets.append(WEBHOOK + job.webhook)
    return [_delivery(job, what, target) for target in targets]


def _delivery(job: Job, what: Happening, target: str) -> Delivery:
    delivery_id = new_id()
    body = msgspec.json.encode({"id": delivery_id, **said(job, what)})
    return Delivery(delivery_id, job.id, what.event, target, body, what.at_us)


def said(job: Job, what: Happening) -> dict[str, Any]:
    """What is told, but for the delivery's id. Neither inputs nor outputs: those are for whoever may ask for them."""
    told: dict[str, Any] = {
        "event": what.event,
        "job": {"id": job.id, "flow": job.flow, "name": job.name, "status": job.status, "labels": job.labels,
                "reason": job.reason[:REASON]},
        "at": _EPOCH + timedelta(microseconds=what.at_us),
    }  # fmt: skip
    if what.step:
        told["step"] = {"name": what.step, "attempt": what.attempt}
    if what.asks:
        told["asks"] = _forms(what.asks)
    return told


def _forms(asks: tuple[Ask, ...]) -> list[dict[str, Any]]:
    told = [{"id": ask.id, "step": ask.step, "message": ask.message[:REASON], "fields": ask.fields} for ask in asks]
    if len(msgspec.json.encode(told)) > FORMS:
        return [{"id": ask.id, "step": ask.step} for ask in asks[:100]]
    return told
