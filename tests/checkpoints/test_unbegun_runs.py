"""Runs whose process died between taking hold of them and their first row."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import CheckpointConfig, Flow, Runtime, listen, start
from holdfast.errors import RunUnrecordedError, StorageError
from holdfast.stores import MemoryStore
from holdfast.testing import CrashingStore, CrashPoint, refuse_write


class Adds(Flow[dict[str, Any]]):
    ready = True

    @start()
    def first(self) -> int:
        self.state["sum"] = self.state.get("x", 0) + 1
        return int(self.state["sum"])

    @listen(first)
    def second(self, given: int) -> int:
        if not self.ready:
            raise ConnectionError("not ready")
        return given * 10


def left_unbegun(runtime: Runtime, inputs: dict[str, Any]) -> tuple[CheckpointConfig, str]:
    """A run that was opened, and of which nothing else was stored."""
    memory = MemoryStore()
    config = CheckpointConfig(CrashingStore(memory, CrashPoint(2), refuse_write))
    with pytest.raises(RunUnrecordedError):
        Adds(checkpoint=config, runtime=runtime).kickoff(inputs)
    [run] = asyncio.run(memory.runs())
    assert asyncio.run(rows_of(memory, run.root_run_id)) == 0
    return CheckpointConfig(memory), run.root_run_id


async def rows_of(store: MemoryStore, run_id: str) -> int:
    return len([row async for row in store.read(run_id)])


def test_a_run_of_which_nothing_is_stored_begins_and_can_be_taken_up_again(runtime: Runtime) -> None:
    # regression: its state was never stored as a whole, so what its steps changed fitted nothing at the next resume
    config, run_id = left_unbegun(runtime, {})
    flow = Adds(checkpoint=config, runtime=runtime)
    flow.ready = False
    with pytest.raises(ConnectionError):
        flow.kickoff(from_checkpoint=run_id)
    before = flow.state["id"]
    again = Adds.from_checkpoint(run_id, checkpoint=config, runtime=runtime)
    assert again.state == {"id": before, "sum": 1}
    assert again.kickoff() == 10


def test_inputs_that_a_crash_took_are_asked_for_and_not_left_out(runtime: Runtime) -> None:
    # regression: it went on without them, in silence
    config, run_id = left_unbegun(runtime, {"x": 4})
    for _ in range(2):
        with pytest.raises(StorageError, match="give x again"):
            Adds(checkpoint=config, runtime=runtime).kickoff(from_checkpoint=run_id)
    assert Adds(checkpoint=config, runtime=runtime).kickoff({"x": 4}, from_checkpoint=run_id) == 50
