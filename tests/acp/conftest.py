"""Every test of this layer ends with the process table as it was."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.acp import AgentManager
from holdfast.stores import MemoryLedger
from holdfast.testing import process_audit


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    if sys.platform != "linux":
        pytest.skip("the audit that every test here ends with needs Linux")
    with process_audit():
        yield


@pytest.fixture
async def agents(no_process_is_left: None) -> AsyncIterator[AgentManager]:
    """A manager that releases all it has at the end, and whose ledger must then be empty."""
    ledger = MemoryLedger()
    manager = AgentManager(ledger)
    yield manager
    await manager.release_all()
    assert await ledger.rows() == []
