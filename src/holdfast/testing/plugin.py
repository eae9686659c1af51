"""Fixtures for pytest: put `pytest_plugins = ["holdfast.testing.plugin"]` into your top conftest.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.runtime import Runtime
from holdfast.testing._isolation import isolated_runtime as isolation


@pytest.fixture
def isolated_runtime() -> Iterator[Runtime]:
    """The default runtime, isolated for one test; the test fails if it leaves a run behind."""
    with isolation() as runtime:
        yield runtime
