"""Steps know themselves again after a crash."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import CheckpointConfig, Flow, Runtime, current_step_key, listen, start
from holdfast.stores import MemoryStore


def test_a_step_has_the_same_key_each_time_it_is_run_and_no_other_has_it(runtime: Runtime) -> None:
    keys: list[str | None] = []

    class Keyed(Flow[dict[str, Any]]):
        ready = False

        @start()
        async def one(self) -> None:
            keys.append(current_step_key())

        @listen(one)
        def two(self) -> None:
            keys.append(current_step_key())
            if not self.ready:
                raise ConnectionError("not ready")

    store = MemoryStore()
    flow = Keyed(checkpoint=CheckpointConfig(store), runtime=runtime)
    with pytest.raises(ConnectionError):
        flow.kickoff()
    [run] = asyncio.run(store.runs())
    flow.ready = True
    flow.kickoff(from_checkpoint=run.root_run_id)
    flow.kickoff()
    first, second, again, *others = keys
    assert (first, second, again) == (*(f"{run.root_run_id}/{step}#1" for step in ("one", "two")), second)
    assert not {first, second} & set(others)
    assert current_step_key() is None
