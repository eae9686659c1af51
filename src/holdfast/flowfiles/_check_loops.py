"""Circles, loops and steps that can never run."""

from __future__ import annotations

from holdfast.errors import ExpressionError
from holdfast.flowfiles._expressions import compile_expression
from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._model import ExitRule, FlowFile, StepSpec, WhenExpression
from holdfast.flowfiles._order import (
    Before,
    find_circle,
    forward_edges,
    is_weak,
    loop_rules,
    step_sources,
    strong_edges,
    waits_for,
)
from holdfast.flowfiles._parts import Expression


def check_loops(flow: FlowFile, report: Report) -> bool:
    """Report circles that nothing closes, loops that cannot end and steps that cannot begin. Says whether the rest has an order."""
    edges = strong_edges(flow)
    circle = find_circle(edges)
    if circle:
        step = flow.by_name[circle[0]]
        fix = "make one of these inputs optional and go back with an exit rule: action: loop"
        report.error("circle", step.at, f"steps wait for one another: {' -> '.join(circle)}", fix=fix)
        return False
    if _check_closed(flow, report):
        _check_rules(flow, report)
    _check_reachable(flow, report)
    return True


def _check_closed(flow: FlowFile, report: Report) -> bool:
    """Whether every weak circle is closed by a loop rule."""
    circle = find_circle(forward_edges(flow))
    if not circle:
        return True
    steps = set(circle)
    for step in flow.steps:
        for input_, source in step_sources(step):
            if step.name in steps and source.step in steps and source.loop is None and is_weak(input_) and input_:
                message = (
                    f"{input_.name} of {step.name} comes round in a circle ({' -> '.join(circle)}) that no rule closes"
                )
                fix = f"add an exit rule to {source.step}: action: loop, target: {step.name}"
                report.error("unclosed-circle", input_.at, message, fix=fix)
                return False
    return False


def _check_rules(flow: FlowFile, report: Report) -> None:
    before = Before(forward_edges(flow))
    for step, rule in loop_rules(flow):
        target = str(rule.target)
        if target != step.name and not before(target, step.name):
            message = f"{rule.name} goes to {target}, and nothing leads from there back to {step.name}"
            report.warning("no-loop", rule.at, message, fix="go back to a step that comes before, or use after:")
        _check_end(flow, step, rule, report)
    for step in flow.steps:
        for number, rule in enumerate(step.exits[:-1]):
            if constant(rule.when) is True:
                late = step.exits[number + 1]
                report.warning(
                    "dead-rule", late.at, f"{late.name} is never reached: {rule.name} always holds", fix="move it up"
                )
                break


def _check_end(flow: FlowFile, step: StepSpec, rule: ExitRule, report: Report) -> None:
    """A loop needs a bound, or a condition that can stop it."""
    target = flow.by_name[str(rule.target)]
    limits = (step.limits, target.limits, flow.limits)
    if rule.max_iterations or any(one.max_iterations or one.max_duration_minutes for one in limits):
        return
    earlier = step.exits[: step.exits.index(rule)]
    if constant(rule.when) is True and not any(one.action != "loop" for one in earlier):
        message = f"{rule.name} of {step.name} loops for ever: it always holds, and nothing bounds it"
        report.error("endless-loop", rule.at, message, fix="add max_iterations: 5, or a when:")
    elif rule.when is None or "attempt" not in rule.when.names:
        message = f"nothing bounds {rule.name} of {step.name}"
        report.warning("unbounded-loop", rule.at, message, fix="add max_iterations: 5")


def constant(when: Expression | None) -> bool | None:
    """Whether a condition always or never holds; None when that depends. No condition always holds."""
    if when is None:
        return True
    if when.names:
        return None
    try:
        return bool(compile_expression(when.text, when.at).evaluate({}))
    except ExpressionError:
        return None


def _check_reachable(flow: FlowFile, report: Report) -> None:
    """Report steps that can never start, and those that wait for them."""
    dead: dict[str, str] = {}
    for step in flow.steps:
        if isinstance(step.when, WhenExpression) and constant(step.when.expression) is False:
            dead[step.name] = "its when never holds"
    barred = {step.name for step in flow.steps if _never_advances(step)}
    changed = True
    while changed:
        changed = False
        for step in flow.steps:
            before = [one for one in waits_for(step) if one not in step.after_resolved]
            blocker = next((one for one in before if one in dead or one in barred), None)
            if blocker and step.name not in dead:
                why = "never runs" if blocker in dead else "never advances: its first rule always leads elsewhere"
                dead[step.name] = f"it waits for {blocker}, which {why}"
                changed = True
    for name, why in dead.items():
        report.error(
            "unreachable", flow.by_name[name].at, f"{name} is never reached: {why}", fix="remove it, or the condition"
        )


def _never_advances(step: StepSpec) -> bool:
    """Whether its first rule always ends the job or always goes back."""
    first = step.exits[0] if step.exits else None
    if first is None or constant(first.when) is not True:
        return False
    return first.action == "abandon"
