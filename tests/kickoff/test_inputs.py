"""What a kickoff inside another run is given."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import CheckpointConfig, Flow, listen, start
from holdfast.stores import MemoryStore


class Broken(Exception):
    """What the test raises."""


class Inner(Flow[Any]):
    fails = True
    seen: int | None = None

    @start()
    def count(self) -> None:
        self.state["n"] += 5

    @listen(count)
    def look(self) -> int:
        if Inner.fails:
            raise Broken
        return int(self.state["n"])


class Outer(Flow[Any]):
    @start()
    def begin(self) -> Any:
        return Inner().kickoff({"n": 1})


def test_inputs_of_a_flow_inside_another_do_not_overwrite_its_state_when_it_is_taken_up_again() -> None:
    outer = Outer(checkpoint=CheckpointConfig(MemoryStore()))
    Inner.fails = True
    with pytest.raises(Broken):
        outer.kickoff()
    Inner.fails = False
    assert outer.kickoff(from_checkpoint=outer.run_id) == 6
