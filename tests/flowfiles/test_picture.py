"""A flow as a graph."""

from __future__ import annotations

from tests.flowfiles.support import Folder

from holdfast.flowfiles import to_graph
from holdfast.graph import AllOf, AnyOf, Source, route_label, to_mermaid, to_svg

FLOW = """
name: picture
steps:
  plan: {run: x, outputs: [o]}
  left: {run: x, inputs: {o: plan.o, old: {from: join.o, optional: true}}, outputs: [o]}
  right: {run: x, after: [plan], outputs: [o], exits: [{name: stop, when: attempt > 1, action: abandon}]}
  join:
    run: x
    inputs: {o: {any_of: [left.o, right.o]}, p: plan.o}
    outputs: [o]
    exits:
      - {name: again, when: attempt < 3, action: loop, target: left}
      - {name: stop, when: attempt > 5, action: escalate}
      - {action: advance}
"""


def test_steps_come_after_what_they_wait_for_and_loops_are_routes(folder: Folder) -> None:
    graph = to_graph(folder.load(FLOW))
    nodes = graph.by_name
    assert (nodes["plan"].trigger, nodes["plan"].is_start) == (None, True)
    assert nodes["left"].trigger == AnyOf((Source("plan"), Source(route_label("again"))))
    assert nodes["right"].trigger == Source("plan")
    assert nodes["join"].trigger == AllOf((Source("plan"), AnyOf((Source("left"), Source("right")))))
    assert (nodes["join"].is_router, nodes["join"].routes) == (True, ("again", "join stop"))
    assert nodes["right"].routes == ("right stop",)
    assert not nodes["left"].is_router


def test_a_changed_step_changes_the_fingerprint(folder: Folder) -> None:
    before = to_graph(folder.load(FLOW))
    after = to_graph(folder.load(FLOW.replace("plan: {run: x", "plan: {run: y")))
    assert after.differences(before) == ["step plan was altered"]
    assert to_graph(folder.load("# a comment\n" + FLOW)).fingerprint == before.fingerprint


def test_it_can_be_drawn(folder: Folder) -> None:
    graph = to_graph(folder.load(FLOW))
    assert '|"again"|' in to_mermaid(graph)
    assert "join stop" in to_svg(graph)
