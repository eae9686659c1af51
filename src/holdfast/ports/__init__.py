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
from holdfast.ports._resources import (
    HeldResource,
    Holder,
    Ledger,
    LedgerRow,
    Owner,
    Place,
    ProcessIdentity,
    ProcessTable,
    ProcessUse,
    ResourceManager,
    Spec,
    SweepReport,
)
from holdfast.ports._usage import Usage

__all__ = [
    "Batch",
    "BranchInfo",
    "Channel",
    "CheckpointInfo",
    "CheckpointProvider",
    "DefaultRuntime",
    "Entity",
    "FlowPersistence",
    "HeldResource",
    "Holder",
    "HumanProvider",
    "HumanRequest",
    "Journal",
    "JournalStore",
    "Lease",
    "Ledger",
    "LedgerRow",
    "Mark",
    "Owner",
    "Place",
    "ProcessIdentity",
    "ProcessTable",
    "ProcessUse",
    "Recorded",
    "ResourceManager",
    "Row",
    "RunInfo",
    "Session",
    "Snapshot",
    "Spec",
    "SweepReport",
    "Usage",
]
