"""Steps that run a flow for each item of a list."""

from __future__ import annotations

from typing import ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class ForEachStartedEvent(BaseEvent):
    """A step began to run a flow for each of its items."""

    type: ClassVar[str] = "for_each_started"
    opens: ClassVar[ScopeKind | None] = "for_each"

    step: str
    items: int = 0
    max_parallel: int | None = None


class ForEachItemStartedEvent(BaseEvent):
    """The run for one item began."""

    type: ClassVar[str] = "for_each_item_started"

    step: str
    index: int
    child_run_id: str = ""


class ForEachItemCompletedEvent(BaseEvent):
    """The run for one item gave a result."""

    type: ClassVar[str] = "for_each_item_completed"

    step: str
    index: int
    child_run_id: str = ""


class ForEachItemFailedEvent(BaseEvent):
    """The run for one item failed."""

    type: ClassVar[str] = "for_each_item_failed"

    step: str
    index: int
    child_run_id: str = ""
    error: str
    error_type: str = ""


class ForEachCompletedEvent(BaseEvent):
    """Every item has its result, or a failure that the step lets pass."""

    type: ClassVar[str] = "for_each_completed"
    closes: ClassVar[ScopeKind | None] = "for_each"

    step: str
    completed: int = 0
    failed: int = 0


class ForEachFailedEvent(BaseEvent):
    """The failure of an item ended the whole step."""

    type: ClassVar[str] = "for_each_failed"
    closes: ClassVar[ScopeKind | None] = "for_each"

    step: str
    index: int | None = None
    error: str
    error_type: str = ""


class ForEachCancelledEvent(BaseEvent):
    """The step was cancelled before all of its items were done."""

    type: ClassVar[str] = "for_each_cancelled"
    closes: ClassVar[ScopeKind | None] = "for_each"

    step: str
    reason: str = ""
