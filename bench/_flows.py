"""Flows that do next to nothing, as often as they are told; beside peers and over ten thousand steps."""

from __future__ import annotations

from typing import Any, Literal

from holdfast import Flow, FlowState, listen, or_, router, start


class Chain(Flow[dict[str, Any]]):
    """Three blocking steps."""

    @start()
    def one(self) -> int:
        return 1

    @listen(one)
    def two(self, given: int) -> int:
        return given + 1

    @listen(two)
    def three(self, given: int) -> int:
        return given + 1


class Count(FlowState):
    n: int = 0
    limit: int = 0
    news: list[str] = []  # noqa: RUF012 - pydantic copies it
    size: int = 0
    """of what each step adds to the news"""


class Loop(Flow[Count]):
    """As many steps as it is told."""

    max_method_calls = 10**9

    @start()
    def begin(self) -> None: ...

    @router(or_(begin, "again"))
    def work(self) -> Literal["again", "done"]:
        return self.once()

    def once(self) -> Literal["again", "done"]:
        self.state.n += 1
        if self.state.size:
            self.state.news.append("x" * self.state.size)
        return "again" if self.state.n < self.state.limit else "done"


class AsyncLoop(Loop):
    """The same with an async step."""

    async def work(self) -> Literal["again", "done"]:  # type: ignore[override]
        return self.once()
