"""Flows inside flows are taken up again with them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import CheckpointConfig, Flow, Runtime, listen, start
from holdfast.stores import SqliteStore


class Notes:
    """What happened, and what is to break: at the nth call of a step."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.broken = ""

    def call(self, name: str) -> None:
        self.calls.append(name)
        if self.broken == name:
            raise ConnectionError(name)


notes = Notes()


class Inner(Flow[dict[str, Any]]):
    @start()
    def first(self) -> str:
        notes.call(f"first {self.state['tag']}")
        self.state["seen"] = ["first"]
        return "f"

    @listen(first)
    async def second(self, given: str) -> str:
        notes.call(f"second {self.state['tag']}")
        self.state["seen"].append("second")
        return f"{given}s {self.state['seen']}"


class Outer(Flow[dict[str, Any]]):
    @start()
    async def both(self) -> list[Any]:
        notes.call("both")
        one = await Inner().akickoff({"tag": 1})
        two = await Inner().akickoff({"tag": 2})
        return [one, two]

    @listen(both)
    def blocking(self, given: list[Any]) -> list[Any]:
        notes.call("blocking")
        inner = Inner()
        result = inner.kickoff({"tag": 3})
        return [*given, result, inner.state["seen"]]


ONCE = ["both", "first 1", "second 1", "first 2", "second 2", "blocking", "first 3", "second 3"]
RESULT = [*["fs ['first', 'second']"] * 3, ["first", "second"]]


@pytest.fixture(autouse=True)
def fresh_notes() -> None:
    notes.calls.clear()
    notes.broken = ""


@pytest.mark.parametrize("broken", ONCE)
def test_s1_17_a_flow_inside_another_goes_on_where_it_was(tmp_path: Path, runtime: Runtime, broken: str) -> None:
    notes.broken = broken
    with SqliteStore(tmp_path / "journal.db") as store:
        config = CheckpointConfig(store)
        with pytest.raises(ConnectionError):
            Outer(checkpoint=config, runtime=runtime).kickoff()
        [run] = asyncio.run(store.runs())
        notes.broken = ""
        assert Outer(checkpoint=config, runtime=runtime).kickoff(from_checkpoint=run.root_run_id) == RESULT
    # the step that broke and the ones around it run again; what completed inside them does not
    outer = "blocking" if broken == "blocking" or broken.endswith("3") else "both"
    repeated = sorted([broken, outer] if broken != outer else [broken])
    assert sorted(notes.calls) == sorted([*ONCE, *repeated])


def test_a_flow_inside_another_is_written_into_its_journal_only(tmp_path: Path, runtime: Runtime) -> None:
    with SqliteStore(tmp_path / "outer.db") as store, SqliteStore(tmp_path / "inner.db") as elsewhere:

        class Wraps(Flow[dict[str, Any]]):
            @start()
            def wrap(self) -> Any:
                return Inner(checkpoint=CheckpointConfig(elsewhere)).kickoff({"tag": 1})

        Wraps(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
        assert len(asyncio.run(store.runs())) == 1
        assert asyncio.run(elsewhere.runs()) == []
