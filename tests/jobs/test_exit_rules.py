"""Exit rules, pure: every cell of the action table, and the order in which a failure is dealt with."""

from __future__ import annotations

from typing import Any

import pytest
from tests.jobs.support import (
    HERE,
    expression,
    python,
    rule,
    step,
)

from holdfast.errors import ExpressionError
from holdfast.flowfiles import Fallback, Limits, Retry, StepSpec
from holdfast.graph import Verdict
from holdfast.jobs._exits import Attempt, Trouble, delay_of, derive, judge_completed, judge_failed

TROUBLE = Trouble("it broke", "ValueError", "failed")


def at_once(delay: float, jitter: float) -> int:
    return round(delay * 1e6)


def completed(spec: StepSpec, outputs: dict[str, Any] | None = None, **about: Any) -> Verdict:
    return judge_completed(spec, outputs or {}, Attempt(about.pop("number", 1), **about))


def failed(spec: StepSpec, trouble: Trouble = TROUBLE, **about: Any) -> Verdict:
    return judge_failed(spec, trouble, Attempt(about.pop("number", 1), **about), at_once)


def ruled(*rules: Any, **more: Any) -> StepSpec:
    return step("s", python("one"), exits=rules, **more)


class TestCompleted:
    def test_without_rules_it_goes_on(self) -> None:
        assert completed(ruled()).action == "advance"

    @pytest.mark.parametrize("action", ["advance", "escalate", "abandon"])
    def test_a_rule_that_matches_is_taken(self, action: str) -> None:
        assert completed(ruled(rule(action, "outputs.ok")), {"ok": True}).action == action

    def test_a_loop_goes_back_until_its_bound_and_then_escalates(self) -> None:
        spec = ruled(rule("loop", target="s", max_iterations=2))
        assert completed(spec, rounds=lambda name: 1).action == "loop"
        assert completed(spec, rounds=lambda name: 2).action == "escalate"
        assert "bound of 2" in completed(spec, rounds=lambda name: 2).reason

    def test_the_first_rule_that_matches_wins(self) -> None:
        spec = ruled(rule("abandon", "outputs.n > 5"), rule("escalate", "outputs.n > 1"), rule("advance"))
        assert [completed(spec, {"n": n}).action for n in (9, 3, 0)] == ["abandon", "escalate", "advance"]

    def test_no_match_fails_if_a_rule_says_to_advance_and_goes_on_if_none_does(self) -> None:
        assert (
            completed(ruled(rule("advance", "outputs.ok"), rule("loop", "False", target="s")), {"ok": 0}).action
            == "fail"
        )
        assert completed(ruled(rule("loop", "outputs.again", target="s")), {"again": False}).action == "advance"

    def test_rules_see_attempts_and_derived_outputs(self) -> None:
        spec = ruled(rule("abandon", "attempt >= max_attempts", max_iterations=None), limits=Limits(max_iterations=3))
        assert [completed(spec, number=n).action for n in (2, 3)] == ["advance", "abandon"]
        derived = step(
            "s", python("one"), derived_outputs=(("twice", expression("n * 2")), ("more", expression("twice + 1")))
        )
        assert derive(derived, {"n": 4}) == {"n": 4, "twice": 8, "more": 9}


class TestFailed:
    def test_without_rules_the_job_fails_or_the_step_is_left(self) -> None:
        assert failed(ruled()).action == "fail"
        assert failed(ruled(on_error="continue")).action == "continue"

    @pytest.mark.parametrize("action", ["advance", "escalate", "abandon"])
    @pytest.mark.parametrize("when", [None, "True", "'broke' in error", "error_category == 'failed'", "attempt == 1"])
    def test_rules_about_failures_are_taken(self, action: str, when: str | None) -> None:
        assert failed(ruled(rule(action, when))).action == action

    def test_a_rule_about_outputs_is_not_considered(self) -> None:
        assert failed(ruled(rule("advance", "outputs.n == 1"), on_error="continue")).action == "continue"

    def test_a_loop_goes_back_until_its_bound_and_then_fails(self) -> None:
        spec = ruled(rule("loop", target="s", max_iterations=2))
        assert failed(spec, rounds=lambda name: 1).action == "loop"
        assert failed(spec, rounds=lambda name: 2).action == "fail"

    def test_retry_comes_before_fallback_and_that_before_rules(self) -> None:
        spec = ruled(
            rule("abandon"),
            retry=Retry(max_retries=2),
            fallback=Fallback(executor=python("one"), at=HERE),
            on_error="continue",
        )
        assert [failed(spec, tries=n).action for n in (0, 1, 2)] == ["retry", "retry", "fallback"]
        assert failed(spec, tries=0, fallback=True).action == "abandon"

    @pytest.mark.parametrize("category", ["auth", "quota", "context_length"])
    def test_some_failures_are_never_tried_again(self, category: Any) -> None:
        spec = ruled(retry=Retry(max_retries=5, on=("transient", category)))
        assert failed(spec, Trouble("no", "Error", category)).action == "fail"

    @pytest.mark.parametrize("category", ["transient", "timeout", "failed", "output"])
    def test_others_are_tried_again(self, category: Any) -> None:
        assert failed(ruled(retry=Retry(max_retries=1)), Trouble("no", "Error", category)).action == "retry"

    def test_the_delay_grows_up_to_its_bound_and_is_moved_by_the_jitter(self) -> None:
        growing = Retry(max_retries=9, delay_seconds=1, max_delay_seconds=10)
        assert [delay_of(growing, n) for n in range(5)] == [1, 2, 4, 8, 10]
        assert delay_of(Retry(max_retries=9, delay_seconds=3, backoff="fixed"), 7) == 3

    def test_a_rule_that_cannot_be_evaluated_is_no_silent_no_match(self) -> None:
        with pytest.raises(ExpressionError, match=r"error \+ 1"):
            failed(ruled(rule("advance", "error + 1"), on_error="continue"))
