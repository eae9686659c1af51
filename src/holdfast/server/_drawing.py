"""A flow's graph as an answer: data for programs, a picture for people."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from starlette.responses import Response

from holdfast.flowfiles import FlowFile, ForEach, Input, Source, StepSource, StepSpec, SubFlow, to_graph
from holdfast.graph import to_mermaid, to_svg

GraphFormat: TypeAlias = Literal["json", "svg", "mermaid"]
PICTURES = ("image/svg+xml", "text/plain")


class DrawnInput(Struct, frozen=True):
    """Where a step takes one of its inputs from."""

    name: str
    sources: list[list[str]]
    """each the step, or `$job`, and the names that lead to the value; the first that is there counts"""


class DrawnRule(Struct, frozen=True):
    """A rule that may lead elsewhere once a step is done."""

    name: str
    action: str
    target: str | None
    max_iterations: int | None


class DrawnStep(Struct, frozen=True):
    """A step, what it comes after, and the flow inside it if there is one."""

    name: str
    kind: str
    description: str
    after: list[str]
    """steps whose end it waits for"""
    may_follow: list[str]
    """steps whose results it takes if they are there"""
    inputs: list[DrawnInput]
    rules: list[DrawnRule]
    items: list[str] | None
    """of a step that runs its flow once for each item: where the list comes from"""
    item_name: str
    flow: DrawnFlow | None


class DrawnFlow(Struct, frozen=True):
    """A flow's steps, in the file's order."""

    name: str
    nodes: list[DrawnStep]


def drawn(flow: FlowFile, how: GraphFormat) -> Response:
    """The graph of a flow, drawn in a way."""
    if how == "json":
        return Response(msgspec.json.encode(draw(flow)), media_type="application/json")
    if how == "mermaid":
        return Response(to_mermaid(to_graph(flow)), media_type="text/plain; charset=utf-8")
    return Response(to_svg(to_graph(flow)), media_type="image/svg+xml")


def draw(flow: FlowFile) -> DrawnFlow:
    """A flow with everything inside it, and nothing of what its steps would do."""
    return DrawnFlow(flow.name, [_step(step) for step in flow.steps])


def _step(step: StepSpec) -> DrawnStep:
    executor = step.executor
    inner = draw(executor.flow) if isinstance(executor, SubFlow | ForEach) else None
    strong = dict.fromkeys(
        (*step.after, *step.after_resolved, *([step.fork_from] if step.fork_from else []), *_read(step, weak=False))
    )
    return DrawnStep(
        step.name, step.kind, step.description, [*strong],
        [name for name in _read(step, weak=True) if name not in strong],
        [DrawnInput(one.name, [_words(source) for source in one.sources]) for one in step.inputs],
        [DrawnRule(rule.name, rule.action, rule.target, rule.max_iterations) for rule in step.exits],
        _words(executor.source) if isinstance(executor, ForEach) else None,
        executor.item_name if isinstance(executor, ForEach) else "",
        inner,
    )  # fmt: skip


def _read(step: StepSpec, *, weak: bool) -> dict[str, None]:
    """The steps that it reads from, without what comes round in a loop: those it needs, or those it can do without."""
    sources = [source for one in step.inputs if _is_weak(one) is weak for source in one.sources]
    if isinstance(step.executor, ForEach) and not weak:
        sources.append(step.executor.source)
    return dict.fromkeys(source.step for source in sources if isinstance(source, StepSource) and source.loop is None)


def _is_weak(one: Input) -> bool:
    return one.optional or len(one.sources) > 1


def _words(source: Source) -> list[str]:
    return [source.step, *source.path] if isinstance(source, StepSource) else ["$job", source.name, *source.path]
