"""What the page draws a flow from: every step, the flows inside steps, and the rules that lead elsewhere."""

from __future__ import annotations

from tests.jobs.support import flow, given, rule, script, source, step

from holdfast.flowfiles import ForEach, SubFlow
from holdfast.server._drawing import draw

INNER = flow(step("look", script("true"), given("city", "$job.city")), name="inner")
FLOW = flow(
    step("plan", script("true")),
    step("visit", ForEach(source=source("plan.cities"), flow=INNER, item_name="city")),
    step("polish", SubFlow(flow=INNER), given("hint", "judge.hint", optional=True, loop="polish"), after=("visit",)),
    step(
        "judge", script("true"), given("text", "polish.text", "plan.draft"), given("note", "visit.note", optional=True),
        exits=(rule("loop", "not outputs.good", target="polish", max_iterations=3), rule("advance", "outputs.good")),
    ),
)  # fmt: skip


def test_a_step_comes_after_what_it_reads_and_what_comes_round_in_a_loop_is_no_way_there() -> None:
    steps = {one.name: one for one in draw(FLOW).nodes}
    assert (steps["plan"].after, steps["visit"].after, steps["polish"].after) == ([], ["plan"], ["visit"])
    assert (steps["polish"].may_follow, steps["judge"].after) == ([], [])
    assert steps["judge"].may_follow == ["polish", "plan", "visit"]
    assert [(one.name, one.sources) for one in steps["judge"].inputs] == [
        ("text", [["polish", "text"], ["plan", "draft"]]),
        ("note", [["visit", "note"]]),
    ]


def test_flows_inside_steps_are_drawn_with_where_their_items_come_from() -> None:
    steps = {one.name: one for one in draw(FLOW).nodes}
    visit, polish = steps["visit"], steps["polish"]
    assert (visit.kind, visit.items, visit.item_name) == ("for_each", ["plan", "cities"], "city")
    assert (polish.kind, polish.items, steps["plan"].flow) == ("flow", None, None)
    for inner in (visit.flow, polish.flow):
        assert inner is not None
        (look,) = inner.nodes
        assert (look.name, look.inputs[0].sources) == ("look", [["$job", "city"]])


def test_rules_say_where_they_lead_and_how_often_they_may() -> None:
    rules = draw(FLOW).nodes[3].rules
    assert [(one.action, one.target, one.max_iterations) for one in rules] == [
        ("loop", "polish", 3),
        ("advance", None, None),
    ]
