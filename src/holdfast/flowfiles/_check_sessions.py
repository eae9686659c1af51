"""Sessions: one writer at a time, forks from a step that has one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations, islice, pairwise
from typing import Any

from holdfast.flowfiles._expressions import compile_expression
from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._model import FlowFile, StepSpec, WhenExpression, WhenInput
from holdfast.flowfiles._order import Before, strong_edges
from holdfast.flowfiles._parts import Expression

MAX_CLASHES = 10
"""Told of one session; the rest is more of the same."""


def check_sessions(flow: FlowFile, report: Report) -> None:
    """Report two writers of one session without an order, and forks that cannot be."""
    edges = strong_edges(flow)
    before = Before(edges)
    writers: dict[str, list[StepSpec]] = {}
    for step in flow.steps:
        if step.session:
            writers.setdefault(step.session, []).append(step)
        if step.fork_from:
            _check_fork(flow, step, report)
        if step.cache and (step.session or step.fork_from):
            message = f"{step.name} takes part in a conversation, so an earlier result cannot stand in for it"
            report.error("contradiction", step.at, message, fix="remove cache")
    for session, steps in writers.items():
        for first, second in islice(_clashes(steps, before), MAX_CLASHES):
            message = f"{first.name} and {second.name} may write the session {session} at the same time"
            fix = f"add after: [{first.name}] to {second.name}, or give it a session of its own"
            report.error("session-writers", second.at, message, fix=fix)


def _clashes(steps: list[StepSpec], before: Before) -> Iterator[tuple[StepSpec, StepSpec]]:
    """Pairs that may run at the same time."""
    if _is_chain(steps, before):
        return
    tested = {step.name: _tested(step) for step in steps}
    for first, second in combinations(steps, 2):
        one, other = tested[first.name], tested[second.name]
        is_either_or = one is not None and other is not None and one[0] == other[0] and one[1] != other[1]
        if not is_either_or and not before(first.name, second.name) and not before(second.name, first.name):
            yield first, second


def _is_chain(steps: list[StepSpec], before: Before) -> bool:
    """Whether each comes after the one before it in the file: then all are in order, and most files are like that."""
    return all(before(one.name, other.name) for one, other in pairwise(steps))


def _check_fork(flow: FlowFile, step: StepSpec, report: Report) -> None:
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


def _tested(step: StepSpec) -> tuple[Any, Any] | None:
    """The value that a step's condition asks for, and where it looks; None when that cannot be told."""
    name: str | None = None
    value: Any = None
    if isinstance(step.when, WhenInput) and step.when.test in ("eq", "is_present", "is_null"):
        name, value = step.when.input, (step.when.test, step.when.value)
    elif isinstance(step.when, WhenExpression):
        name, value = _equality(step.when.expression)
    input_ = next((one for one in step.inputs if one.name == name), None)
    if input_ is None or len(input_.sources) != 1:
        return None
    kind = value[0] if isinstance(value, tuple) else ""
    return (kind, input_.sources), value


def _equality(expression: Expression) -> tuple[str | None, Any]:
    """The name and the constant of `name == 'constant'`, or of `name` and `not name`."""
    body = compile_expression(expression.text).body
    if isinstance(body, ast.Name):
        return body.id, ("truth", True)
    if isinstance(body, ast.UnaryOp) and isinstance(body.op, ast.Not) and isinstance(body.operand, ast.Name):
        return body.operand.id, ("truth", False)
    match body:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[ast.Constant(value=value)]):
            return name, ("eq", value)
    return None, None
