"""The graph of a flow, a crew or an agent in Python, drawn as flow files are: one picture for all."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.responses import Response

from holdfast.graph import BEGINNING, AnyOf, Condition, Graph, Node, labels_of, route_label, to_mermaid, to_svg
from holdfast.server._drawing import DrawnFlow, DrawnRule, DrawnStep, GraphFormat

SIGNS = "✗∀Σ"
"""What labels begin with that tell of a step otherwise than by its completion."""


def drawn_graph(graph: Graph, how: GraphFormat) -> Response:
    """A graph, drawn in a way."""
    if how == "json":
        return Response(msgspec.json.encode(draw_graph(graph)), media_type="application/json")
    if how == "mermaid":
        return Response(to_mermaid(graph), media_type="text/plain; charset=utf-8")
    return Response(to_svg(graph), media_type="image/svg+xml")


def draw_graph(graph: Graph) -> DrawnFlow:
    """A graph's steps, in order. What leads back to an earlier one, or to itself, is a rule that loops."""
    places = {node.name: place for place, node in enumerate(graph.nodes)}
    owners = {name: name for name in places}
    owners |= {route_label(route): node.name for node in graph.nodes for route in node.routes}
    open_routers = [node.name for node in graph.nodes if node.is_router and not node.routes]
    loops: dict[str, list[DrawnRule]] = {}
    steps = []
    for node in graph.nodes:
        before = [(label, name) for label in labels_of(node.trigger) for name in _owners(label, owners, open_routers)]
        for label, name in before:
            if places[name] >= places[node.name]:
                loops.setdefault(name, []).append(DrawnRule(label.lstrip("→"), "loop", node.name, None))
        ahead = [*dict.fromkeys(name for _, name in before if places[name] < places[node.name])]
        steps.append(_step(node, ahead))
    return DrawnFlow(graph.name, [msgspec.structs.replace(step, rules=loops.get(step.name, [])) for step in steps])


def _owners(label: str, owners: dict[str, str], open_routers: list[str]) -> list[str]:
    """The steps that a label may tell of; a route that nobody declares may be one of any router that declares none."""
    found = owners.get(label) or owners.get(label[1:] if label[:1] in SIGNS else "")
    if found is not None:
        return [found]
    return open_routers if label != BEGINNING else []


def _step(node: Node, before: Iterable[str]) -> DrawnStep:
    strong, weak = ([], [*before]) if _is_choice(node.trigger) else ([*before], [])
    return DrawnStep(node.name, "router" if node.is_router else "step", "", strong, weak, [], [], None, "", None)


def _is_choice(trigger: Condition | None) -> bool:
    return isinstance(trigger, AnyOf)
