"""A flow file as a graph whose steps are driven by data."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.flowfiles import FlowFile, ForEach, JobSource, Source, StepSpec, to_graph
from holdfast.graph import Graph, Need, Origin, Wiring

MAX_CALLS = 10_000


def compile_flow(flow: FlowFile) -> Graph:
    """The graph of a flow, made once for each object. Triggers are only there to be drawn."""
    kept: dict[str, Graph] = flow.__dict__
    if "compiled" not in kept:
        wiring = tuple(_wiring(step) for step in flow.steps)
        kept["compiled"] = Graph(flow.name, to_graph(flow).nodes, MAX_CALLS, wiring=wiring)
    return kept["compiled"]


def _wiring(step: StepSpec) -> Wiring:
    loops = tuple((rule.name, rule.target) for rule in step.exits if rule.action == "loop" and rule.target)
    needs = tuple(need for _, need in needs_of(step))
    nested = step.kind in ("flow", "for_each")
    return Wiring(step.name, needs, step.when is not None, step.idempotency == "non_retriable", nested, loops)


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


def _need(sources: tuple[Source, ...], optional: bool) -> Need | None:
    """What must be there for an input. A variable of the job always is: what comes after it is never looked at."""
    origins: list[Origin] = []
    for source in sources:
        if isinstance(source, JobSource):
            optional = True
            break
        origins.append(Origin(source.step, source.loop or "", ".".join(source.path) if len(sources) > 1 else ""))
    only_back = bool(origins) and all(origin.loop for origin in origins)
    return Need(tuple(origins), optional or only_back) if origins else None
