"""What the layers ask of one another, as small protocols. Whoever implements one passes its conformance suite."""

from __future__ import annotations

from holdfast.ports._checkpoints import CheckpointInfo, CheckpointProvider
from holdfast.ports._core import Channel, DefaultRuntime, Entity, Journal, Lease, Recorded
from holdfast.ports._human import HumanProvider, HumanRequest
from holdfast.ports._journal import (
    Batch,
    BranchInfo,
    JournalStore,
    Mark,
    Row,
    RunInfo,
    Session,
    Snapshot,
)
from holdfast.ports._persistence import FlowPersistence

__all__ = [
    "Batch",
    "BranchInfo",
    "Channel",
    "CheckpointInfo",
    "CheckpointProvider",
    "DefaultRuntime",
    "Entity",
    "FlowPersistence",
    "HumanProvider",
    "HumanRequest",
    "Journal",
    "JournalStore",
    "Lease",
    "Mark",
    "Recorded",
    "Row",
    "RunInfo",
    "Session",
    "Snapshot",
]
