"""Checkpoints: runs written down as they go, and taken up again where they were."""

from __future__ import annotations

from holdfast.checkpoints._config import CheckpointConfig
from holdfast.checkpoints._log import HOLD_US, RunLog
from holdfast.checkpoints._open import Journalling
from holdfast.checkpoints._restore import Restored, restore

__all__ = ["HOLD_US", "CheckpointConfig", "Journalling", "Restored", "RunLog", "restore"]
