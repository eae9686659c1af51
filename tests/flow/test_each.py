"""Steps that run once for each item of a result."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import CheckpointConfig, Flow, FlowState, Runtime, each, gathered, listen, or_, router, start
from holdfast.errors import StepFailedError
from holdfast.stores import SqliteStore


class Notes(FlowState):
    lines: list[str] = []  # noqa: RUF012 - pydantic copies it


class Maps(Flow[Notes]):
    items: Any = ("a", "b", "c")
    breaks = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[str] = []

    @start()
    def split(self) -> list[str]:
        return list(self.items) if isinstance(self.items, tuple) else self.items

    @listen(each(split))
    async def work(self, item: str) -> str:
        self.calls.append(item)
        await asyncio.sleep(0)
        if item == self.breaks:
            raise ConnectionError(item)
        self.state.lines.append(item)
        return item.upper()

    @listen(gathered(work))
    def join(self, results: list[str]) -> str:
        return f"{'+'.join(results)} {''.join(sorted(self.state.lines))}"


def test_a_step_runs_for_each_item_and_the_next_gets_all_results_in_order(runtime: Runtime) -> None:
    flow = Maps(runtime=runtime)
    assert flow.kickoff() == "A+B+C abc"
    assert sorted(flow.calls) == ["a", "b", "c"]


@pytest.mark.parametrize(("items", "result"), [((), " "), (("x",), "X x")])
def test_no_item_and_one_item_are_fine(runtime: Runtime, items: tuple[str, ...], result: str) -> None:
    flow = Maps(runtime=runtime)
    flow.items = items
    assert flow.kickoff() == result


def test_many_items_are_more_than_a_loop_may_be_long(runtime: Runtime) -> None:
    flow = Maps(runtime=runtime)
    flow.items = tuple(f"{number:03}" for number in range(300))
    assert flow.kickoff().startswith("000+001+")


def test_what_is_no_list_is_refused_in_words(runtime: Runtime) -> None:
    flow = Maps(runtime=runtime)
    flow.items = 3
    with pytest.raises(StepFailedError, match=r"split returned a int.*return a list"):
        flow.kickoff()


@pytest.mark.parametrize("breaks", ["a", "b", "c"])
def test_s1_17_after_a_crash_only_items_that_were_not_done_run_again(
    tmp_path: Path, runtime: Runtime, breaks: str
) -> None:
    with SqliteStore(tmp_path / "journal.db") as store:
        flow = Maps(checkpoint=CheckpointConfig(store), runtime=runtime)
        flow.breaks = breaks
        with pytest.raises(ConnectionError):
            flow.kickoff()
        [run] = asyncio.run(store.runs())
        done = set(flow.state.lines)
        flow.breaks, flow.calls = "", []
        assert flow.kickoff(from_checkpoint=run.root_run_id) == "A+B+C abc"
        assert sorted(flow.calls) == sorted({"a", "b", "c"} - done)


def test_two_results_in_a_row_are_kept_apart(runtime: Runtime) -> None:
    class Twice(Flow[dict[str, Any]]):
        @start()
        def begin(self) -> None:
            self.state["rounds"] = []

        @listen(or_(begin, "again"))
        def split(self) -> list[int]:
            return [1, 2] if not self.state["rounds"] else [3, 4, 5]

        @listen(each(split))
        def double(self, item: int) -> int:
            return 2 * item

        @router(gathered(double))
        def check(self, results: list[int]) -> str:
            self.state["rounds"].append(results)
            return "again" if len(self.state["rounds"]) < 2 else "done"

        @listen("done")
        def end(self) -> Any:
            return self.state["rounds"]

    assert Twice(runtime=runtime).kickoff() == [[2, 4], [6, 8, 10]]


def test_the_picture_shows_what_runs_for_each() -> None:
    assert '|"each"|' in Maps.to_mermaid()
    assert '|"all"|' in Maps.to_mermaid()
