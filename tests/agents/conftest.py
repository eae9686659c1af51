"""Where the runs of a test are written down."""

from __future__ import annotations

import pytest

from holdfast import CheckpointConfig
from holdfast.stores import MemoryStore


@pytest.fixture
def config() -> CheckpointConfig:
    return CheckpointConfig(MemoryStore())
