"""Checkpoints: runs written down as they go, and taken up again where they were."""

from __future__ import annotations

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

__all__ = [
    "HOLD_US",
    "Asked",
    "CheckpointConfig",
    "Definition",
    "Fold",
    "Journalling",
    "Place",
    "Progress",
    "Restored",
    "RunLog",
    "all_results",
    "completed_steps",
    "definition_of",
    "fold_upto",
    "locate",
    "restore",
]
