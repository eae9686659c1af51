from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast import Runtime
from holdfast.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timed(clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """A runtime whose five seconds of grace pass only when the test says so."""
    runtime = Runtime(clock=clock, grace=5.0)
    yield runtime
    if request.node.get_closest_marker("leaves_something") is None:
        assert runtime.inventory() == []
    runtime.close()
