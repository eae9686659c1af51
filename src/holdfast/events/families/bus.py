"""The event bus itself: handlers that failed or fell behind."""

from __future__ import annotations

from typing import ClassVar

from holdfast.events._base import BaseEvent


class HandlerFailedEvent(BaseEvent):
    """A handler raised an error on an event, and the run went on."""

    type: ClassVar[str] = "handler_failed"

    handler: str
    failed_event_type: str
    failed_event_id: str
    error: str
    error_type: str


class HandlerOverflowEvent(BaseEvent):
    """The mailbox of a background handler was full, so events were dropped."""

    type: ClassVar[str] = "handler_overflow"

    handler: str
    dropped: int
