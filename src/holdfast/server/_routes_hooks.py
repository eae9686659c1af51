"""Deliveries over HTTP: what hooks and webhooks were told, or could not be."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from holdfast.hooks import show_target
from holdfast.ports import Delivery, DeliveryQuery, DeliveryStatus, HookEvent
from holdfast.server._backend import Backend
from holdfast.server._endpoint import Call, Endpoint, Limit, Name, Nothing
from holdfast.server._problems import Refused
from holdfast.server._views import moment


class DeliveriesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which deliveries to list, newest first; every condition must hold."""

    status: list[DeliveryStatus] = []
    job: Name = ""
    """the whole id of a job"""
    limit: Limit = 50


class DeliveryView(Struct, frozen=True):
    """One event for one target."""

    id: str
    """the same however often it is delivered"""
    job_id: str
    event: HookEvent
    target: str
    """`hook:NAME`, or the host of a job's webhook"""
    status: DeliveryStatus
    attempts: int
    error: str
    """what went wrong the last time"""
    created: datetime
    next: datetime | None
    """when it is tried next; null if it is settled, or an earlier one of its job comes first"""
    settled: datetime | None


async def list_deliveries(backend: Backend, call: Call[DeliveriesQuery, None]) -> list[DeliveryView]:
    query = DeliveryQuery(tuple(call.query.status), call.query.job, call.query.limit)
    return [*map(delivery_view, await backend.outbox.deliveries(query))]


async def retry(backend: Backend, call: Call[Nothing, Nothing]) -> DeliveryView:
    delivery_id = call.path["delivery_id"]
    done = await backend.outbox.retry(delivery_id, now_us=backend.now_us())
    found = await backend.outbox.delivery(delivery_id)
    if found is None:
        raise Refused(404, "unknown_delivery", f"there is no delivery {delivery_id!r:.100}")
    if not done:
        why = "it arrived" if found.status == "delivered" else "an earlier one of its job comes first"
        raise Refused(409, "not_now", f"delivery {delivery_id} is not tried again: {why}")
    return delivery_view(found)


def delivery_view(one: Delivery) -> DeliveryView:
    return DeliveryView(
        id=one.id, job_id=one.job_id, event=one.event, target=show_target(one.target), status=one.status,
        attempts=one.attempts, error=one.error, created=moment(one.created_us),
        next=None if one.next_us is None else moment(one.next_us),
        settled=None if one.settled_us is None else moment(one.settled_us),
    )  # fmt: skip


ENDPOINTS = (
    Endpoint(
        method="GET", path="/api/v1/deliveries", role="read", handler=list_deliveries, group="hooks",
        summary="List what hooks and webhooks are told, newest first", query=DeliveriesQuery, answer=list[DeliveryView],
    ),
    Endpoint(
        method="POST", path="/api/v1/deliveries/{delivery_id}/retry", role="operate", handler=retry, group="hooks",
        summary="Deliver it now, though it failed", body=Nothing, answer=DeliveryView,
    ),
)  # fmt: skip
