"""A flow whose run is paused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.runs.support import until

from holdfast import Flow, Runtime, listen, start


class Plain(Flow[Any]):
    done: list[str]

    @start()
    def first(self) -> None:
        current(self).pause("a look")
        self.done.append("first")

    @listen(first)
    def second(self) -> str:
        self.done.append("second")
        return "end"


class Awaiting(Flow[Any]):
    done: list[str]

    @start()
    async def first(self) -> None:
        current(self).pause("a look")
        self.done.append("first")

    @listen(first)
    async def second(self) -> str:
        self.done.append("second")
        return "end"


def current(flow: Flow[Any]) -> Any:
    return flow._starter.runtime.current_run()


@pytest.mark.parametrize("kind", [Plain, Awaiting])
async def test_no_method_begins_while_the_run_is_paused(runtime: Runtime, kind: type[Any]) -> None:
    # regression: a method that nothing overlapped did not look at the gate
    flow = kind(runtime=runtime)
    flow.done = []
    kickoff = asyncio.create_task(flow.akickoff())
    await until(lambda: flow.done == ["first"] and bool(runtime.runs()))
    [run] = runtime.runs()
    await until(lambda: flow.method_counts.get("second") == 1)  # it is triggered: nothing but the gate holds it back
    assert flow.done == ["first"]
    run.resume()
    assert await kickoff == "end"
    assert flow.done == ["first", "second"]
