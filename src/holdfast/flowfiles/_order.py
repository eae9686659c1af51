"""Which step comes before which: what the loader, the checks, the picture and the engine must agree on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.flowfiles._model import ExitRule, FlowFile, ForEach, Input, StepSource, StepSpec

Edges = Mapping[str, Iterable[str]]
"""For each step, the steps it comes after."""


def step_sources(step: StepSpec) -> Iterator[tuple[Input | None, StepSource]]:
    """Every output of another step that a step reads, with the input it is for; None for the list of a for_each."""
    for input_ in step.inputs:
        for source in input_.sources:
            if isinstance(source, StepSource):
                yield input_, source
    if isinstance(step.executor, ForEach) and isinstance(step.executor.source, StepSource):
        yield None, step.executor.source


def is_weak(input_: Input | None) -> bool:
    """Whether a step can run without what this input names."""
    return input_ is not None and (input_.optional or len(input_.sources) > 1)


def waits_for(step: StepSpec) -> dict[str, None]:
    """The steps that must be done before this one can start, whatever happens."""
    strong = dict.fromkeys(source.step for input_, source in step_sources(step) if not is_weak(input_))
    forked = [step.fork_from] if step.fork_from else []
    return strong | dict.fromkeys((*step.after, *step.after_resolved, *forked))


def may_follow(step: StepSpec) -> dict[str, None]:
    """The steps whose results it reads or waits for, without what comes round in a loop."""
    read = (source.step for _, source in step_sources(step) if source.loop is None)
    return waits_for(step) | dict.fromkeys(read)


def strong_edges(flow: FlowFile) -> dict[str, dict[str, None]]:
    return {step.name: waits_for(step) for step in flow.steps}


def forward_edges(flow: FlowFile) -> dict[str, dict[str, None]]:
    return {step.name: may_follow(step) for step in flow.steps}


def terminals(flow: FlowFile) -> tuple[StepSpec, ...]:
    """The steps that nothing comes after: their results are the flow's."""
    followed = {before for step in flow.steps for before in may_follow(step)}
    return tuple(step for step in flow.steps if step.name not in followed)


def loop_rules(flow: FlowFile) -> Iterator[tuple[StepSpec, ExitRule]]:
    """The rules that go back, with the step they stand on."""
    for step in flow.steps:
        for rule in step.exits:
            if rule.action == "loop" and rule.target in flow.by_name:
                yield step, rule


def ancestors(edges: Edges, name: str) -> set[str]:
    """Everything that comes before a step; the step itself only if it stands in a circle."""
    found: set[str] = set()
    ahead = list(edges.get(name, ()))
    while ahead:
        one = ahead.pop()
        if one not in found:
            found.add(one)
            ahead.extend(edges.get(one, ()))
    return found


def comes_before(edges: Edges, first: str, second: str) -> bool:
    """Whether `first` is `second`, or comes before it."""
    return first == second or first in ancestors(edges, second)


def in_order(edges: Edges) -> list[str]:
    """The steps, each after everything it comes after; those of a circle, and what comes after them, are left out."""
    left = {name: sum(one in edges for one in set(before)) for name, before in edges.items()}
    after: dict[str, list[str]] = {}
    for name, before in edges.items():
        for one in set(before):
            after.setdefault(one, []).append(name)
    found = [name for name, count in left.items() if count == 0]
    for name in found:  # grows while it is gone through
        for one in after.get(name, ()):
            left[one] -= 1
            if left[one] == 0:
                found.append(one)
    return found


def find_circle(edges: Edges) -> list[str]:
    """Steps that wait for one another, in order, the first one repeated at the end; empty if there are none."""
    free = set(in_order(edges))
    left = {name: [one for one in before if one in edges and one not in free] for name, before in edges.items()}
    start = next((name for name in edges if name not in free), None)
    if start is None:
        return []
    path, seen = [start], {start}
    while (following := left[path[-1]][0]) not in seen:
        path.append(following)
        seen.add(following)
    return [following, *reversed(path[path.index(following) :])]


class Before:
    """Which step comes before which, for many questions about edges without a circle."""

    def __init__(self, edges: Edges) -> None:
        self._bit = {name: 1 << number for number, name in enumerate(edges)}
        self._masks: dict[str, int] = {}
        for name in in_order(edges):
            mask = 0
            for one in edges[name]:
                mask |= self._bit.get(one, 0) | self._masks.get(one, 0)
            self._masks[name] = mask

    def __call__(self, first: str, second: str) -> bool:
        """Whether `first` comes before `second`."""
        return bool(self._masks.get(second, 0) & self._bit.get(first, 0))

    def or_is(self, first: str, second: str) -> bool:
        """Whether `first` comes before `second`, or is the same."""
        return first == second or self(first, second)

    def count(self, name: str) -> int:
        """How many steps come before one."""
        return self._masks.get(name, 0).bit_count()
