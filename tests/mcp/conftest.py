"""What a test of this layer starts, it ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from holdfast.testing import process_audit


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    if sys.platform != "linux":
        pytest.skip("kept processes are refused on this system, in words")
    with process_audit():
        yield
