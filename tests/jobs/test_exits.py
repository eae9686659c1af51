"""Exit rules and failures, end to end: every cell of the action table, and the order in which a failure is dealt with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.jobs import work
from tests.jobs.support import (
    HERE,
    Bench,
    Control,
    expression,
    flow,
    given,
    job_of,
    out,
    python,
    rule,
    script,
    step,
    variable,
)

from holdfast.flowfiles import External, Fallback, Limits, Retry
from holdfast.ports import JobOutcome, JobStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def after(
    bench: Bench, *rules: Any, fails: bool, control: Control | None = None, **more: Any
) -> tuple[JobOutcome, Any]:
    """What becomes of a job whose second step has these rules and fails or not; a third one takes what it gives."""
    job = job_of(
        flow(
            step("first", python("count"), given("who", "$job.first")),
            step("s", python("broken" if fails else "one"), given("n", "first.n"), exits=rules, **more),
            step("last", python("echo"), given("got", "s.n", optional=True), given("error", "s._error", optional=True)),
            inputs=(variable("first"),),
        ),
        {"first": f"first-{bench.directory}-{len(rules)}-{fails}-{rules}"},
    )
    outcome = await bench.engine.run(job, control or Control())
    return outcome, (msgspec.json.decode(outcome.outputs) if outcome.outputs else None)


async def test_advance_after_success_hands_on_the_outputs(bench: Bench) -> None:
    _, outputs = await after(bench, rule("advance", "outputs.n == 1"), fails=False)
    assert outputs == {"got": 1, "error": None}


async def test_advance_after_failure_hands_on_the_error(bench: Bench) -> None:
    _, outputs = await after(bench, rule("advance", "error_category == 'failed'"), fails=True)
    assert outputs == {"got": None, "error": {"message": "it broke", "type": "ValueError", "category": "failed"}}


async def test_the_error_is_still_there_after_the_job_was_put_down(bench: Bench) -> None:
    made = flow(
        step("s", python("broken"), exits=(rule("advance"),)),
        step("ask", External(), outputs=(out("n"),), after=("s",)),
        step("last", python("echo"), given("error", "s._error.message"), after=("ask",)),
    )
    job, control = job_of(made), Control()
    waiting = await bench.engine.run(job, control)
    control.ask("answer", ask=waiting.asks[0].id, values={"n": 1})
    assert msgspec.json.decode((await bench.engine.run(job, control)).outputs or b"") == {"error": "it broke"}


@pytest.mark.parametrize("fails", [False, True])
async def test_abandon_fails_the_job_and_says_at_which_step_by_which_rule(bench: Bench, fails: bool) -> None:
    outcome, _ = await after(bench, rule("abandon", "attempt == 1", name="hopeless"), fails=fails)
    assert outcome.status is JobStatus.FAILED
    assert outcome.reason.startswith("abandoned (step s, rule hopeless)")


@pytest.mark.parametrize(("fails", "ends"), [(False, JobStatus.PAUSED), (True, JobStatus.FAILED)])
async def test_a_loop_at_its_bound_pauses_for_a_person_or_fails(bench: Bench, fails: bool, ends: JobStatus) -> None:
    work.calls.clear()
    outcome, _ = await after(bench, rule("loop", target="first", max_iterations=2), fails=fails)
    assert outcome.status is ends
    assert "bound of 2" in outcome.reason or "it broke" in outcome.reason
    assert set(work.calls.values()) == {3}


async def escalated(bench: Bench, fails: bool) -> tuple[Any, Any]:
    work.calls.clear()
    kind = python("fails_until") if fails else python("count")
    more = (given("good", "$job.good"),) if fails else ()
    made = flow(
        step("s", kind, given("who", "$job.who"), *more, exits=(rule("escalate", "attempt == 1", name="look"),)),
        step("last", python("echo"), given("got", "s.n")),
    )
    job = job_of(made, {"who": "escalating", "good": 2})
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.PAUSED
    assert "look" in outcome.reason
    return job, outcome


@pytest.mark.parametrize("fails", [False, True])
async def test_resuming_goes_on_after_success_and_tries_anew_after_failure(bench: Bench, fails: bool) -> None:
    job, _ = await escalated(bench, fails)
    control = Control()
    control.ask("resume")
    outcome = await bench.engine.run(job, control)
    assert msgspec.json.decode(outcome.outputs or b"") == {"got": 2 if fails else 1}
    assert control.settled


async def test_rerunning_an_escalated_step_runs_it_again(bench: Bench) -> None:
    job, _ = await escalated(bench, fails=False)
    control = Control()
    control.ask("rerun", step="s")
    outcome = await bench.engine.run(job, control)
    assert msgspec.json.decode(outcome.outputs or b"") == {"got": 2}


async def test_no_match_with_an_advance_among_the_rules_fails_the_step(bench: Bench) -> None:
    outcome, _ = await after(bench, rule("advance", "outputs.n == 7"), fails=False)
    assert "none of its exit rules matched" in outcome.reason


async def test_an_expression_that_cannot_be_evaluated_fails_the_step_with_its_text_and_the_reason(bench: Bench) -> None:
    outcome, _ = await after(bench, rule("loop", "outputs.n + 'x' == 2", target="first"), fails=False)
    assert "outputs.n + 'x' == 2" in outcome.reason
    outcome = await bench.run(flow(step("a", python("one"), derived_outputs=(("m", expression("n.x.y")),))))
    assert outcome.status is JobStatus.FAILED
    assert "n.x.y" in outcome.reason


async def test_a_rule_about_failures_that_cannot_be_evaluated_fails_the_step_with_both_reasons(bench: Bench) -> None:
    outcome, _ = await after(bench, rule("advance", "error + 1 == 2", name="odd"), fails=True, on_error="continue")
    assert outcome.status is JobStatus.FAILED
    assert outcome.reason.startswith("expression (step s)")
    assert "it broke" in outcome.reason
    assert "error + 1 == 2" in outcome.reason


async def test_no_match_among_rules_that_say_advance_is_a_failure_like_any_other(bench: Bench) -> None:
    work.calls.clear()
    made = flow(
        step(
            "a",
            python("count"),
            given("who", "$job.who"),
            exits=(rule("advance", "outputs.n == 3"),),
            retry=Retry(max_retries=5, delay_seconds=0.001),
        )
    )
    assert await bench.outputs(made, {"who": "picky"}) == {"n": 3}


async def test_a_condition_that_cannot_be_evaluated_fails_the_step_with_its_text_and_the_reason(bench: Bench) -> None:
    made = flow(
        step("a", python("one")), step("b", python("one"), given("n", "a.n"), when="n + 'x'", on_error="continue")
    )
    job = job_of(made)
    assert (await bench.engine.run(job, Control())).status is JobStatus.COMPLETED
    info = {one.path: one for one in await bench.engine.steps(job)}["b"]
    assert info.status == "failed"
    assert "n + 'x'" in info.reason


async def test_retries_then_succeeds(bench: Bench) -> None:
    work.calls.clear()
    retry = Retry(max_retries=3, delay_seconds=0.001)
    made = flow(step("a", python("fails_until"), given("who", "$job.who"), given("good", "$job.good"), retry=retry))
    assert await bench.outputs(made, {"who": "retried", "good": 3}) == {"n": 3}


async def test_a_failure_that_cannot_be_retried_is_not(bench: Bench) -> None:
    work.calls.clear()
    inputs = [given(name, f"$job.{name}") for name in ("who", "good", "kind")]
    made = flow(step("a", python("fails_until"), *inputs, retry=Retry(max_retries=3, delay_seconds=0.001)))
    outcome = await bench.run(made, {"who": "once", "good": 3, "kind": "auth"})
    assert outcome.status is JobStatus.FAILED
    assert work.calls["once"] == 1


async def test_a_fallback_gives_the_outputs_in_place_of_the_step(bench: Bench) -> None:
    fallback = Fallback(executor=python("echo"), at=HERE)
    made = flow(step("a", python("broken"), given("x", "$job.x"), fallback=fallback, outputs=(out("x"),)))
    assert await bench.outputs(made, {"x": 5}) == {"x": 5}


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ((out("m"),), "output m is missing; the step gave n"),
        ((out("n", "str"),), "output n is a number (1), and a str is wanted"),
        ((out("n", "number", min=2),), "must be at least 2"),
        ((out("n", "bool"),), "a bool is wanted"),
    ],
)
async def test_missing_and_wrongly_typed_outputs_are_failures_that_rules_see(
    bench: Bench, outputs: Any, said: str
) -> None:
    abandon = rule("abandon", "error_category == 'output'", name="seen")
    outcome = await bench.run(flow(step("a", python("one"), outputs=outputs, exits=(abandon,))))
    assert outcome.reason.startswith("abandoned (step a, rule seen)")
    outcome = await bench.run(flow(step("a", python("one"), outputs=outputs)))
    assert said in outcome.reason


async def test_outputs_over_the_cap_are_a_failure_that_rules_see(bench: Bench) -> None:
    before, bench.engine.output_cap = bench.engine.output_cap, 1_000
    abandon = rule("abandon", "error_category == 'output'", name="seen")
    try:
        outcome = await bench.run(
            flow(step("a", python("echo"), given("x", "$job.x"), exits=(abandon,))), {"x": "x" * 2_000}
        )
    finally:
        bench.engine.output_cap = before
    assert "rule seen" in outcome.reason


@pytest.mark.parametrize("kind", ["python", "script"])
async def test_a_time_out_is_a_failure_that_rules_see(bench: Bench, kind: str) -> None:
    work_ = python("forever") if kind == "python" else script("sleep 100")
    advance = rule("advance", "error_category == 'timeout'", name="late")
    made = flow(
        step("a", work_, timeout_seconds=0.05, exits=(advance,)), step("b", python("echo"), given("e", "a._error"))
    )
    found = await bench.outputs(made)
    assert found["e"]["category"] == "timeout"


async def test_a_limit_of_a_step_is_a_failure_that_rules_see_and_one_of_the_job_ends_it(bench: Bench) -> None:
    brief = Limits(max_duration_minutes=0.001)
    advance = rule("advance", "error_category == 'limit'", name="enough")
    made = flow(
        step("a", python("forever"), limits=brief, exits=(advance,)), step("b", python("echo"), given("e", "a._error"))
    )
    assert (await bench.outputs(made))["e"]["category"] == "limit"
    outcome = await bench.run(flow(step("a", python("forever"), exits=(rule("advance"),)), limits=brief))
    assert outcome.status is JobStatus.FAILED
    assert outcome.reason.startswith("limit_exceeded")


async def test_a_limit_of_iterations_bounds_a_loop(bench: Bench) -> None:
    often = step(
        "a", python("one"), limits=Limits(max_iterations=3), exits=(rule("loop", "outputs.n == 1", target="a"),)
    )
    outcome = await bench.run(flow(often))
    assert "would run for the 4th time, and may run 3 times" in outcome.reason
    often = step(
        "a", python("one"), exits=(rule("loop", "outputs.n == 1", target="a"), rule("advance", "error != null"))
    )
    outcome = await bench.run(flow(often, limits=Limits(max_iterations=2)))
    assert outcome.reason.startswith("limit_exceeded")


async def test_on_error_continue_leaves_the_step_and_skips_what_needs_it(bench: Bench) -> None:
    job = job_of(
        flow(
            step("a", python("broken"), on_error="continue"),
            step("b", python("one"), given("n", "a.n")),
            step("c", python("one"), after_resolved=("a",)),
        )
    )
    assert (await bench.engine.run(job, Control())).status is JobStatus.COMPLETED
    assert await bench.statuses(job) == {"a": "failed", "b": "skipped", "c": "completed"}
