"""What follows from the end of a step: its exit rules, and the order in which a failure is dealt with. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from holdfast.flowfiles import NEVER_RETRIED, ExitRule, Retry, StepSpec, compile_expression
from holdfast.graph import Verdict


class Attempt(Struct, frozen=True):
    """What a rule may look at, besides what came of the step."""

    number: int
    """in the present frame of the loop around the step"""
    tries: int = 0
    fallback: bool = False
    rounds: Callable[[str], int] = lambda rule: 0
    """how often a rule went back in that frame"""


class Trouble(Struct, frozen=True):
    """A failure, as rules see it."""

    error: str
    error_type: str
    category: str


def derive(step: StepSpec, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs with the derived ones. Raises ExpressionError."""
    known = dict(outputs)
    for name, expression in step.derived_outputs:
        known[name] = compile_expression(expression.text, expression.at).evaluate({**known, "outputs": known})
    return known


def judge_completed(step: StepSpec, outputs: Mapping[str, Any], attempt: Attempt) -> Verdict:
    """What follows from a completed step; action `fail` if no rule matched and one says to advance.

    Raises ExpressionError for a rule that cannot be evaluated.
    """
    for rule in step.exits:
        if _matches(rule, outputs, attempt, None, step):
            return _taken(rule, attempt, at_bound="escalate")
    if any(rule.action == "advance" for rule in step.exits):
        return Verdict("fail", reason="no_exit_matched")
    return Verdict("advance")


def judge_failed(
    step: StepSpec, trouble: Trouble, attempt: Attempt, delay_until: Callable[[float, float], int]
) -> Verdict:
    """What follows from a failed step: retry, fallback, exits, on_error, in this order.

    Raises ExpressionError for a rule that cannot be evaluated.
    """
    if may_retry(step.retry, trouble.category, attempt.tries) and not attempt.fallback:
        assert step.retry is not None
        not_before = delay_until(delay_of(step.retry, attempt.tries), step.retry.jitter)
        return Verdict("retry", reason=trouble.category, not_before_us=not_before)
    if step.fallback is not None and not attempt.fallback:
        return Verdict("fallback", reason=trouble.category)
    return _route(step, trouble, attempt)


def _route(step: StepSpec, trouble: Trouble, attempt: Attempt) -> Verdict:
    """What the exits and `on_error` make of a failure that stays one."""
    for rule in step.exits:
        if rule.on_failure and _matches(rule, {}, attempt, trouble, step):
            return _taken(rule, attempt, at_bound="fail")
    return Verdict("continue" if step.on_error == "continue" else "fail")


def may_retry(retry: Retry | None, category: str, tries: int) -> bool:
    """Whether a failure of a category is tried again."""
    return retry is not None and tries < retry.max_retries and category in retry.on and category not in NEVER_RETRIED


def delay_of(retry: Retry, tries: int) -> float:
    """How long to wait before the next try, before jitter."""
    factor = 2.0 ** min(tries, 30) if retry.backoff == "exponential" else 1.0
    return min(retry.delay_seconds * factor, retry.max_delay_seconds)


def _taken(rule: ExitRule, attempt: Attempt, at_bound: Any) -> Verdict:
    if rule.action != "loop":
        return Verdict(rule.action, rule.name, reason=_reason(rule) if rule.action != "abandon" else _text(rule))
    if rule.max_iterations is not None and attempt.rounds(rule.name) >= rule.max_iterations:
        reason = f"loop to {rule.target} reached its bound of {rule.max_iterations}"
        return Verdict(at_bound, rule.name, rule.target or "", reason)
    return Verdict("loop", rule.name, rule.target or "")


def _text(rule: ExitRule) -> str:
    return rule.when.text if rule.when is not None else ""


def _reason(rule: ExitRule) -> str:
    return f"rule {rule.name}" + (f": {rule.when.text}" if rule.when is not None else "")


def _matches(
    rule: ExitRule, outputs: Mapping[str, Any], attempt: Attempt, trouble: Trouble | None, step: StepSpec
) -> bool:
    if rule.when is None:
        return True
    names = {
        "outputs": outputs,
        "attempt": attempt.number,
        "max_attempts": rule.max_iterations or step.limits.max_iterations,
        "error": trouble.error if trouble is not None else None,
        "error_category": trouble.category if trouble is not None else None,
    }
    return bool(compile_expression(rule.when.text, rule.when.at).evaluate(names))
