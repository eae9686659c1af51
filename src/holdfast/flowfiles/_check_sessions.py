"""Sessions: one writer at a time, forks from a step that has one."""

from __future__ import annotations

import ast
from itertools import combinations
from typing import Any

from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._model import FlowFile, StepSpec, WhenExpression, WhenInput
from holdfast.flowfiles._order import Edges, ancestors, strong_edges


def check_sessions(flow: FlowFile, report: Report) -> None:
    """Report two writers of one session without an order, and forks that cannot be."""
    edges = strong_edges(flow)
    writers: dict[str, list[StepSpec]] = {}
    for step in flow.steps:
        if step.session:
            writers.setdefault(step.session, []).append(step)
        if step.fork_from:
            _check_fork(flow, step, edges, report)
        if step.cache and (step.session or step.fork_from):
            message = f"{step.name} takes part in a conversation, so an earlier result cannot stand in for it"
            report.error("contradiction", step.at, message, fix="remove cache")
    for session, steps in writers.items():
        before = {step.name: ancestors(edges, step.name) for step in steps}
        for first, second in combinations(steps, 2):
            if second.name in before[first.name] or first.name in before[second.name] or _exclude(first, second):
                continue
            message = f"{first.name} and {second.name} may write the session {session} at the same time"
            fix = f"add after: [{first.name}] to {second.name}, or give it a session of its own"
            report.error("session-writers", second.at, message, fix=fix)


def _check_fork(flow: FlowFile, step: StepSpec, edges: Edges, report: Report) -> None:
    source = flow.by_name.get(str(step.fork_from))
    if source is None or source is step:
        return  # reported with the other names
    if not source.session:
        message = f"{step.name} forks from {source.name}, which has no session"
        report.error("bad-fork", step.at, message, fix=f"add session: to {source.name}")
    if not step.session:
        report.error(
            "bad-fork", step.at, f"{step.name} forks, so it needs a session of its own", fix="add session: NAME"
        )
    elif step.session == source.session:
        message = f"{step.name} forks from the session {step.session} into itself"
        report.error("bad-fork", step.at, message, fix="give the fork another session")


def _exclude(first: StepSpec, second: StepSpec) -> bool:
    """Whether two steps never both run: they test one value for being different things."""
    one, other = _tested(first), _tested(second)
    return one is not None and other is not None and one[0] == other[0] and one[1] != other[1]


def _tested(step: StepSpec) -> tuple[Any, Any] | None:
    """The value that a step's condition asks for, and where it looks; None when that cannot be told."""
    name: str | None = None
    value: Any = None
    if isinstance(step.when, WhenInput) and step.when.test in ("eq", "is_present", "is_null"):
        name, value = step.when.input, (step.when.test, step.when.value)
    elif isinstance(step.when, WhenExpression):
        name, value = _equality(step.when.expression.text)
    input_ = next((one for one in step.inputs if one.name == name), None)
    if input_ is None or len(input_.sources) != 1:
        return None
    kind = value[0] if isinstance(value, tuple) else ""
    return (kind, input_.sources), value


def _equality(text: str) -> tuple[str | None, Any]:
    """The name and the constant of `name == 'constant'`, or of `name` and `not name`."""
    body = ast.parse(text.strip().replace("\n", " "), mode="eval").body
    if isinstance(body, ast.Name):
        return body.id, ("truth", True)
    if isinstance(body, ast.UnaryOp) and isinstance(body.op, ast.Not) and isinstance(body.operand, ast.Name):
        return body.operand.id, ("truth", False)
    match body:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=value)]):
            return name, ("eq", value)
    return None, None
