"""Pure parts of `emit`: where an event stands among the open scopes, and what is said of its source."""

from __future__ import annotations

from msgspec import Struct

from holdfast.context import Position, Scope


class EventSource(Struct, frozen=True, gc=False):
    """What events say of their source. An object that emits often offers one ready made as `event_source`."""

    type: str | None = None
    id: str | None = None
    name: str | None = None


NO_SOURCE = EventSource()


def describe(source: object) -> EventSource:
    """The source's own `event_source`, or its class, `id` and `name`."""
    if source is None:
        return NO_SOURCE
    ready = getattr(source, "event_source", None)
    if type(ready) is EventSource:
        return ready
    if isinstance(source, str):
        return EventSource(name=source)
    ident, name = getattr(source, "id", None), getattr(source, "name", None)
    return EventSource(
        type(source).__name__,
        None if ident is None or callable(ident) else str(ident),
        name if isinstance(name, str) else None,
    )


def opener_of(scope: Scope | None, kind: str) -> Scope | None:
    """The nearest open scope of a kind. A run's scopes end with the run: those around it are not its to close."""
    while scope is not None:
        if scope.kind == kind:
            return scope
        if scope.kind == "run":
            return None
        scope = scope.outer
    return None


def place(
    here: Position, opens: str | None, closes: str | None, event_id: str
) -> tuple[Position, str | None, str | None]:
    """Where the emitter stands after an event that opens or closes a scope, the event's parent, and the opener it closes."""
    scope, started = here.scope, None
    if closes is not None:
        opener = scope if scope is not None and scope.kind == closes else opener_of(scope, closes)
        if opener is not None:
            scope, started = opener.outer, opener.event_id
    parent = scope.event_id if scope is not None else None
    if opens is not None:
        scope = Scope(event_id, opens, scope)
    if scope is here.scope:
        return here, parent, started
    after = Position(here.run_id, scope, here.subject, here.triggered_by, here.step_id, here.replaying)
    return after, parent, started
