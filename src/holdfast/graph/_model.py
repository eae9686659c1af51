"""The neutral graph: what flows, crews and flow files compile to, and all that the scheduler ever sees."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.graph._wiring import Shape, Wiring


class Source(Struct, frozen=True, tag="source"):
    """Holds when a label has arrived: the name of a step that completed, or `route_label` of a route that was taken."""

    label: str


BEGINNING = "▷"
"""The label that arrives when a run begins: for steps that also run later."""


def route_label(route: str) -> str:
    """The label of a route. No step's name looks like it, so a route may be called like a step."""
    return f"→{route}"


def failure_label(step: str) -> str:
    """The label of a step's failure. A step that something listens to in this way does not fail the run."""
    return f"✗{step}"


def each_label(step: str) -> str:
    """The label of one item of a step's result. What listens to it runs once for each, all at once."""
    return f"∀{step}"


def gathered_label(step: str) -> str:
    """The label that arrives when a step has run for every item of a result."""
    return f"Σ{step}"


class AllOf(Struct, frozen=True, tag="all"):
    """Holds when every part does."""

    parts: tuple[Condition, ...]


class AnyOf(Struct, frozen=True, tag="any"):
    """Holds when one part does."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Source | AllOf | AnyOf


def labels_of(condition: Condition | None) -> Iterator[str]:
    """Every label a condition mentions."""
    if isinstance(condition, Source):
        yield condition.label
    elif condition is not None:
        for part in condition.parts:
            yield from labels_of(part)


def holds(condition: Condition, arrived: Container[str]) -> bool:
    """Whether a condition is satisfied by the labels that have arrived."""
    if isinstance(condition, Source):
        return condition.label in arrived
    is_all = isinstance(condition, AllOf)
    for part in condition.parts:
        # most parts are sources: no call for each of them
        held = part.label in arrived if type(part) is Source else holds(part, arrived)
        if held is not is_all:  # one part settles it
            return not is_all
    return is_all


class Node(Struct, frozen=True):
    """A step of a graph."""

    name: str
    trigger: Condition | None = None
    """when it runs; None for a start that runs at once"""
    is_start: bool = False
    is_router: bool = False
    """its result names the route to take"""
    routes: tuple[str, ...] = ()
    """the routes a router declares; empty when they are only known once it ran"""
    hands_on: bool = False
    """a router whose routes are given its own result; others pass on what they were given"""
    digest: str = ""
    """of what the step does, so that a changed program is noticed; empty when that is not tracked"""

    @property
    def is_race(self) -> bool:
        """Whether several sources compete to trigger it: the first wins, once a wave."""
        return isinstance(self.trigger, AnyOf) and len(self.trigger.parts) > 1


class Hearer(Struct, frozen=True):
    """A step that listens to some of what arrives, and what that comes to."""

    name: str
    trigger: Condition
    is_race: bool
    is_enough: bool
    """whether what it hears makes it run, whatever came before"""
    labels: tuple[str, ...]
    """what it hears of what arrives, in the order of its trigger"""
    label: str
    """the last of these: what it is given comes from there"""


class Sequel(Struct, frozen=True):
    """What follows when a step completes, by a route if it is a router, or when something else arrives."""

    hearers: tuple[Hearer, ...]
    route: str | None = None
    """the label of the route, if something listens to that"""
    hands_on: bool = False
    """whether what listens to the route is given the router's own result"""
    fresh: tuple[str, ...] = ()
    """the races that a router's result may lead to: they begin a new wave"""


class Graph(Struct, frozen=True, dict=True):
    """Steps and what triggers them. Equal graphs have equal fingerprints."""

    name: str
    nodes: tuple[Node, ...]
    max_calls: int = 100
    """how often one step may run in one run, so that a loop that never ends is noticed"""
    keeps_results: bool = False
    """whether every result may be needed until the run ends, not only by what it triggers"""
    wiring: tuple[Wiring, ...] = ()
    """for every step what it takes from others, if data drives the steps and not triggers (which are then only drawn)"""

    @cached_property
    def shape(self) -> Shape:
        """What follows from the wiring."""
        return Shape(self.wiring)

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def listeners(self) -> dict[str, tuple[Node, ...]]:
        """Which steps a label may trigger, in the order they were defined."""
        found: dict[str, tuple[Node, ...]] = {}
        for node in self.nodes:
            for label in dict.fromkeys(labels_of(node.trigger)):
                found[label] = (*found.get(label, ()), node)
        return found

    @cached_property
    def sequels(self) -> dict[tuple[str, str | None], Sequel]:
        """What `sequel` was asked so far. Every step asks: look here first, it saves the call."""
        return {}

    def sequel(self, label: str, route: str | None = None) -> Sequel:
        """What follows a label that arrives; that of a router's completion, with the route it took."""
        node = self.by_name.get(label)
        is_heard = route is not None and node is not None and node.is_router and route_label(route) in self.listeners
        known = (label, route if is_heard else None)  # not routes that nobody hears: there may be any number of them
        if known not in self.sequels:
            self.sequels[known] = self._sequel(*known)
        return self.sequels[known]

    def _sequel(self, label: str, route: str | None) -> Sequel:
        taken = route_label(route) if route is not None else None
        labels = (label,) if taken is None else (label, taken)
        heard = {node.name: node for one in labels for node in self.listeners.get(one, ())}
        hearers = tuple(self._hearer(node, node.trigger, labels) for node in heard.values() if node.trigger is not None)
        node = self.by_name.get(label)
        if node is None or not node.is_router:
            return Sequel(hearers)
        spread = (node.name for node in self.listeners.get(each_label(label), ()))
        fresh = self.races & self.reachable(frozenset((*heard, *spread))) if self.races else ()
        return Sequel(hearers, taken, node.hands_on, tuple(sorted(fresh)))

    def _hearer(self, node: Node, trigger: Condition, arriving: tuple[str, ...]) -> Hearer:
        heard = tuple(label for label in self.sources[node.name] if label in arriving)
        return Hearer(node.name, trigger, node.is_race, holds(trigger, heard), heard, heard[-1])

    @cached_property
    def sources(self) -> dict[str, dict[str, None]]:
        """The labels that each step listens to, in order."""
        return {node.name: dict.fromkeys(labels_of(node.trigger)) for node in self.nodes}

    @cached_property
    def races(self) -> frozenset[str]:
        """Steps that several sources compete to trigger."""
        return frozenset(node.name for node in self.nodes if node.is_race)

    @cached_property
    def routers(self) -> frozenset[str]:
        """Steps whose results name routes."""
        return frozenset(node.name for node in self.nodes if node.is_router)

    @cached_property
    def rivals(self) -> dict[str, frozenset[str]]:
        """For each race the steps that feed it and nothing else: those in flight when another wins it run in vain."""
        return {
            race: frozenset(
                name
                for name in self.sources[race]
                if name in self.by_name and self.feeds(name) == (self.by_name[race],)
            )
            for race in self.races
        }

    @cached_property
    def spreading(self) -> frozenset[str]:
        """Steps whose results are taken apart: something runs for each of their items."""
        return frozenset(node.name for node in self.nodes if each_label(node.name) in self.listeners)

    @cached_property
    def starts(self) -> tuple[Node, ...]:
        """Steps that run as soon as the run begins."""
        return tuple(node for node in self.nodes if node.is_start and node.trigger is None)

    def feeds(self, name: str) -> tuple[Node, ...]:
        """The steps that a step may trigger: by its name, or by a route. A router that declares none may take any."""
        node = self.by_name[name]
        routes: Iterable[str] = map(route_label, node.routes)
        if node.is_router and not node.routes:
            routes = (label for label in self.listeners if label.startswith(route_label("")))
        return tuple(dict.fromkeys(n for label in (name, *routes) for n in self.listeners.get(label, ())))

    def reachable(self, names: frozenset[str]) -> frozenset[str]:
        """These steps and everything that may run because of them. A router with unknown routes may reach any route."""
        found, ahead = set(names), list(names)
        while ahead:
            name = ahead.pop()
            aside = (failure_label(name), each_label(name), gathered_label(name))
            for target in (*self.feeds(name), *(node for label in aside for node in self.listeners.get(label, ()))):
                if target.name not in found:
                    found.add(target.name)
                    ahead.append(target.name)
        return frozenset(found)

    @cached_property
    def fingerprint(self) -> str:
        """Of everything that shapes a run: names, triggers, routes, and digests where they are tracked."""
        return hashlib.sha256(msgspec.json.encode(self.nodes)).hexdigest()[:32]

    def differences(self, earlier: Graph) -> list[str]:
        """What changed since another version, one sentence each, for people."""
        before, after = earlier.by_name, self.by_name
        changes = [f"step {name} was added" for name in after if name not in before]
        changes += [f"step {name} was removed" for name in before if name not in after]
        changes += [
            f"step {name} was altered" for name, node in after.items() if name in before and before[name] != node
        ]
        return changes
