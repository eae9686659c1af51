"""What every picture of a graph shows, whatever it is drawn with: shapes, and arrows between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.graph._model import (
    AllOf,
    AnyOf,
    Condition,
    Graph,
    Node,
    Source,
    each_label,
    failure_label,
    gathered_label,
    route_label,
)

Kind: TypeAlias = Literal["start", "router", "step", "mark"]


class Shape(Struct, frozen=True):
    """A step, or a mark that stands for something else: a join, the end of a route, a route from nowhere."""

    key: str
    text: str
    kind: Kind
    is_start: bool = False


class Arrow(Struct, frozen=True):
    """What leads from one shape to another; a guess when a router may take a route but does not say so."""

    source: str
    target: str
    label: str = ""
    is_guess: bool = False


class Sketch:
    """A graph as shapes and arrows, in the order they were defined."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.keys = {node.name: f"n{number}" for number, node in enumerate(graph.nodes)}
        self.shapes = [Shape(self.keys[n.name], n.name, _kind(n), n.is_start) for n in graph.nodes]
        self.arrows: dict[Arrow, None] = {}
        self._nowhere = ""
        for node in graph.nodes:
            if node.trigger is not None:
                self._lead(node.trigger, self.keys[node.name], "")
        for node in graph.nodes:
            self._end_routes(node)

    def _mark(self, text: str) -> str:
        key = f"m{len(self.shapes) - len(self.graph.nodes)}"
        self.shapes.append(Shape(key, text, "mark"))
        return key

    def _lead(self, condition: Condition, target: str, note: str) -> None:
        """Draw what a condition waits for; `note` says how that counts at a join."""
        condition = _plain(condition)
        if isinstance(condition, Source):
            for source, route, is_guess in self._sources(condition.label):
                label = ": ".join(filter(None, (note, route)))
                self.arrows[Arrow(source, target, label, is_guess)] = None
        elif isinstance(condition, AnyOf):
            for part in condition.parts:
                self._lead(part, target, note)
        else:
            join = self._mark("and")
            self.arrows[Arrow(join, target, note)] = None
            parts = list(_conjuncts(condition))
            choices = [part for part in parts if isinstance(part, AnyOf)]
            for part in parts:
                number = f" {choices.index(part) + 1}" if part in choices and len(choices) > 1 else ""
                self._lead(part, join, f"or{number}" if part in choices else "")

    def _sources(self, label: str) -> list[tuple[str, str, bool]]:
        """Where a label comes from: a shape, the route it takes, and whether that is a guess."""
        if label in self.keys:
            return [(self.keys[label], "", False)]
        for name, key in self.keys.items():
            for aside, text in ((failure_label, "failed"), (each_label, "each"), (gathered_label, "all")):
                if aside(name) == label:
                    return [(key, text, False)]
        route = label.removeprefix(route_label(""))
        routers = [node for node in self.graph.nodes if node.is_router]
        declaring = [node for node in routers if route in node.routes]
        found = declaring or [node for node in routers if not node.routes]
        if not found:
            self._nowhere = self._nowhere or self._mark("?")
            return [(self._nowhere, route, True)]
        return [(self.keys[node.name], route, not declaring) for node in found]

    def _end_routes(self, node: Node) -> None:
        """Draw the routes that nothing listens to."""
        ended = [route for route in node.routes if route_label(route) not in self.graph.listeners]
        end = self._mark("end") if ended else ""
        for route in ended:
            self.arrows[Arrow(self.keys[node.name], end, route)] = None


def _kind(node: Node) -> Kind:
    if node.is_router:
        return "router"
    return "start" if node.is_start else "step"


def _plain(condition: Condition) -> Condition:
    """Without an `and_` or `or_` of one part."""
    while not isinstance(condition, Source) and len(condition.parts) == 1:
        condition = condition.parts[0]
    return condition


def _conjuncts(condition: AllOf) -> Iterator[Condition]:
    """Its parts, and those of every `and_` directly inside it: they all must hold."""
    for part in map(_plain, condition.parts):
        if isinstance(part, AllOf):
            yield from _conjuncts(part)
        else:
            yield part
