"""Graphs of flows in Python, drawn as flow files are."""

from __future__ import annotations

from typing import Any, Literal

from holdfast import Flow, and_, listen, or_, router, start
from holdfast.server._run_drawing import draw_graph


class Loops(Flow[dict[str, Any]]):
    @start()
    def begin(self) -> None: ...

    @listen(or_(begin, "again"))
    def work(self) -> None: ...

    @router(work)
    def judge(self) -> Literal["again", "good"]:
        return "good"

    @listen("good")
    def publish(self) -> None: ...

    @listen(and_(begin, publish))
    def tidy(self) -> None: ...


class Undeclared(Flow[dict[str, Any]]):
    @start()
    def begin(self) -> None: ...

    @router(begin)
    def judge(self):  # type: ignore[no-untyped-def]
        return "good"

    @listen("good")
    def publish(self) -> None: ...


def test_steps_come_after_what_they_listen_to_and_routes_lead_from_their_router() -> None:
    steps = {step.name: step for step in draw_graph(Loops.graph()).nodes}
    assert {name: (step.after, step.may_follow) for name, step in steps.items()} == {
        "begin": ([], []),
        "work": ([], ["begin"]),
        "judge": (["work"], []),
        "publish": (["judge"], []),
        "tidy": (["begin", "publish"], []),
    }
    assert steps["judge"].kind == "router"


def test_a_route_that_leads_back_is_a_loop_and_not_a_line_of_the_picture() -> None:
    steps = {step.name: step for step in draw_graph(Loops.graph()).nodes}
    assert [(rule.name, rule.action, rule.target) for rule in steps["judge"].rules] == [("again", "loop", "work")]


def test_a_route_that_nobody_declares_may_come_from_a_router_that_declares_none() -> None:
    steps = {step.name: step for step in draw_graph(Undeclared.graph()).nodes}
    assert steps["publish"].after == ["judge"]
