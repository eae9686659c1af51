from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.schedules.support import Desk

from holdfast.resources import Keeper


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def kept_desk(tmp_path: Path) -> Iterator[Desk]:
    """One whose polls can be made."""
    with Keeper() as keeper:
        yield Desk(tmp_path, keeper)
