"""Which inputs come round in a loop, and in which."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.flowfiles._model import FlowFile, Input, StepSource, StepSpec
from holdfast.flowfiles._order import Before, comes_before, is_weak, loop_rules, step_sources, strong_edges

Edges = dict[str, dict[str, None]]


def with_loops(flow: FlowFile) -> FlowFile:
    """The flow with every source that closes a circle marked by the head of its loop. A circle that no rule closes is left
    unmarked; the checks refuse it.
    """
    edges = strong_edges(flow)
    backward = _backward(flow, edges)
    if not backward:
        return flow
    before = Before(edges)
    heads = {(reader, source): _head(flow, before, reader, source) for reader, source in backward}
    return replace(flow, steps=tuple(_marked(step, heads) for step in flow.steps))


def _backward(flow: FlowFile, edges: Edges) -> set[tuple[str, str]]:
    """The weak dependencies `(reader, source)` that would close a circle. Adds the others to the edges.

    Those that follow the file's order are taken first, so what reads upwards in the file is what goes back.
    """
    place = {step.name: number for number, step in enumerate(flow.steps)}
    weak = {
        (step.name, source.step): None
        for step in flow.steps
        for input_, source in step_sources(step)
        if is_weak(input_) and source.step in place
    }
    backward = set()
    for reader, source in sorted(weak, key=lambda pair: (place[pair[1]] >= place[pair[0]], place[pair[0]])):
        if comes_before(edges, reader, source):
            backward.add((reader, source))
        else:
            edges[reader][source] = None
    return backward


def _head(flow: FlowFile, before: Before, reader: str, source: str) -> str | None:
    """The head of the innermost loop that leads from the source back to the reader."""
    around = [
        (str(rule.target), step.name)
        for step, rule in loop_rules(flow)
        if before.or_is(str(rule.target), reader)
        and before.or_is(reader, step.name)
        and before.or_is(str(rule.target), source)
    ]
    inside = [head for head, closer in around if before.or_is(source, closer)]
    heads = inside or [head for head, _ in around]  # a source on a branch beside the loop
    return max(sorted(heads), key=before.count, default=None)


def _marked(step: StepSpec, heads: dict[tuple[str, str], str | None]) -> StepSpec:
    return replace(step, inputs=tuple(_marked_input(step.name, input_, heads) for input_ in step.inputs))


def _marked_input(reader: str, input_: Input, heads: dict[tuple[str, str], str | None]) -> Input:
    if not is_weak(input_):
        return input_
    sources = tuple(
        replace(source, loop=heads.get((reader, source.step))) if isinstance(source, StepSource) else source
        for source in input_.sources
    )
    return replace(input_, sources=sources)
