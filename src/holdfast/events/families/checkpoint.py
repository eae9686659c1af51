"""Checkpoints: writing them, pruning them, and what is started from them."""

from __future__ import annotations

from typing import ClassVar

from holdfast.events._base import BaseEvent, ScopeKind


class CheckpointStartedEvent(BaseEvent):
    """A checkpoint is about to be written."""

    type: ClassVar[str] = "checkpoint_started"
    durable: ClassVar[bool] = False
    opens: ClassVar[ScopeKind | None] = "checkpoint"

    location: str = ""
    provider: str = ""
    trigger: str = ""
    branch: str = ""


class CheckpointCompletedEvent(BaseEvent):
    """A checkpoint is stored and can be resumed from."""

    type: ClassVar[str] = "checkpoint_completed"
    durable: ClassVar[bool] = False
    closes: ClassVar[ScopeKind | None] = "checkpoint"

    location: str = ""
    provider: str = ""
    trigger: str = ""
    branch: str = ""
    checkpoint_id: str = ""
    parent_id: str | None = None
    duration_ms: float | None = None


class CheckpointFailedEvent(BaseEvent):
    """A checkpoint could not be written."""

    type: ClassVar[str] = "checkpoint_failed"
    durable: ClassVar[bool] = False
    closes: ClassVar[ScopeKind | None] = "checkpoint"

    location: str = ""
    provider: str = ""
    trigger: str = ""
    branch: str = ""
    error: str
    error_type: str = ""


class CheckpointPrunedEvent(BaseEvent):
    """Old checkpoints were deleted."""

    type: ClassVar[str] = "checkpoint_pruned"
    durable: ClassVar[bool] = False

    location: str = ""
    provider: str = ""
    branch: str = ""
    removed_count: int = 0
    max_checkpoints: int | None = None


class CheckpointForkedEvent(BaseEvent):
    """A new branch was begun at a checkpoint."""

    type: ClassVar[str] = "checkpoint_forked"

    branch: str
    parent_branch: str = ""
    checkpoint_id: str = ""


class CheckpointRestoredEvent(BaseEvent):
    """A run was rebuilt from a checkpoint."""

    type: ClassVar[str] = "checkpoint_restored"

    location: str = ""
    provider: str = ""
    branch: str = ""
    checkpoint_id: str = ""
    duration_ms: float | None = None
