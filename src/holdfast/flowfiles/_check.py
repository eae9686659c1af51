"""What can be known about a flow without running it: names that exist, circles that end, sessions with one writer at a time."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from holdfast.flowfiles._check_loops import check_loops
from holdfast.flowfiles._check_reading import check_expressions, check_templates, produced
from holdfast.flowfiles._check_sessions import check_sessions
from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._model import FlowFile, ForEach, Input, JobSource, StepSpec, SubFlow
from holdfast.flowfiles._nearest import did_you_mean
from holdfast.flowfiles._order import step_sources, terminals
from holdfast.flowfiles._parts import Position, Variable


def check_flow_model(flow: FlowFile, report: Report) -> None:
    """Report what is wrong with a flow that was built. Sub-flows were checked when they were built."""
    _check_variables(flow, report)
    for step in flow.steps:
        _check_names(flow, step, report)
        _check_sources(flow, step, report)
        check_expressions(step, report)
        check_templates(step, report)
        _check_child(step, report)
    if check_loops(flow, report):
        check_sessions(flow, report)


def implied_variables(flow: FlowFile) -> tuple[Variable, ...]:
    """What steps read as `$job.NAME` though nothing declares it."""
    declared = {one.name for one in flow.variables}
    found: dict[str, Variable] = {}
    for input_, source, at in _job_sources(flow):
        if source.name not in declared:
            required = input_ is None or not input_.optional
            known = found.get(source.name)
            found[source.name] = Variable(
                name=source.name,
                at=known.at if known else at,
                type="any",
                required=required or (known is not None and known.required),
                implied=True,
            )
    return tuple(found.values())


def _job_sources(flow: FlowFile) -> Iterator[tuple[Input | None, JobSource, Position]]:
    for step in flow.steps:
        for input_ in step.inputs:
            for source in input_.sources:
                if isinstance(source, JobSource):
                    yield input_, source, input_.at
        if isinstance(step.executor, ForEach) and isinstance(step.executor.source, JobSource):
            yield None, step.executor.source, step.at


def _check_variables(flow: FlowFile, report: Report) -> None:
    declared = {one.name: one for one in flow.variables if not one.implied}
    twice = {one.name for one in flow.inputs if not one.implied} & {one.name for one in flow.config}
    for one in flow.config:
        if one.name in twice:
            report.error(
                "duplicate-variable", one.at, f"{one.name} is an input and a setting", fix="keep one of the two"
            )
    for one in flow.inputs:
        if one.implied and declared:
            hint = did_you_mean(one.name, declared).removeprefix("; ")
            fix = hint or f"add {one.name}: to the flow's inputs"
            report.warning("undeclared-variable", one.at, f"the flow declares no variable {one.name}", fix=fix)


def _check_names(flow: FlowFile, step: StepSpec, report: Report) -> None:
    """Steps that are waited for or gone back to must exist."""
    others = [name for name in flow.by_name if name != step.name]
    named = [("after", one) for one in step.after] + [("after_resolved", one) for one in step.after_resolved]
    named += [("fork_from", step.fork_from)] if step.fork_from else []
    for key, name in named:
        if name not in flow.by_name:
            _unknown_step(f"{key} of {step.name}", name, step.at, others, report)
    for rule in step.exits:
        if rule.target and rule.target not in flow.by_name:
            _unknown_step(f"the rule {rule.name} of {step.name}", rule.target, rule.at, list(flow.by_name), report)


def _unknown_step(where: str, name: str, at: Position, names: list[str], report: Report) -> None:
    hint = did_you_mean(name, names).removeprefix("; ")
    report.error("unknown-step", at, f"{where} names {name}, and there is no such step", fix=hint or "correct the name")


def _check_sources(flow: FlowFile, step: StepSpec, report: Report) -> None:
    """What is read must be there: the step, and the output."""
    for input_, source in step_sources(step):
        where = f"the input {input_.name} of {step.name}" if input_ else f"for_each of {step.name}"
        at = input_.at if input_ else step.at
        other = flow.by_name.get(source.step)
        if other is None:
            _unknown_step(where, source.step, at, list(flow.by_name), report)
            continue
        fields = produced(other)
        if fields is not None and source.path[0] not in fields:
            hint = did_you_mean(source.path[0], fields) or f"; it gives {', '.join(fields) or 'nothing'}"
            message = f"{where} reads {source.step}.{source.path[0]}, which {source.step} does not give"
            report.error("unknown-output", at, message, fix=hint.removeprefix("; "))
        if input_ is None:
            _check_list(step, other, source.path, report)


def _check_list(step: StepSpec, other: StepSpec, path: tuple[str, ...], report: Report) -> None:
    field = next((one for one in other.outputs if one.name == path[0]), None)
    if field is not None and len(path) == 1 and field.type not in ("list", "any"):
        message = f"for_each of {step.name} goes through {other.name}.{field.name}, which is {field.type} and no list"
        report.error("no-list", step.at, message, fix="give it type: list")


def _check_child(step: StepSpec, report: Report) -> None:
    """A sub-flow must be given what it needs, and give what the step promises."""
    executor = step.executor
    if not isinstance(executor, SubFlow | ForEach):
        return
    given = {one.name: one.at for one in step.inputs}
    if isinstance(executor, ForEach):
        if executor.item_name in given:
            message = f"{executor.item_name} is the item and an input of {step.name}"
            report.error("duplicate-variable", step.at, message, fix="choose another name with as:")
        given.setdefault(executor.item_name, step.at)
    child = {one.name: one for one in executor.flow.variables}
    for one in executor.flow.inputs:
        if one.required and one.default is UNSET and not one.sensitive and one.name not in given:
            message = f"the flow of {step.name} needs {one.name}, and nothing gives it"
            report.error("missing-input", step.at, message, fix=f"add {one.name}: to the inputs of {step.name}")
    for name, at in given.items():
        if child and name not in child:
            hint = did_you_mean(name, child).removeprefix("; ") or "remove it"
            report.warning("unused-input", at, f"the flow of {step.name} reads no {name}", fix=hint)
    _check_promised(step, executor, report)


def _check_promised(step: StepSpec, executor: SubFlow | ForEach, report: Report) -> None:
    if isinstance(executor, ForEach):
        for one in step.outputs:
            if one.name != "results":
                report.error(
                    "unknown-output", one.at, f"a for_each step gives results, not {one.name}", fix="use results"
                )
        return
    fields = produced_by(executor.flow)
    for one in step.outputs:
        if fields is not None and one.name not in fields:
            hint = did_you_mean(one.name, fields) or f"; it gives {', '.join(fields) or 'nothing'}"
            message = f"the flow of {step.name} does not give {one.name}"
            report.error("unknown-output", one.at, message, fix=hint.removeprefix("; "))


def produced_by(flow: FlowFile) -> dict[str, None] | None:
    """The outputs of a flow: those of its last steps. None when that is only known once it ran."""
    found: dict[str, None] = {}
    for step in terminals(flow):
        fields = produced(step)
        if fields is None:
            return None
        found |= fields
    return found
