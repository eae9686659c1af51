"""A flow file as a graph whose steps are driven by data."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.flowfiles import FlowFile, ForEach, JobSource, StepSource, StepSpec
from holdfast.flowfiles import Source as Origins
from holdfast.graph import AllOf, AnyOf, Condition, Graph, Need, Node, Origin, Source, Wiring

MAX_CALLS = 10_000


def compile_flow(flow: FlowFile) -> Graph:
    """The graph of a flow. Triggers are only there to be drawn."""
    wiring = tuple(_wiring(step) for step in flow.steps)
    nodes = tuple(
        Node(step.name, trigger := _trigger(wired), is_start=trigger is None)
        for step, wired in zip(flow.steps, wiring, strict=True)
    )
    return Graph(flow.name, nodes, MAX_CALLS, wiring=wiring)


def _wiring(step: StepSpec) -> Wiring:
    loops = tuple((rule.name, rule.target) for rule in step.exits if rule.action == "loop" and rule.target)
    needs = tuple(need for _, need in needs_of(step))
    return Wiring(step.name, needs, step.when is not None, step.idempotency == "non_retriable", loops)


def needs_of(step: StepSpec) -> Iterator[tuple[str, Need]]:
    """What a step needs, each with the name of the input it is for; empty for what only sets an order."""
    for one in step.inputs:
        if (need := _need(one.sources, one.optional)) is not None:
            yield one.name, need
    executor = step.executor
    if isinstance(executor, ForEach) and (need := _need((executor.source,), False)) is not None:
        yield ITEMS, need
    for name in dict.fromkeys((*step.after, *((step.fork_from,) if step.fork_from else ()))):
        yield "", Need((Origin(name),))
    for name in step.after_resolved:
        yield "", Need((Origin(name),), resolved=True)


ITEMS = "*"
"""Under which name the items of a `for_each` are bound: no input is called so."""


def _need(sources: tuple[Origins, ...], optional: bool) -> Need | None:
    """What must be there for an input. A variable of the job always is: what comes after it is never looked at."""
    origins: list[Origin] = []
    for source in sources:
        if isinstance(source, JobSource):
            optional = True
            break
        origins.append(Origin(source.step, source.loop or ""))
    only_back = bool(origins) and all(origin.loop for origin in origins)
    return Need(tuple(origins), optional or only_back) if origins else None


def _trigger(wiring: Wiring) -> Condition | None:
    parts: list[Condition] = []
    for need in wiring.needs:
        sources = tuple(Source(origin.step) for origin in need.origins)
        parts.append(sources[0] if len(sources) == 1 else AnyOf(sources))
    parts = list(dict.fromkeys(parts))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def step_sources(step: StepSpec) -> set[str]:
    """The steps that a step takes something from."""
    found = {source.step for one in step.inputs for source in one.sources if isinstance(source, StepSource)}
    executor = step.executor
    if isinstance(executor, ForEach) and isinstance(executor.source, StepSource):
        found.add(executor.source.step)
    return found
