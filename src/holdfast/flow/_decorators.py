"""`@start`, `@listen`, `@router`: they note on a method what triggers it, and leave it the method it was."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Struct

from holdfast.errors import FlowDefinitionError, StepFailedError
from holdfast.flow._conditions import Trigger, condition
from holdfast.graph import Condition

M = TypeVar("M", bound=Callable[..., Any])
NOTE = "__holdfast_step__"
UNUSED = "__holdfast_decorator__"
"""On what a decorator gives before it is put on a method: found in a class, it was written without its parentheses."""


class StepNote(Struct, frozen=True):
    """What the decorators say of one method."""

    trigger: Condition | None = None
    is_start: bool = False
    is_router: bool = False


def start(condition_: Trigger | None = None) -> Callable[[M], M]:
    """Mark a method that begins the flow; with a condition, one that begins when that happens, and not before."""
    if inspect.isfunction(condition_):
        raise FlowDefinitionError(f"write @start() with parentheses above {condition_.__name__}")
    trigger = condition(condition_) if condition_ is not None else None
    return _note("start", StepNote(trigger=trigger, is_start=True))


def listen(condition_: Trigger) -> Callable[[M], M]:
    """Mark a method that runs when something happens: another method completes, a route is taken, a condition holds.

    If it has a parameter besides `self`, it is given the result of what triggered it.
    """
    return _note("listen", StepNote(trigger=condition(condition_)))


def router(condition_: Trigger) -> Callable[[M], M]:
    """Mark a method that runs like a listener and whose result, a string or an enum, names the route to take.

    None takes no route. Anything else, and a route that its annotation does not declare, fails the flow.
    """
    return _note("router", StepNote(trigger=condition(condition_), is_router=True))


def _note(name: str, note: StepNote) -> Callable[[M], M]:
    def decorate(method: M) -> M:
        if hasattr(method, NOTE):
            raise FlowDefinitionError(
                f"{method.__name__} is decorated twice; combine its triggers with or_() or and_()"
            )
        setattr(method, NOTE, note)
        return method

    setattr(decorate, UNUSED, name)
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


def route_name(step: str, result: object, declared: tuple[str, ...]) -> str | None:
    """The route that a router's result names; None takes none. Raises StepFailedError for what names no route of it."""
    if result is None:
        return None
    route = str(result.value if isinstance(result, Enum) else result)
    if route in declared:
        return route
    if declared:
        raise StepFailedError(
            f"router {step} returned {result!r}, but declares the routes {', '.join(declared)}: "
            f"correct what it returns, or its annotation"
        )
    if isinstance(result, str | Enum):
        return route
    raise StepFailedError(
        f"router {step} returned a {type(result).__name__}; return the route to take, a string or an enum, or None for none"
    )
