"""Builds steps from what was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.flowfiles._decorators import undecorated
from holdfast.flowfiles._executors import Surroundings, build_executor
from holdfast.flowfiles._fields import coerce, read_outputs
from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._format import COMMON
from holdfast.flowfiles._kinds import kind_of_node
from holdfast.flowfiles._model import (
    Cache,
    Executor,
    ExitRule,
    External,
    Fallback,
    ForEach,
    ResourceRequest,
    Retry,
    Script,
    StepSpec,
    When,
    WhenExpression,
    WhenInput,
)
from holdfast.flowfiles._nearest import did_you_mean
from holdfast.flowfiles._nodes import Mapping as MappingNode
from holdfast.flowfiles._nodes import Node
from holdfast.flowfiles._parts import Limits, OutputField, Position
from holdfast.flowfiles._shapes import Fields, Record, names_of, wrong
from holdfast.flowfiles._sources import read_inputs

FAILURE_NAMES = frozenset({"error", "error_category", "attempt"})
NOTHING = Script(text="")
"""What a step does whose executor was reported: the rest of the file is still checked."""


def build_step(name: str, at: Position, node: Node, around: Surroundings) -> StepSpec:
    """A step. Whatever is wrong with it is reported, and left out."""
    report = around.report
    if not isinstance(node, MappingNode):
        wrong(node, "a step: a mapping with run, executor, flow or for_each", report)
        return StepSpec(name=name, at=at, executor=NOTHING)
    node = undecorated(node)
    kind = kind_of_node(node, report)
    if kind is None:
        fields = Record("a step", COMMON).read(_without_options(node), Report())
        return _step(name, at, fields, NOTHING, around)
    fields = kind.record.read(node, report)
    return _step(name, at, fields, build_executor(kind, fields, around) or NOTHING, around)


def _without_options(node: MappingNode) -> MappingNode:
    return MappingNode(node.at, tuple(entry for entry in node.entries if entry[0].text in COMMON))


def _step(name: str, at: Position, fields: Fields, executor: Executor, around: Surroundings) -> StepSpec:
    report = around.report
    outputs = _outputs(fields, report)
    if isinstance(executor, ForEach):
        outputs = outputs or (OutputField(name="results", at=at, type="list"),)
    if isinstance(executor, External) and executor.on_timeout:
        executor = replace(
            executor, on_timeout=_fitted(executor.on_timeout, outputs, fields.place("on_timeout"), report)
        )
    return StepSpec(
        name=name,
        at=at,
        executor=executor,
        description=fields.get("description", ""),
        inputs=read_inputs(fields.get("inputs", []), report),
        outputs=outputs,
        after=tuple(dict.fromkeys((*names_of(fields.get("after", ())), *names_of(fields.get("sequencing", ()))))),
        after_resolved=names_of(fields.get("after_resolved", ())),
        when=_when(fields.get("when"), report),
        derived_outputs=_derived(fields, outputs, report),
        exits=_exits(fields.get("exits", []), report),
        limits=build_limits(fields.get("limits")),
        retry=_retry(fields, report),
        timeout_seconds=fields.get("timeout"),
        fallback=_fallback(fields, around),
        on_error="fail" if isinstance(executor, ForEach) else fields.get("on_error", "fail"),
        idempotency=fields.get("idempotency", "idempotent"),
        cache=_cache(fields.get("cache")),
        session=fields.get("session"),
        fork_from=fields.get("fork_from"),
        loop_prompt=fields.get("loop_prompt"),
        max_continuous_attempts=fields.get("max_continuous_attempts"),
        resources=_resources(fields.get("resources", [])),
    )


def _fitted(
    answer: Mapping[str, Any], outputs: tuple[OutputField, ...], at: Position, report: Report
) -> dict[str, Any]:
    """The answer that stands in for a person's, as the form would have it."""
    form = {one.name: one for one in outputs}
    fitted = {}
    for name, value in answer.items():
        if name not in form:
            fix = did_you_mean(name, form).removeprefix("; ") or "declare it in outputs"
            report.error("unknown-output", at, f"on_timeout gives {name}, which is no output of the step", fix=fix)
            continue
        try:
            fitted[name] = coerce(form[name], value)
        except ValueError as error:
            report.error("wrong-value", at, f"on_timeout: {error}")
    return fitted


def _outputs(fields: Fields, report: Report) -> tuple[OutputField, ...]:
    named = read_outputs(fields.get("outputs", []), fields.place("outputs"), report)
    typed = {one.name: one for one in read_outputs(fields.get("output_fields", []), fields.at, report)}
    known = [typed.pop(one.name, one) for one in named]
    return (*known, *typed.values())


def _derived(fields: Fields, outputs: tuple[OutputField, ...], report: Report) -> tuple[Any, ...]:
    taken = {one.name for one in outputs}
    for at, name, _ in fields.get("derived_outputs", []):
        if name in taken:
            report.error(
                "duplicate-output", at, f"{name} is an output already", fix="give the derived one another name"
            )
    return tuple((name, expression) for _, name, expression in fields.get("derived_outputs", []))


def _when(said: Any, report: Report) -> When | None:
    if not isinstance(said, Fields):
        return WhenExpression(said) if said else None
    tests = [test for test in ("eq", "in", "is_null", "is_present") if test in said]
    if len(tests) != 1:
        report.error("bad-condition", said.at, "a condition needs one of eq, in, is_null and is_present")
        return None
    value = said.get(tests[0])
    return WhenInput(said.get("input", ""), said.at, tests[0], list(names_of(value)) if tests[0] == "in" else value)  # type: ignore[arg-type]


def _exits(rules: list[tuple[Position, Fields]], report: Report) -> tuple[ExitRule, ...]:
    return tuple(_rule(number, at, fields, report) for number, (at, fields) in enumerate(rules, 1))


def _rule(number: int, at: Position, fields: Fields, report: Report) -> ExitRule:
    action = fields.get("action", "advance")
    if action == "loop" and "target" not in fields:
        report.error("no-target", at, "a loop needs the step it goes back to", fix="add target: STEP")
    for key in ("target", "max_iterations"):
        if action != "loop" and key in fields:
            report.error(
                "misplaced-key", fields.place(key), f"{key} does not apply to {action}", fix="only a loop has one"
            )
    when = fields.get("when")
    return ExitRule(
        action=action,
        at=at,
        name=fields.get("name") or f"{action}-{number}",
        when=when,
        target=fields.get("target"),
        max_iterations=fields.get("max_iterations"),
        on_failure=when is None or not when.names or not FAILURE_NAMES.isdisjoint(when.names),
    )


def build_limits(fields: Fields | None) -> Limits:
    return Limits(**fields.values) if fields else Limits()


def _retry(fields: Fields, report: Report) -> Retry | None:
    said = fields.get("retry")
    if said is None:
        return None
    if fields.get("idempotency") == "non_retriable" and said != 0:
        message = "a step that may not run again cannot be retried"
        report.error("contradiction", fields.place("retry"), message, fix="remove retry, or change idempotency")
    if isinstance(said, int):
        return Retry(max_retries=said) if said else None
    if ("max_retries" in said) == ("max_attempts" in said):
        report.error("bad-retry", said.at, "retry needs either max_retries or max_attempts")
        return None
    options = {key: value for key, value in said.values.items() if key not in ("max_retries", "max_attempts", "on")}
    if "on" in said.values:
        options["on"] = names_of(said.get("on"))
    return Retry(max_retries=said.get("max_retries", said.get("max_attempts", 1) - 1), **options)


def _cache(said: Any) -> Cache | None:
    if isinstance(said, Fields):
        return Cache(ttl_seconds=said.get("ttl"), key_extra=said.get("key_extra", ""))
    return Cache() if said else None


def _resources(listed: list[tuple[Position, Any]]) -> tuple[ResourceRequest, ...]:
    return tuple(
        ResourceRequest(kind=said, at=at)
        if isinstance(said, str)
        else ResourceRequest(kind=said.get("kind", ""), at=at, options=_mapping(said.get("options")))
        for at, said in listed
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _fallback(fields: Fields, around: Surroundings) -> Fallback | None:
    node = fields.get("fallback")
    if node is None:
        return None
    if not isinstance(node, MappingNode):
        wrong(node, "another executor, written as in a step: a mapping with run, executor or flow", around.report)
        return None
    kind = kind_of_node(node, around.report)
    if kind is None:
        return None
    executor = build_executor(kind, kind.fallback.read(node, around.report), around)
    return Fallback(executor=executor or NOTHING, at=node.at)
