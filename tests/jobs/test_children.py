"""Flows inside steps: sub-flows and one flow for every item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.jobs import work
from tests.jobs.support import Bench, Control, flow, given, job_of, out, python, rule, source, step

from holdfast.flowfiles import External, FlowFile, ForEach, JobSource, Limits, Poll, Retry, Script, SubFlow
from holdfast.ports import JobStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOUBLE = flow(step("double", python("odd_breaks"), given("item", "$job.item")), name="double")
INNER = flow(
    step("a", python("count"), given("who", "$job.who")),
    step("b", python("add"), given("n", "a.n")),
    name="inner",
)


def each(items: Any, inner: FlowFile = DOUBLE, **more: Any) -> Any:
    settings = {name: more.pop(name) for name in ("on_error", "max_parallel", "item_name") if name in more}
    return flow(
        step("list", python("echo"), given("items", "$job.items")),
        step("each", ForEach(source=source("list.items"), flow=inner, **settings), **more),
    ), {"items": items}


async def test_a_sub_flow_gets_the_inputs_and_gives_the_outputs(bench: Bench) -> None:
    work.calls.clear()
    made = flow(step("s", SubFlow(flow=INNER), given("who", "$job.who"), outputs=(out("n", "number"),)))
    job = job_of(made, {"who": "inside"})
    outcome = await bench.engine.run(job, Control())
    assert msgspec.json.decode(outcome.outputs or b"") == {"n": 2}
    assert await bench.statuses(job) == {"s": "completed", "s/a": "completed", "s/b": "completed"}


async def test_results_are_in_the_order_of_the_items(bench: Bench) -> None:
    made, inputs = each([0, 4, 2, 8], max_parallel=2)
    assert await bench.outputs(made, inputs) == {"results": [{"double": n} for n in (0, 8, 4, 16)]}


async def test_no_items_give_no_results(bench: Bench) -> None:
    made, inputs = each([])
    assert await bench.outputs(made, inputs) == {"results": []}


async def test_items_may_come_from_a_variable_and_have_a_name_of_their_own(bench: Bench) -> None:
    inner = flow(step("x", python("echo"), given("thing", "$job.thing"), given("k", "$job.k")), name="named")
    executor = ForEach(source=JobSource("things"), flow=inner, item_name="thing")
    made = flow(step("each", executor, given("k", "$job.k")))
    found = await bench.outputs(made, {"things": ["p", "q"], "k": 7})
    assert found == {"results": [{"thing": "p", "k": 7}, {"thing": "q", "k": 7}]}


async def test_what_is_no_list_fails_the_step(bench: Bench) -> None:
    made, inputs = each("no list")
    assert "runs for each item of a list" in (await bench.run(made, inputs)).reason


async def test_the_first_item_that_fails_fails_the_step_and_stops_the_others(bench: Bench) -> None:
    made, inputs = each([2, 3, 4])
    outcome = await bench.run(made, inputs)
    assert outcome.status is JobStatus.FAILED
    assert "item 1" in outcome.reason
    assert "3 is odd" in outcome.reason


async def test_with_continue_an_item_that_failed_has_its_error_as_its_result(bench: Bench) -> None:
    made, inputs = each([2, 3], on_error="continue")
    found = (await bench.outputs(made, inputs))["results"]
    assert found[0] == {"double": 4}
    assert "3 is odd" in found[1]["_error"]["message"]
    made, inputs = each([1, 3], on_error="continue")
    assert "all 2 items failed" in (await bench.run(made, inputs)).reason


async def test_every_option_of_a_step_works_on_these_too(bench: Bench) -> None:
    work.calls.clear()
    failing = flow(
        step("x", python("fails_until"), given("who", "$job.who"), given("good", "$job.good")), name="failing"
    )
    inputs = (given("who", "$job.who"), given("good", "$job.good"))
    retried = flow(step("s", SubFlow(flow=failing), *inputs, retry=Retry(max_retries=3, delay_seconds=0.001)))
    assert await bench.outputs(retried, {"who": "r", "good": 3}) == {"n": 3}
    left = flow(step("s", SubFlow(flow=failing), *inputs, on_error="continue"))
    assert (await bench.run(left, {"who": "l", "good": 3})).status is JobStatus.COMPLETED
    routed = flow(
        step("s", SubFlow(flow=failing), *inputs, exits=(rule("abandon", "'broke' in error", name="inside"),))
    )
    assert "rule inside" in (await bench.run(routed, {"who": "x", "good": 3})).reason
    slow = flow(step("x", python("forever")), name="slow")
    timed, items = each([1, 2], slow, timeout_seconds=0.05)
    assert "took longer than 0.05 s" in (await bench.run(timed, items)).reason
    looped = flow(
        step("s", SubFlow(flow=INNER), given("who", "$job.who"), exits=(rule("loop", "outputs.n < 4", target="s"),))
    )
    assert await bench.outputs(looped, {"who": "looped"}) == {"n": 4}
    skipped = flow(step("s", SubFlow(flow=INNER), given("who", "$job.who"), when="who == 'nobody'"))
    assert await bench.outputs(skipped, {"who": "x"}) == {}


async def test_a_retried_job_goes_on_inside_the_flow_that_failed(bench: Bench) -> None:
    work.calls.clear()
    inner = flow(
        step("a", python("count"), given("who", "$job.item")),
        step("b", python("fails_until"), given("who", "a.who2", "$job.bad"), given("good", "$job.good"), after=("a",)),
        name="failing",
    )
    executor = ForEach(source=JobSource("items"), flow=inner, max_parallel=1)
    made = flow(step("each", executor, given("bad", "$job.bad"), given("good", "$job.good")))
    job = job_of(made, {"items": ["p", "q"], "bad": "bad", "good": 2})
    assert (await bench.engine.run(job, Control())).status is JobStatus.FAILED
    control = Control()
    control.ask("retry")
    outcome = await bench.engine.run(job, control)
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
    assert dict(work.calls) == {"p": 1, "bad": 3, "q": 1}


async def test_a_limit_of_the_flow_inside_is_a_failure_and_one_of_the_job_ends_it(bench: Bench) -> None:
    bounded = flow(
        step("x", python("one"), exits=(rule("loop", "outputs.n == 1", target="x"),)),
        name="b",
        limits=Limits(max_iterations=2),
    )
    seen = rule("advance", "error_category == 'limit'", name="seen")
    made = flow(step("s", SubFlow(flow=bounded), exits=(seen,)), step("t", python("echo"), given("e", "s._error")))
    assert (await bench.outputs(made))["e"]["category"] == "limit"


async def test_a_question_inside_makes_the_job_wait_and_the_answer_reaches_it(bench: Bench) -> None:
    work.calls.clear()
    inner = flow(
        step("before", python("count"), given("who", "$job.item")),
        step("ask", External(), outputs=(out("say", "str"),), after=("before",)),
        step("after", python("echo"), given("said", "ask.say")),
        name="asking",
    )
    made, inputs = each(["p", "q"], inner)
    job = job_of(made, inputs)
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.WAITING
    assert [ask.step for ask in outcome.asks] == ["each/0/ask", "each/1/ask"]
    control = Control()
    control.ask("answer", ask=outcome.asks[1].id, values={"say": "two"})
    outcome = await bench.engine.run(job, control)
    assert [ask.step for ask in outcome.asks] == ["each/0/ask"]
    control = Control()
    control.ask("answer", ask=outcome.asks[0].id, values={"say": "one"})
    outcome = await bench.engine.run(job, control)
    assert msgspec.json.decode(outcome.outputs or b"") == {"results": [{"said": "one"}, {"said": "two"}]}
    assert dict(work.calls) == {"p": 1, "q": 1}


async def test_an_answer_for_one_item_is_taken_while_another_works(bench: Bench) -> None:
    work.gates["item"] = gate = work.Gate()
    work.calls.clear()
    inner = flow(
        step("ask", External(), given("item", "$job.item"), outputs=(out("say"),), when="item == 'ask'"),
        step("busy", python("through"), given("gate", "$job.item"), when="gate == 'item'"),
        step("then", python("count"), given("who", "ask.say")),
        name="mixed",
    )
    made, inputs = each(["ask", "item"], inner)
    control = Control()
    running = bench.start(job_of(made, inputs), control)
    await gate.reached()
    asks = await control.until_shown()
    control.ask("answer", ask=asks[0].id, values={"say": "yes"})
    while not work.calls["yes"]:
        await control.turn()
    gate.open()
    assert (await running).status is JobStatus.COMPLETED


async def test_items_that_are_done_stay_so_when_the_others_go_on_with_their_answers(bench: Bench) -> None:
    work.calls.clear()
    work.gates["aside"] = gate = work.Gate()
    inner = flow(
        step("count", python("count"), given("who", "$job.item")),
        step("ask", External(), given("who", "$job.item"), outputs=(out("say"),), when="who == 'q'", after=("count",)),
        name="some",
    )
    made = flow(
        step("each", ForEach(source=JobSource("items"), flow=inner)),
        step("aside", python("through"), given("gate", "$job.gate")),
    )
    control = Control()
    running = bench.start(job_of(made, {"items": ["p", "q"], "gate": "aside"}), control)
    await gate.reached()
    while not control.asks or not any(
        line.text.startswith("waiting") and line.step == "each" for line in control.lines
    ):
        await control.turn()
    control.ask("answer", ask=control.asks[-1][0].id, values={"say": "go"})
    while not any(line.text == "completed" and line.step == "each" for line in control.lines):
        await control.turn()
    gate.open()
    assert (await running).status is JobStatus.COMPLETED
    assert dict(work.calls) == {"p": 1, "q": 1}


async def test_a_rule_inside_pauses_the_whole_job_and_resuming_goes_on_inside(bench: Bench) -> None:
    work.calls.clear()
    inner = flow(
        step("a", python("count"), given("who", "$job.who"), exits=(rule("escalate", "attempt == 1", name="look"),)),
        step("b", python("add"), given("n", "a.n")),
        name="careful",
    )
    job = job_of(
        flow(step("s", SubFlow(flow=inner), given("who", "$job.who")), step("t", python("one"), after=("s",))),
        {"who": "w"},
    )
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.PAUSED
    assert "look" in outcome.reason
    control = Control()
    control.ask("resume")
    assert (await bench.engine.run(job, control)).status is JobStatus.COMPLETED
    assert work.calls["w"] == 1


async def test_while_a_rule_inside_holds_the_job_what_runs_beside_it_finishes_and_nothing_starts(bench: Bench) -> None:
    work.gates["beside"] = gate = work.Gate()
    inner = flow(step("a", python("one"), exits=(rule("escalate", "attempt == 1", name="look"),)), name="careful")
    made = flow(
        step("s", SubFlow(flow=inner)),
        step("beside", python("through"), given("gate", "$job.gate")),
        step("later", python("one"), after=("beside",)),
    )
    job, control = job_of(made, {"gate": "beside"}), Control()
    running = bench.start(job, control)
    await gate.reached()
    while not any(line.step == "s" and line.text.startswith("waiting") for line in control.lines):
        await control.turn()
    gate.open()
    assert (await running).status is JobStatus.PAUSED
    steps = await bench.statuses(job)
    assert (steps["beside"], steps["later"]) == ("completed", "pending")


async def test_scripts_inside_share_the_workspace_of_the_job(bench: Bench) -> None:
    inner = flow(step("w", Script(text='echo "$item" > "made-$item"'), given("item", "$job.item")), name="writer")
    made, inputs = each(["a", "b"], inner)
    job = job_of(made, inputs)
    assert (await bench.engine.run(job, Control())).status is JobStatus.COMPLETED
    assert sorted(path.name for path in bench.engine.workspace(job.id).iterdir()) == ["made-a", "made-b"]


async def test_a_thousand_items_are_worked_on_a_few_at_a_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    inner = flow(step("x", python("slow_echo"), given("item", "$job.item")), name="each")
    made, inputs = each(list(range(1_000)), inner, max_parallel=50)
    found = await bench.outputs(made, inputs)
    assert found["results"] == [{"item": n} for n in range(1_000)]
    await bench.aclose()


@pytest.mark.parametrize("waits", ["poll", "ask"])
async def test_an_item_whose_time_has_come_goes_on_while_other_items_are_at_work(tmp_path: Path, waits: str) -> None:
    """It used to be woken only when something else happened in the same step."""
    bench = Bench(tmp_path, still=True)
    work.gates["busy"] = gate = work.Gate()
    check = f"cat {tmp_path}/ready 2>/dev/null"
    late = External(on_timeout={"n": 0})
    inner = flow(
        step("busy", python("through"), given("gate", "$job.item"), when="gate == 'busy'"),
        step("poll", Poll(check_command=check, interval_seconds=30), given("item", "$job.item"), when="item == 'poll'"),
        step("ask", late, given("item", "$job.item"), outputs=(out("n"),), timeout_seconds=30, when="item == 'ask'"),
        name="each",
    )
    made = flow(step("each", ForEach(source=JobSource("items"), flow=inner)))
    job, control = job_of(made, {"items": ["busy", waits]}), Control()
    running = bench.start(job, control)
    await gate.reached()
    while (await bench.statuses(job)).get(f"each/1/{waits}") != "waiting":
        await control.turn()
    (tmp_path / "ready").write_text('{"build": "ok"}', encoding="utf-8")
    bench.clock.advance(31)
    while (await bench.statuses(job)).get(f"each/1/{waits}") != "completed":
        await control.turn()
    assert not running.done()
    gate.open()
    assert (await running).status is JobStatus.COMPLETED
    await bench.aclose()
