"""Whole flows, from YAML: inputs, conditions, loops and their frames, settling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.jobs import work
from tests.jobs.support import Bench, Control, flow, given, job_of, python, read, rule, step, variable

from holdfast.ports import Job, JobStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def settle(bench: Bench, job: Job) -> tuple[JobStatus, Any, dict[str, str]]:
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.COMPLETED or outcome.reason
    return outcome.status, msgspec.json.decode(outcome.outputs or b"null"), await bench.statuses(job)


async def test_inputs_come_from_steps_paths_and_variables(bench: Bench) -> None:
    made = flow(
        step("a", python("echo"), given("x", "$job.data")),
        step(
            "b",
            python("echo"),
            given("first", "a.x.list.0.name"),
            given("whole", "a.x"),
            given("maybe", "a.x.nowhere", optional=True),
            given("either", "a.x.nowhere", "$job.other"),
        ),
    )
    found = await bench.outputs(made, {"data": {"list": [{"name": "ada"}]}, "other": 7})
    assert found == {"first": "ada", "whole": {"list": [{"name": "ada"}]}, "maybe": None, "either": 7}


@pytest.mark.parametrize("first", ["empty", "broken"])
async def test_of_several_sources_the_first_counts_that_has_the_value(bench: Bench, first: str) -> None:
    work.gates["second"] = gate = work.Gate()
    made = flow(
        step("a", python("echo" if first == "empty" else "broken"), exits=(rule("advance"),)),
        step("b", python("through"), given("gate", "$job.gate")),
        step("c", python("echo"), given("got", "a.n", "b.n")),
    )
    job, control = job_of(made, {"gate": "second"}), Control()
    running = bench.start(job, control)
    await gate.reached()
    while (await bench.statuses(job))["a"] not in ("completed", "failed"):
        await control.turn()
    gate.open()
    assert msgspec.json.decode((await running).outputs or b"") == {"got": 1}


async def test_when_no_source_has_the_value_an_optional_input_is_null_and_any_other_fails_its_step(
    bench: Bench,
) -> None:
    steps = (step("a", python("echo")), step("b", python("echo")))
    assert await bench.outputs(flow(*steps, step("c", python("echo"), given("x", "a.n", "b.n", optional=True)))) == {
        "x": None
    }
    outcome = await bench.run(flow(*steps, step("c", python("echo"), given("x", "a.n", "b.n"))))
    assert "input x has no value: a.n or b.n is not there" in outcome.reason


async def test_a_required_input_that_is_not_there_fails_the_step_and_names_what_there_is(bench: Bench) -> None:
    outcome = await bench.run(flow(step("a", python("one")), step("b", python("echo"), given("x", "a.m"))))
    assert "input x has no value: a.m is not there; a gave n" in outcome.reason


async def test_a_default_stands_in_for_a_variable_that_was_not_given(bench: Bench) -> None:
    made = flow(step("a", python("echo"), given("x", "$job.x")), inputs=(variable("x", default=3, required=False),))
    assert await bench.outputs(made) == {"x": 3}


async def test_steps_run_side_by_side_and_meet_again(bench: Bench, tmp_path: Path) -> None:
    made = read(
        tmp_path,
        """
        steps:
          a: {executor: python, call: "tests.jobs.work:one", outputs: [n]}
          b: {executor: python, call: "tests.jobs.work:slow_echo", inputs: {n: a.n}, outputs: [n]}
          c: {executor: python, call: "tests.jobs.work:slow_echo", inputs: {n: a.n}, outputs: [n]}
          d: {executor: python, call: "tests.jobs.work:join", inputs: {b: b.n, c: c.n}, outputs: [all]}
        """,
    )
    assert await bench.outputs(made) == {"all": "1,1"}


CONDITION = """
    steps:
      a:
        executor: python
        call: tests.jobs.work:one
        outputs: {n: {type: number}, none: {type: str, required: false}}
      b:
        executor: python
        call: tests.jobs.work:one
        inputs: {n: a.n, none: {from: a.none, optional: true}}
        when: WHEN
"""


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ("n > 0", True),
        ("n > 5", False),
        ("{input: n, eq: 1}", True),
        ("{input: n, in: [2, 3]}", False),
        ("{input: n, is_null: true}", False),
        ("{input: n, is_present: true}", True),
        ("{input: none, is_null: true}", True),
        ("{input: none, is_present: true}", False),
    ],
)
async def test_a_condition_decides_whether_a_step_runs(bench: Bench, tmp_path: Path, when: str, runs: bool) -> None:
    made = read(tmp_path, CONDITION.replace("WHEN", when))
    status, _, steps = await settle(bench, job_of(made))
    assert status is JobStatus.COMPLETED
    assert steps["b"] == ("completed" if runs else "skipped")


REVIEW = """
    steps:
      write:
        executor: python
        call: tests.jobs.work:count
        inputs: {who: $job.who, feedback: {from: review.feedback, optional: true}}
        outputs: [n, feedback]
      review:
        executor: python
        call: tests.jobs.work:review
        inputs: {n: write.n, good: $job.good}
        outputs: [ok, feedback]
        exits:
          - {name: again, when: not outputs.ok, action: loop, target: write, max_iterations: 5}
          - {name: done, when: outputs.ok, action: advance}
      publish:
        executor: python
        call: tests.jobs.work:echo
        inputs: {n: write.n, feedback: write.feedback}
        after: [review]
"""


async def test_a_loop_carries_the_latest_value_back_and_ends_when_its_rule_says_so(
    bench: Bench, tmp_path: Path
) -> None:
    work.calls.clear()
    found = await bench.outputs(read(tmp_path, REVIEW), {"who": "writer", "good": 3})
    assert found == {"n": 3, "feedback": "2 is not enough"}
    assert work.calls["writer"] == 3


async def test_a_loop_that_is_never_satisfied_stops_at_its_bound_for_a_person(bench: Bench, tmp_path: Path) -> None:
    work.calls.clear()
    outcome = await bench.run(read(tmp_path, REVIEW), {"who": "writer", "good": 99})
    assert outcome.status is JobStatus.PAUSED
    assert work.calls["writer"] == 6


async def test_an_inner_loop_begins_anew_in_every_round_of_the_outer(bench: Bench) -> None:
    work.calls.clear()
    made = flow(
        step("outer", python("count"), given("who", "$job.outer")),
        step("inner", python("tell"), given("round", "outer.n"), given("back", "check.n", optional=True, loop="inner")),
        step(
            "check",
            python("count"),
            given("who", "$job.check"),
            after=("inner",),
            exits=(rule("loop", "outputs.n % 2 == 1", target="inner", max_iterations=1, name="inner"),),
        ),
        step(
            "end",
            python("count"),
            given("who", "$job.end"),
            after=("check",),
            exits=(rule("loop", "outputs.n < 2", target="outer", max_iterations=1, name="outer"),),
        ),
    )
    work.told.clear()
    assert (await bench.run(made, {"outer": "outer", "check": "check", "end": "end"})).status is JobStatus.COMPLETED
    assert work.told == [(1, None), (1, 1), (2, None), (2, 3)]


async def test_a_skipped_step_counts_for_after_resolved_and_not_for_after(bench: Bench) -> None:
    made = flow(
        step("a", python("one")),
        step("b", python("one"), given("n", "a.n"), when="n > 5"),
        step("c", python("one"), after=("b",)),
        step("d", python("one"), after_resolved=("b",)),
    )
    _, _, steps = await settle(bench, job_of(made))
    assert steps == {"a": "completed", "b": "skipped", "c": "skipped", "d": "completed"}


async def test_a_job_all_of_whose_steps_are_skipped_completes_with_nothing(bench: Bench) -> None:
    status, outputs, _ = await settle(
        bench, job_of(flow(step("a", python("one"), given("x", "$job.x"), when="x")), {"x": False})
    )
    assert (status, outputs) == (JobStatus.COMPLETED, {})


async def test_the_outputs_of_a_job_are_those_of_the_steps_that_end_it(bench: Bench) -> None:
    made = flow(
        step("a", python("one")),
        step("b", python("add"), given("n", "a.n")),
        step("c", python("list_of"), given("n", "a.n")),
    )
    assert await bench.outputs(made) == {"n": 2, "items": [0]}


async def test_every_step_is_listed_with_how_it_stands(bench: Bench) -> None:
    job = job_of(
        flow(
            step("a", python("one")), step("b", python("broken"), after=("a",)), step("c", python("one"), after=("b",))
        )
    )
    await bench.engine.run(job, Control())
    listed = await bench.engine.steps(job)
    assert [(info.path, info.status, info.executor) for info in listed] == [
        ("a", "completed", "python"),
        ("b", "failed", "python"),
        ("c", "pending", "python"),
    ]
    assert listed[0].outputs == {"n": 1}
    assert "it broke" in listed[1].reason
    assert listed[0].started_us is not None


async def test_a_job_that_has_ended_is_not_run_again(bench: Bench) -> None:
    work.calls.clear()
    job = job_of(flow(step("a", python("count"), given("who", "$job.who"))), {"who": "once"})
    first = await bench.engine.run(job, Control())
    again = await bench.engine.run(job, Control())
    assert (again.status, again.outputs) == (first.status, first.outputs)
    assert work.calls["once"] == 1


async def test_a_failed_job_is_retried_at_the_step_that_failed(bench: Bench) -> None:
    work.calls.clear()
    made = flow(
        step("a", python("count"), given("who", "$job.a")),
        step("b", python("fails_until"), given("who", "$job.b"), given("good", "$job.good"), after=("a",)),
    )
    job = job_of(made, {"a": "first", "b": "second", "good": 2})
    assert (await bench.engine.run(job, Control())).status is JobStatus.FAILED
    assert (await bench.engine.run(job, Control())).status is JobStatus.FAILED  # nobody asked
    control = Control()
    control.ask("retry")
    assert (await bench.engine.run(job, control)).status is JobStatus.COMPLETED
    assert dict(work.calls) == {"first": 1, "second": 2}


async def test_rerunning_a_step_of_a_failed_job_runs_what_depends_on_it_too(bench: Bench) -> None:
    work.calls.clear()
    made = flow(
        step("a", python("count"), given("who", "$job.a")),
        step("b", python("count"), given("who", "$job.b"), given("n", "a.n")),
        step("c", python("fails_until"), given("who", "$job.c"), given("good", "$job.good"), after=("b",)),
    )
    job = job_of(made, {"a": "a", "b": "b", "c": "c", "good": 2})
    assert (await bench.engine.run(job, Control())).status is JobStatus.FAILED
    control = Control()
    control.ask("rerun", step="a")
    assert (await bench.engine.run(job, control)).status is JobStatus.COMPLETED
    assert work.calls["a"] == work.calls["b"] == 2


async def test_a_paused_job_starts_nothing_and_goes_on_when_resumed(bench: Bench) -> None:
    work.calls.clear()
    work.gates["held"] = gate = work.Gate()
    made = flow(
        step("a", python("through"), given("gate", "$job.gate")),
        step("b", python("count"), given("who", "$job.who"), after=("a",)),
    )
    job, control = job_of(made, {"gate": "held", "who": "later"}), Control()
    running = bench.start(job, control)
    await gate.reached()
    control.ask("pause", reason="lunch")
    await control.until_taken()
    gate.open()
    outcome = await running
    assert (outcome.status, outcome.reason) == (JobStatus.PAUSED, "lunch")
    assert work.calls["later"] == 0
    assert await bench.statuses(job) == {"a": "completed", "b": "pending"}
    control.ask("resume")
    assert (await bench.engine.run(job, control)).status is JobStatus.COMPLETED


async def test_forgetting_a_job_leaves_nothing_of_it(bench: Bench) -> None:
    job = job_of(flow(step("a", python("one"))))
    await bench.engine.run(job, Control())
    await bench.engine.forget(job.id)
    assert await bench.store.run(job.id) is None
    assert not bench.engine.workspace(job.id).parent.exists()
    await bench.engine.forget("unknown")
