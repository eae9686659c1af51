"""A flow as a graph, for pictures: steps, what leads to what, and the rules that lead elsewhere."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import msgspec

from holdfast.flowfiles._model import ExitRule, FlowFile, StepSource, StepSpec
from holdfast.flowfiles._order import loop_rules, waits_for
from holdfast.graph import AllOf, AnyOf, Condition, Graph, Node, Source, route_label


def to_graph(flow: FlowFile) -> Graph:
    """The flow's graph. Loops, escalations and abandons are routes of the step whose rule takes them."""
    routes = _route_names(flow)
    nodes = tuple(_node(flow, step, routes) for step in flow.steps)
    return Graph(name=flow.name, nodes=nodes)


def _route_names(flow: FlowFile) -> dict[tuple[str, str], str]:
    """What each rule that leads elsewhere is called: by its name, and by its step too where that is not enough."""
    rules = [(step.name, rule.name) for step in flow.steps for rule in step.exits if rule.action != "advance"]
    count = Counter(name for _, name in rules)
    return {(step, name): name if count[name] == 1 else f"{step} {name}" for step, name in rules}


def _node(flow: FlowFile, step: StepSpec, routes: dict[tuple[str, str], str]) -> Node:
    before = _before(step)
    back = [
        Source(route_label(routes[one.name, rule.name])) for one, rule in loop_rules(flow) if rule.target == step.name
    ]
    return Node(
        name=step.name,
        trigger=_any([before, *back] if before else list(back)),
        is_start=before is None,
        is_router=any(map(_leads_elsewhere, step.exits)),
        routes=tuple(dict.fromkeys(routes[step.name, rule.name] for rule in step.exits if _leads_elsewhere(rule))),
        digest=hashlib.sha256(msgspec.json.encode(_unplaced(msgspec.to_builtins(step)))).hexdigest()[:16],
    )


def _unplaced(data: Any) -> Any:
    """Without the places of things, so that a comment further up does not change a step."""
    if isinstance(data, dict):
        return (
            None
            if data.keys() == {"file", "line", "column"}
            else {key: _unplaced(value) for key, value in data.items()}
        )
    return [_unplaced(item) for item in data] if isinstance(data, list | tuple) else data


def _leads_elsewhere(rule: ExitRule) -> bool:
    return rule.action != "advance"


def _before(step: StepSpec) -> Condition | None:
    """What a step comes after, without what comes round in a loop."""
    parts: list[Condition] = [Source(name) for name in waits_for(step)]
    for input_ in step.inputs:
        names = [one.step for one in input_.sources if isinstance(one, StepSource) and one.loop is None]
        choice = _any([Source(name) for name in dict.fromkeys(names)])
        if choice is not None and choice not in parts:
            parts.append(choice)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _any(parts: list[Condition]) -> Condition | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))
