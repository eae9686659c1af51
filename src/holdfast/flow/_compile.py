"""A flow class as a graph."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Container
from types import CodeType
from typing import Any

from msgspec import Struct

from holdfast.errors import FlowDefinitionError
from holdfast.flow._conditions import resolve
from holdfast.flow._decorators import NOTE, UNUSED, StepNote, routes_of
from holdfast.flow._human import GATE, SUFFIX, Gate
from holdfast.flow._persist import PersistPlan, plan_of
from holdfast.graph import (
    Condition,
    Graph,
    Node,
    Source,
    each_label,
    failure_label,
    gathered_label,
    labels_of,
    route_label,
)


def steps_of(cls: type) -> dict[str, tuple[Callable[..., Any], StepNote]]:
    """The decorated methods of a class and its bases; a subclass's plain version keeps the trigger of its base's."""
    noted: dict[str, StepNote] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(note := getattr(value, NOTE, None), StepNote):
                noted[name] = note
    return {name: (getattr(cls, name), note) for name, note in noted.items() if callable(getattr(cls, name))}


def gates_of(cls: type, steps: Container[str]) -> dict[str, Gate]:
    """The methods whose results are put before a person; a subclass's plain version keeps the gate of its base's.

    Raises FlowDefinitionError for one that nothing triggers.
    """
    gates: dict[str, Gate | None] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if hasattr(value, NOTE) or hasattr(value, GATE):
                gates[name] = getattr(value, GATE, None)
    found = {name: gate for name, gate in gates.items() if gate is not None}
    for name in found:
        if name not in steps:
            raise FlowDefinitionError(
                f"{cls.__name__}.{name} has @human_feedback, but nothing triggers it: add @start or @listen above"
            )
    return found


def check_names(cls: type, reserved: Container[str]) -> None:
    """Raises FlowDefinitionError for a step that takes the name of something a flow has, and a decorator left unused."""
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if (decorator := getattr(value, UNUSED, None)) is not None:
                raise FlowDefinitionError(f"write @{decorator}(…) above {cls.__name__}.{name}, with what triggers it")
            if name in reserved and isinstance(getattr(value, NOTE, None), StepNote):
                raise FlowDefinitionError(
                    f"{cls.__name__}.{name} cannot be a step: every flow has a {name!r} of its own; give the step another name"
                )


class FlowShape(Struct, frozen=True):
    """What a flow class amounts to: its graph, and how its methods are called."""

    graph: Graph
    awaited: frozenset[str]
    """the methods that are coroutines"""
    takes_result: frozenset[str]
    """the methods with a parameter for the result of what triggered them"""
    gates: dict[str, Gate] = {}
    """the steps at which a person is asked about a method's result"""
    persist: PersistPlan | None = None
    """what it saves, if anything"""
    asks: bool = False
    """whether it may have to wait for a person"""


def compile_flow(cls: type, max_calls: int) -> FlowShape:
    """The shape of a flow class. Raises FlowDefinitionError for one that could never run as written."""
    nodes: list[Node] = []
    methods = steps_of(cls)
    gates = gates_of(cls, methods)
    declared = {route for method, note in methods.values() if note.is_router for route in routes_of(method)}
    declared |= {route for gate in gates.values() for route in gate.emit}
    for name, (method, note) in methods.items():
        _check_method(cls, name, method, note)
        trigger = resolve(note.trigger, _methods_named(methods, declared, name)) if note.trigger is not None else None
        nodes += _nodes(name, method, note, _behind_gates(trigger, gates), gates.get(name))
    graph = Graph(cls.__name__, tuple(nodes), max_calls)
    _check(graph)
    awaited = frozenset(name for name, (method, _) in methods.items() if inspect.iscoroutinefunction(method))
    taking = frozenset(name for name, (method, _) in methods.items() if _takes_result(method))
    asking = {name + SUFFIX: gate for name, gate in gates.items()}
    asks = bool(gates) or any(_mentions_asking(method.__code__) for method, _ in methods.values())
    return FlowShape(graph, awaited, taking, asking, plan_of(cls, methods), asks)


def _mentions_asking(code: CodeType) -> bool:
    """Whether a method, or a function inside it, calls something that is called like `Flow.ask`."""
    inside = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return bool({"ask", "aask"} & set(code.co_names)) or any(map(_mentions_asking, inside))


def _nodes(
    name: str, method: Callable[..., Any], note: StepNote, trigger: Condition | None, gate: Gate | None
) -> list[Node]:
    """A method's step; with a gate, the step at which a person is asked comes behind it and takes its routes."""
    if gate is None:
        return [Node(name, trigger, note.is_start, note.is_router, routes_of(method) if note.is_router else ())]
    asks = Node(name + SUFFIX, Source(name), is_router=bool(gate.emit), routes=gate.emit, hands_on=True)
    return [Node(name, trigger, note.is_start), asks]


def _behind_gates(trigger: Condition | None, gates: Container[str]) -> Condition | None:
    """The condition with methods that have a gate replaced by it."""
    if trigger is None:
        return None
    if isinstance(trigger, Source):
        return Source(trigger.label + SUFFIX) if trigger.label in gates else trigger
    return type(trigger)(tuple(part for one in trigger.parts if (part := _behind_gates(one, gates)) is not None))


def _methods_named(methods: Container[str], declared: Container[str], listener: str) -> Callable[[str], bool]:
    """Which strings mean a method: not those that a router declares as a route, and never the listener itself."""
    return lambda name: name in methods and name not in declared and name != listener


def _takes_result(method: Callable[..., Any]) -> bool:
    places = [p for p in inspect.signature(method).parameters.values() if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    return len(places) > 1 or any(p.kind is p.VAR_POSITIONAL for p in places)


def _check_method(cls: type, name: str, method: Callable[..., Any], note: StepNote) -> None:
    """Raises FlowDefinitionError for a method that could not be called, or whose body a call would not run."""
    where = f"{cls.__name__}.{name}"
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        raise FlowDefinitionError(
            f"{where} yields, and a step returns its result: return a list, or emit events on the way"
        )
    if not inspect.isfunction(inspect.getattr_static(cls, name)):
        return
    parameters = [p for p in inspect.signature(method).parameters.values() if p.kind is not p.VAR_KEYWORD]
    if not any(p.kind is not p.KEYWORD_ONLY for p in parameters):
        raise FlowDefinitionError(f"{where} has no `self`: steps are methods of the flow")
    needed = [p for p in parameters[1:] if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if needed and note.trigger is None:
        raise FlowDefinitionError(
            f"{where} begins the flow, so nothing gives it {needed[0].name!r}: read inputs from self.state"
        )
    if len(needed) > 1 or any(p.kind is p.KEYWORD_ONLY for p in needed):
        names = ", ".join(p.name for p in needed)
        raise FlowDefinitionError(
            f"{where} wants {names}, but a step is given one value, the result of what triggered it last: "
            f"let the others leave theirs in self.state"
        )


def _check(graph: Graph) -> None:
    if not graph.starts:
        only = ", or only when something happened" if any(node.is_start for node in graph.nodes) else ""
        raise FlowDefinitionError(f"{graph.name} has no @start() method{only}, so nothing would ever run: add one")
    routers = [node for node in graph.nodes if node.is_router]
    declared = {route_label(route): route for node in routers for route in node.routes}
    aside = {label(name) for name in graph.by_name for label in (failure_label, each_label, gathered_label)}
    unknown_routes = any(not node.routes for node in routers)  # only known once a router ran
    for node in graph.nodes:
        for label in labels_of(node.trigger):
            name = label.removeprefix(route_label("")).lstrip("✗∀Σ")
            _check_gathered(graph, node.name, name, label)
            # an or_ fires once, so not even a failure of its own comes back
            is_own = label in (node.name, failure_label(node.name))
            if not is_own and (label in graph.by_name or label in declared or label in aside):
                continue
            if unknown_routes and label.startswith(route_label("")):
                continue
            if name == node.name:
                raise FlowDefinitionError(
                    f"{graph.name}.{name} listens to itself; give it another trigger, or another name"
                )
            near = difflib.get_close_matches(name, [*graph.by_name, *declared.values()], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise FlowDefinitionError(
                f"{graph.name}.{node.name} listens to {name!r}, but no method has that name "
                f"and no router takes that route{hint}"
            )


def _check_gathered(graph: Graph, listener: str, name: str, label: str) -> None:
    """Only what runs for each item of a list can be gathered."""
    if label != gathered_label(name) or name not in graph.by_name:
        return
    if not any(one.startswith(each_label("")) for one in labels_of(graph.by_name[name].trigger)):
        raise FlowDefinitionError(
            f"{graph.name}.{listener} listens to gathered({name}), but {name} does not run for each item of something: "
            f"write @listen(each(…)) above {name}, or @listen({name}) above {listener}"
        )
