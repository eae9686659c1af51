"""`@start`, `@listen`, `@router`: they note on a method what triggers it, and leave it the method it was."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Struct

from holdfast.errors import FlowDefinitionError
from holdfast.flow._conditions import Trigger, condition
from holdfast.graph import Condition

M = TypeVar("M", bound=Callable[..., Any])
NOTE = "__holdfast_step__"


class StepNote(Struct, frozen=True):
    """What the decorators say of one method."""

    trigger: Condition | None = None
    is_start: bool = False
    is_router: bool = False


def start(condition_: Trigger | None = None) -> Callable[[M], M]:
    """Mark a method that begins the flow; with a condition, one that also begins when that happens."""
    if inspect.isfunction(condition_):
        raise FlowDefinitionError(f"write @start() with parentheses above {condition_.__name__}")
    trigger = condition(condition_) if condition_ is not None else None
    return _note(StepNote(trigger=trigger, is_start=True))


def listen(condition_: Trigger) -> Callable[[M], M]:
    """Mark a method that runs when something happens: another method completes, a route is taken, a condition holds.

    If it has a parameter besides `self`, it is given the result of what triggered it.
    """
    return _note(StepNote(trigger=condition(condition_)))


def router(condition_: Trigger) -> Callable[[M], M]:
    """Mark a method that runs like a listener and whose result, a string or an enum, names the route to take."""
    return _note(StepNote(trigger=condition(condition_), is_router=True))


def _note(note: StepNote) -> Callable[[M], M]:
    def decorate(method: M) -> M:
        if hasattr(method, NOTE):
            raise FlowDefinitionError(
                f"{method.__name__} is decorated twice; combine its triggers with or_() or and_()"
            )
        setattr(method, NOTE, note)
        return method

    return decorate


def routes_of(method: Callable[..., Any]) -> tuple[str, ...]:
    """The routes a router's return annotation declares: `Literal["a", "b"]`, or an enum."""
    try:
        answer = get_type_hints(method).get("return")
    except (NameError, TypeError):  # an annotation that only a type checker can see
        return ()
    if get_origin(answer) is Literal:
        return tuple(str(value) for value in get_args(answer))
    if isinstance(answer, type) and issubclass(answer, Enum):
        return tuple(str(member.value) for member in answer)
    return ()


def route_name(result: object) -> str | None:
    """The route a router's result names; None for a result that names none."""
    if isinstance(result, Enum):
        result = result.value
    return result if isinstance(result, str) else None
