"""What expressions and templates may read."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from holdfast.errors import ExpressionError
from holdfast.flowfiles._expressions import CompiledExpression, compile_expression
from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._model import AgentCall, Executor, External, Llm, Poll, StepSpec, WhenExpression, WhenInput
from holdfast.flowfiles._nearest import did_you_mean
from holdfast.flowfiles._parts import ErrorCategory, Expression, Template
from holdfast.flowfiles._shapes import report_expression
from holdfast.flowfiles._templates import compile_template

RULE_NAMES = frozenset({"outputs", "attempt", "max_attempts", "error", "error_category"})


def produced(step: StepSpec) -> dict[str, None] | None:
    """The outputs a step gives; None when they are only known once it ran."""
    fields = [one.name for one in step.outputs]
    if not fields:
        executor = step.executor
        if not isinstance(executor, AgentCall):
            return None
        fields = ["status"] if executor.output_mode == "effect" else ["result"]
    fields += [name for name, _ in step.derived_outputs]
    fields += ["_error", "_session"]
    return dict.fromkeys(fields)


def check_expressions(step: StepSpec, report: Report) -> None:
    """Report names that are not there where an expression reads them."""
    inputs = [one.name for one in step.inputs]
    if isinstance(step.when, WhenExpression):
        _check(step.when.expression, inputs, report)
    elif isinstance(step.when, WhenInput):
        _check_input_test(step, step.when, inputs, report)
    fields = produced(step)
    known = ["outputs", *(name for name in fields or () if name not in dict(step.derived_outputs))]
    for name, expression in step.derived_outputs:
        _check(expression, known if fields is not None else None, report)
        known.append(name)
    for rule in step.exits:
        if rule.when is not None:
            compiled = _check(rule.when, RULE_NAMES, report)
            if compiled is not None:
                _check_fields(step, rule.when, compiled, fields, report)
                _check_categories(rule.when, compiled, report)


def _check(expression: Expression, known: Collection[str] | None, report: Report) -> CompiledExpression | None:
    try:
        return compile_expression(expression.text, expression.at, known=known)
    except ExpressionError as error:
        report_expression("unknown-name", error, expression.at, report)
        return None


def _check_fields(
    step: StepSpec, expression: Expression, compiled: CompiledExpression, fields: Collection[str] | None, report: Report
) -> None:
    for field in compiled.fields_of("outputs"):
        if fields is not None and field not in fields:
            hint = did_you_mean(field, fields).removeprefix("; ") or f"it gives {', '.join(fields)}"
            report.error("unknown-output", expression.at, f"{step.name} does not give {field}", fix=hint)


def _check_categories(expression: Expression, compiled: CompiledExpression, report: Report) -> None:
    """A category that does not exist never comes."""
    categories = get_args(ErrorCategory)
    for value in compiled.compared_with("error_category"):
        if isinstance(value, str) and value not in categories:
            hint = did_you_mean(value, categories).removeprefix("; ") or f"there are {', '.join(categories)}"
            report.warning("unknown-category", expression.at, f"no failure is of category {value!r:.60}", fix=hint)


def _check_input_test(step: StepSpec, when: WhenInput, inputs: list[str], report: Report) -> None:
    if when.input not in inputs:
        hint = did_you_mean(when.input, inputs).removeprefix("; ") or "add it to the inputs"
        report.error("unknown-name", when.at, f"{step.name} has no input {when.input}", fix=hint)
        return
    input_ = next(one for one in step.inputs if one.name == when.input)
    if when.test == "is_present" and when.value is False and not input_.optional and input_.sources:
        message = f"{step.name} never runs: {when.input} is not optional, so it is there whenever the step is ready"
        report.error("never-runs", when.at, message, fix="make the input optional")


def check_templates(step: StepSpec, report: Report) -> None:
    """Warn of `$name` in a template that no input fills."""
    inputs = [one.name for one in step.inputs]
    fallback = _templates(step.fallback.executor) if step.fallback else []
    for template in (*_templates(step.executor), *fallback, step.loop_prompt):
        for name in compile_template(template.text).names if template else ():
            if name not in inputs and template is not None:
                hint = (
                    did_you_mean(name, inputs).removeprefix("; ")
                    or f"add {name}: to the inputs, or write $$ for a dollar"
                )
                message = f"${name} stays as it is: {step.name} has no input {name}"
                report.warning("unfilled-template", template.at, message, fix=hint)


def _templates(executor: Executor) -> list[Template]:
    found: list[Template | None] = []
    if isinstance(executor, Llm):
        found = [executor.prompt, executor.system, executor.model]
    elif isinstance(executor, AgentCall):
        found = [executor.prompt, executor.working_dir, executor.model]
    elif isinstance(executor, External | Poll):
        found = [executor.prompt]
    return [one for one in found if one is not None]
