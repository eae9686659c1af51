"""Checkpoints: runs written down as they go, and taken up again where they were.

Documents and providers are imported on first use, so that a program pays only for the storage it has.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.checkpoints._config import CheckpointConfig
from holdfast.checkpoints._definition import Definition
from holdfast.checkpoints._fold import Asked, Fold, Progress
from holdfast.checkpoints._log import HOLD_US, RunLog
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
    from holdfast.checkpoints._export import export_checkpoint as export_checkpoint
    from holdfast.checkpoints._import import import_checkpoint as import_checkpoint
    from holdfast.checkpoints._provider_journal import JournalProvider as JournalProvider
    from holdfast.checkpoints._provider_json import JsonProvider as JsonProvider
    from holdfast.checkpoints._provider_postgres import PostgresProvider as PostgresProvider
    from holdfast.checkpoints._provider_sqlite import SqliteProvider as SqliteProvider

_WHERE = {
    "JournalProvider": "_provider_journal",
    "JsonProvider": "_provider_json",
    "PostgresProvider": "_provider_postgres",
    "SqliteProvider": "_provider_sqlite",
    "export_checkpoint": "_export",
    "import_checkpoint": "_import",
}

__all__ = [
    "HOLD_US",
    "Asked",
    "CheckpointConfig",
    "Definition",
    "Fold",
    "JournalProvider",
    "Journalling",
    "JsonProvider",
    "Place",
    "PostgresProvider",
    "Progress",
    "Restored",
    "RunLog",
    "Source",
    "SqliteProvider",
    "Where",
    "all_results",
    "completed_steps",
    "definition_of",
    "export_checkpoint",
    "fold_upto",
    "import_checkpoint",
    "locate",
    "restore",
    "source_of",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.checkpoints' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.checkpoints.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
