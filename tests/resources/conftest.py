"""Every test of this layer ends with the process table as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.resources.portable import why_not_promised

from holdfast.resources import Keeper
from holdfast.resources._platform import is_portable
from holdfast.testing import process_audit


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    here = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    for item in here if is_portable() else []:
        if why := why_not_promised(item.path.stem, item.originalname):
            item.add_marker(pytest.mark.skip(why))


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    if sys.platform != "linux":
        pytest.skip("the audit that every test here ends with needs Linux")
    with process_audit():
        yield


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    with Keeper() as keeper:
        yield keeper
