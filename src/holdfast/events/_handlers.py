"""Who listens to what, and in which order: registration and the delivery plan of each event type."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

from msgspec import Struct

from holdfast.context import is_async_callable
from holdfast.errors import CircularDependencyError, DependencyError, HandlerSignatureError, UnknownDependencyError
from holdfast.events._base import BaseEvent
from holdfast.events._mailbox import Mailbox
from holdfast.logs import get_logger

HandlerFunction = Callable[..., Any]
log = get_logger("events")


class Depends:
    """Names a handler that must be done with an event before the one declaring this sees it.

    `@bus.on(TaskCompletedEvent, depends_on=Depends(save))`; a list, or the bare function, works too.
    """

    __slots__ = ("handler",)

    def __init__(self, handler: HandlerFunction) -> None:
        self.handler = handler

    def __repr__(self) -> str:
        return f"Depends({name_of(self.handler)})"


DependsOn = Depends | HandlerFunction | Iterable[Depends | HandlerFunction] | None


class Handler(Struct, frozen=True, eq=False):
    """One registered function and how to call it."""

    function: HandlerFunction
    name: str
    order: int
    is_async: bool
    takes_state: bool
    depends_on: tuple[HandlerFunction, ...] = ()
    mailbox: Mailbox | None = None
    live_only: bool = False


class Lane(Struct, frozen=True, eq=False):
    """Handlers that must be awaited: one ordered queue for each run tree, level after level for each event."""

    key: HandlerFunction
    levels: tuple[tuple[Handler, ...], ...]


class Plan(Struct, frozen=True, eq=False):
    """What happens to an event of one type: `inline` handlers in order, then a post to each lane."""

    inline: tuple[Handler, ...] = ()
    lanes: tuple[Lane, ...] = ()


NOTHING = Plan()


def joined(plans: list[Plan]) -> Plan:
    """Several plans as one, in their order; NOTHING if there is nothing to do."""
    some = [plan for plan in plans if plan is not NOTHING]
    if len(some) < 2:
        return some[0] if some else NOTHING
    return Plan(tuple(h for plan in some for h in plan.inline), tuple(lane for plan in some for lane in plan.lanes))


class HandlerTable:
    """The handlers of a bus, or of one run. Changed under the bus's lock; plans are cached until the next change."""

    def __init__(self) -> None:
        self._handlers: dict[HandlerFunction, Handler] = {}
        self._types: dict[type[BaseEvent], dict[HandlerFunction, Handler]] = {}
        self._plans: dict[type[BaseEvent], Plan] = {}
        self._order = 0

    def __len__(self) -> int:
        return len(self._handlers)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def registrations(self) -> list[tuple[type[BaseEvent], HandlerFunction]]:
        """Every pair of an event class and a function registered for it."""
        return [(event_type, function) for event_type, functions in self._types.items() for function in functions]

    def add(
        self,
        types: Iterable[type[BaseEvent]],
        function: HandlerFunction,
        depends_on: DependsOn = None,
        mailbox: Mailbox | None = None,
        live_only: bool = False,
    ) -> Handler:
        """Register `function`. A second registration adds types; it keeps the place and replaces the options given."""
        wanted = list(types)
        if not wanted or not all(_is_event_class(t) for t in wanted):
            raise HandlerSignatureError(f"{name_of(function)}: listen to event classes, such as on(TaskCompletedEvent)")
        try:
            known = self._handlers.get(function)
        except TypeError:
            raise HandlerSignatureError(f"{name_of(function)} cannot be a handler: it cannot be hashed") from None
        needs = tuple(dict.fromkeys((*(known.depends_on if known else ()), *_functions(depends_on))))
        takes_state, is_async = _signature(function)
        if known is None:
            self._order += 1
        handler = Handler(
            function, name_of(function), known.order if known else self._order, is_async, takes_state, needs,
            (known.mailbox if known else None) or mailbox, live_only or bool(known and known.live_only),
        )  # fmt: skip
        self._refuse(handler)
        self._handlers[function] = handler
        for types_of in self._types.values():
            if function in types_of:
                types_of[function] = handler
        for event_type in wanted:
            self._types.setdefault(event_type, {})[function] = handler
        self._plans = {}
        return handler

    def remove(self, event_type: type[BaseEvent], function: HandlerFunction) -> tuple[bool, Handler | None]:
        """Stop `function` from hearing `event_type`. Says whether it did, and the handler if that was its last type."""
        registered = self._types.get(event_type, {})
        if function not in registered:
            return False, None
        del registered[function]
        self._plans = {}
        if any(function in others for others in self._types.values()):
            return True, None
        return True, self._handlers.pop(function)

    def plan(self, event_type: type[BaseEvent]) -> Plan:
        """What to do with an event of this type, base classes' handlers included."""
        plan = self._plans.get(event_type)
        if plan is None:
            plans = self._plans  # a registration meanwhile replaces the dict; the stale plan then goes with it
            plan = plans[event_type] = self._make_plan(event_type)
        return plan

    def validate(self) -> None:
        """Check that every handler's dependencies hear at least one of the same events. Raises UnknownDependencyError."""
        for handler in self._handlers.values():
            for needed in handler.depends_on:
                if not self._meets(handler.function, needed):
                    raise UnknownDependencyError(
                        f"{handler.name} depends on {name_of(needed)}, which is registered for none of its event types; "
                        f"register {name_of(needed)} too, or remove the dependency"
                    )

    def _meets(self, function: HandlerFunction, other: HandlerFunction) -> bool:
        mine = [t for t, registered in self._types.items() if function in registered]
        theirs = [t for t, registered in self._types.items() if other in registered]
        return any(issubclass(a, b) or issubclass(b, a) for a in mine for b in theirs)

    def _refuse(self, new: Handler) -> None:
        """Refuse a registration that could never be put in an order."""
        table = {**self._handlers, new.function: new}
        for handler in table.values():
            for needed in handler.depends_on:
                other = table.get(needed)
                if other is not None and other.mailbox is not None:
                    raise DependencyError(
                        f"{handler.name} depends on {other.name}, which runs in the background and is never waited for; "
                        f"register {other.name} without background=True"
                    )
        if circle := _circle(new, table):
            raise CircularDependencyError(circle)

    def _make_plan(self, event_type: type[BaseEvent]) -> Plan:
        here: dict[HandlerFunction, Handler] = {}
        for base in event_type.__mro__:
            here.update(self._types.get(base, {}))
        if not here:
            return NOTHING
        for handler in here.values():
            for needed in handler.depends_on:
                if needed not in here and not self._meets(handler.function, needed):
                    log.warning("%s depends on %s, which is not registered", handler.name, name_of(needed))
        levels = _levels(here)
        waits = self._awaited()
        inline = tuple(h for level in levels for h in level if h.function not in waits)
        lanes: dict[HandlerFunction, list[tuple[Handler, ...]]] = {}
        for level in levels:
            for key in dict.fromkeys(waits[h.function] for h in level if h.function in waits):
                lanes.setdefault(key, []).append(tuple(h for h in level if waits.get(h.function) == key))
        return Plan(inline, tuple(Lane(key, tuple(levels)) for key, levels in lanes.items()))

    def _awaited(self) -> dict[HandlerFunction, HandlerFunction]:
        """Handlers that are async or wait for one that is, each with its lane's key: the first of those it is tied to."""

        def must_wait(function: HandlerFunction) -> bool:
            handler = self._handlers.get(function)
            return handler is not None and (
                (handler.is_async and handler.mailbox is None) or any(must_wait(n) for n in handler.depends_on)
            )

        tied = {f: {f} for f in self._handlers if must_wait(f)}
        for function in tied:
            for needed in self._handlers[function].depends_on:
                if needed in tied:
                    union = tied[function] | tied[needed]
                    for member in union:
                        tied[member] = union
        return {f: min(group, key=lambda member: self._handlers[member].order) for f, group in tied.items()}


def name_of(function: HandlerFunction) -> str:
    """How a handler is called in events and errors."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return getattr(inner, "__qualname__", None) or type(inner).__qualname__


def _is_event_class(candidate: object) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseEvent)


def _functions(depends_on: DependsOn) -> tuple[HandlerFunction, ...]:
    if depends_on is None:
        return ()
    many = [depends_on] if isinstance(depends_on, Depends) or callable(depends_on) else list(depends_on)
    return tuple(d.handler if isinstance(d, Depends) else d for d in many)


def _signature(function: HandlerFunction) -> tuple[bool, bool]:
    """Whether a handler takes the state too, and whether it must be awaited."""
    if _is_plain(function):  # nearly all are, and runs register some of their own: inspecting is slow
        return function.__code__.co_argcount == 3, is_async_callable(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise HandlerSignatureError(f"{function!r} cannot be a handler: {error}") from error
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    spread = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    unfilled = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if len(needed) > 3 or unfilled or (len(positional) < 2 and not spread):
        raise HandlerSignatureError(
            f"{name_of(function)}{inspect.signature(function)} cannot be a handler: "
            f"write it as (source, event) or (source, event, state)"
        )
    takes_state = len(needed) == 3 or (len(positional) >= 3 and positional[2].name == "state")
    return takes_state, is_async_callable(function)


def _is_plain(function: HandlerFunction) -> bool:
    """A function with two or three parameters, without defaults, decorators or anything else that shapes a signature."""
    if type(function) is not FunctionType or function.__dict__ or function.__defaults__:
        return False
    code = function.__code__
    return code.co_argcount in (2, 3) and not code.co_kwonlyargcount and not code.co_flags & _SPREAD


_SPREAD = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _circle(start: Handler, table: dict[HandlerFunction, Handler]) -> list[str] | None:
    """The names along a circle of dependencies through `start`, if there is one."""
    trail: list[tuple[Handler, list[str]]] = [(start, [start.name])]
    seen: set[HandlerFunction] = set()
    while trail:
        handler, names = trail.pop()
        for needed in handler.depends_on:
            if needed == start.function:
                return [*names, start.name]
            if needed in table and needed not in seen:
                seen.add(needed)
                trail.append((table[needed], [*names, table[needed].name]))
    return None


def _levels(handlers: dict[HandlerFunction, Handler]) -> list[tuple[Handler, ...]]:
    """Handlers in levels: each level needs only those before it. Within a level, in order of registration."""
    left = sorted(handlers.values(), key=lambda h: h.order)
    done: set[HandlerFunction] = set()
    levels = []
    while left:
        level = [h for h in left if all(n in done or n not in handlers for n in h.depends_on)]
        levels.append(tuple(level))
        done.update(h.function for h in level)
        left = [h for h in left if h.function not in done]
    return levels
