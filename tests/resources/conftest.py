"""Every test of this layer ends with the process table as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from holdfast.resources import Keeper
from holdfast.testing import process_audit


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    if sys.platform != "linux":
        pytest.skip("kept processes are refused on this system, in words")
    with process_audit():
        yield


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    with Keeper() as keeper:
        yield keeper
