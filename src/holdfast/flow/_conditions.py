"""`and_`, `or_`, and what may stand in them: methods, names, routes, enums, other conditions."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

from holdfast.errors import FlowDefinitionError
from holdfast.graph import AllOf, AnyOf, Condition, Source, each_label, failure_label, gathered_label, route_label

Trigger: TypeAlias = str | Enum | Callable[..., Any] | AllOf | AnyOf | Source
NAMED = "?"  # marks a name written as a string: a method or a route, which is known once the class is complete


def and_(*triggers: Trigger) -> Condition:
    """Holds when all of the triggers have happened: methods that completed, routes that were taken, conditions."""
    return AllOf(tuple(condition(trigger) for trigger in _several("and_", triggers)))


def or_(*triggers: Trigger) -> Condition:
    """Holds when the first of the triggers has happened; once, until a router leads here again."""
    return AnyOf(tuple(condition(trigger) for trigger in _several("or_", triggers)))


def failed(method: str | Callable[..., Any]) -> Condition:
    """Holds when a method has failed. It then does not fail the flow; the listener is given a `StepFailure`."""
    return Source(failure_label(_name_of("failed", method)))


def each(method: str | Callable[..., Any]) -> Condition:
    """Holds for each item of the list that a method returned: the listener runs once for each, all at once."""
    return Source(each_label(_name_of("each", method)))


def gathered(method: str | Callable[..., Any]) -> Condition:
    """Holds when a method that runs for `each` item has done so for all; the listener is given the list of its results."""
    return Source(gathered_label(_name_of("gathered", method)))


def _name_of(function: str, method: str | Callable[..., Any]) -> str:
    name = method if isinstance(method, str) else getattr(method, "__name__", None)
    if name is None:
        raise FlowDefinitionError(f"{function}() wants a method or its name, not {method!r}")
    return name


def condition(trigger: Trigger) -> Condition:
    """One trigger as a condition. Raises FlowDefinitionError for what cannot trigger anything."""
    if isinstance(trigger, AllOf | AnyOf | Source):
        return trigger
    if isinstance(trigger, Enum):
        return Source(route_label(str(trigger.value)))
    if isinstance(trigger, str):
        return Source(NAMED + trigger)
    if name := getattr(trigger, "__name__", None):
        return Source(name)
    raise FlowDefinitionError(f"{trigger!r} cannot trigger a method: give a method, its name, a route, and_() or or_()")


def resolve(trigger: Condition, is_method: Callable[[str], bool]) -> Condition:
    """The condition with every plain name made a method's label or a route's."""
    if isinstance(trigger, Source):
        if not trigger.label.startswith(NAMED):
            return trigger
        name = trigger.label.removeprefix(NAMED)
        return Source(name if is_method(name) else route_label(name))
    return type(trigger)(tuple(resolve(part, is_method) for part in trigger.parts))


def _several(name: str, triggers: tuple[Trigger, ...]) -> tuple[Trigger, ...]:
    if not triggers:
        raise FlowDefinitionError(f"{name}() needs at least one trigger")
    return triggers
