"""Checkpoints: runs written down as they go, and taken up again where they were.

What looks at checkpoints, and documents and providers, are imported on first use, so that a program pays only for what it has.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.checkpoints._config import CheckpointConfig
from holdfast.checkpoints._definition import Definition
from holdfast.checkpoints._facts import STEP_EVENTS, failed_outputs
from holdfast.checkpoints._fold import AgentUse, Asked, Fold, Progress
from holdfast.checkpoints._log import HOLD_US, RunLog
from holdfast.checkpoints._loose import LooseLog
from holdfast.checkpoints._open import Journalling
from holdfast.checkpoints._restore import (
    Place,
    Restored,
    all_results,
    completed_steps,
    definition_of,
    fold_upto,
    locate,
    restore,
)
from holdfast.checkpoints._source import Source, Where, source_of

if TYPE_CHECKING:
    from holdfast.checkpoints._browse import Details as Details
    from holdfast.checkpoints._browse import Found as Found
    from holdfast.checkpoints._browse import Listed as Listed
    from holdfast.checkpoints._browse import RunTree as RunTree
    from holdfast.checkpoints._browse import StepRecord as StepRecord
    from holdfast.checkpoints._browse import describe as describe
    from holdfast.checkpoints._browse import find as find
    from holdfast.checkpoints._browse import find_run as find_run
    from holdfast.checkpoints._browse import list_checkpoints as list_checkpoints
    from holdfast.checkpoints._browse import list_trees as list_trees
    from holdfast.checkpoints._browse import made_by as made_by
    from holdfast.checkpoints._browse import short_ids as short_ids
    from holdfast.checkpoints._browse import status_of as status_of
    from holdfast.checkpoints._browse import step_status_of as step_status_of
    from holdfast.checkpoints._diff import Change as Change
    from holdfast.checkpoints._diff import Difference as Difference
    from holdfast.checkpoints._diff import compare_checkpoints as compare_checkpoints
    from holdfast.checkpoints._document import encode_document as encode_document
    from holdfast.checkpoints._export import export_checkpoint as export_checkpoint
    from holdfast.checkpoints._forking import fork_checkpoint as fork_checkpoint
    from holdfast.checkpoints._import import import_checkpoint as import_checkpoint
    from holdfast.checkpoints._provider_journal import JournalProvider as JournalProvider
    from holdfast.checkpoints._provider_json import JsonProvider as JsonProvider
    from holdfast.checkpoints._provider_postgres import PostgresProvider as PostgresProvider
    from holdfast.checkpoints._provider_sqlite import SqliteProvider as SqliteProvider
    from holdfast.checkpoints._pruning import select_old as select_old
    from holdfast.checkpoints._reading import read_state as read_state
    from holdfast.checkpoints._retention import Collected as Collected
    from holdfast.checkpoints._retention import Removed as Removed
    from holdfast.checkpoints._retention import RetentionPolicy as RetentionPolicy
    from holdfast.checkpoints._retention import collect as collect
    from holdfast.checkpoints._retention import collect_daily as collect_daily
    from holdfast.checkpoints._retention import plan_collection as plan_collection

_WHERE = {
    "encode_document": "_document",
    "read_state": "_reading",
    "Change": "_diff",
    "Collected": "_retention",
    "Details": "_browse",
    "Difference": "_diff",
    "Found": "_browse",
    "JournalProvider": "_provider_journal",
    "JsonProvider": "_provider_json",
    "Listed": "_browse",
    "PostgresProvider": "_provider_postgres",
    "Removed": "_retention",
    "RetentionPolicy": "_retention",
    "RunTree": "_browse",
    "SqliteProvider": "_provider_sqlite",
    "StepRecord": "_browse",
    "collect": "_retention",
    "collect_daily": "_retention",
    "compare_checkpoints": "_diff",
    "describe": "_browse",
    "export_checkpoint": "_export",
    "find": "_browse",
    "find_run": "_browse",
    "fork_checkpoint": "_forking",
    "import_checkpoint": "_import",
    "list_checkpoints": "_browse",
    "list_trees": "_browse",
    "made_by": "_browse",
    "plan_collection": "_retention",
    "select_old": "_pruning",
    "short_ids": "_browse",
    "status_of": "_browse",
    "step_status_of": "_browse",
}

__all__ = [
    "HOLD_US",
    "STEP_EVENTS",
    "AgentUse",
    "Asked",
    "Change",
    "CheckpointConfig",
    "Collected",
    "Definition",
    "Details",
    "Difference",
    "Fold",
    "Found",
    "JournalProvider",
    "Journalling",
    "JsonProvider",
    "Listed",
    "LooseLog",
    "Place",
    "PostgresProvider",
    "Progress",
    "Removed",
    "Restored",
    "RetentionPolicy",
    "RunLog",
    "RunTree",
    "Source",
    "SqliteProvider",
    "StepRecord",
    "Where",
    "all_results",
    "collect",
    "collect_daily",
    "compare_checkpoints",
    "completed_steps",
    "definition_of",
    "describe",
    "encode_document",
    "export_checkpoint",
    "failed_outputs",
    "find",
    "find_run",
    "fold_upto",
    "fork_checkpoint",
    "import_checkpoint",
    "list_checkpoints",
    "list_trees",
    "locate",
    "made_by",
    "plan_collection",
    "read_state",
    "restore",
    "select_old",
    "short_ids",
    "source_of",
    "status_of",
    "step_status_of",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.checkpoints' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.checkpoints.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
