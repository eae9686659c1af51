"""The short way from a run's steps to its log, for what nobody else takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import astuple

from holdfast.context import NOBODY, Forks, Position, Scope, Subject, stand_at, standing
from holdfast.events._base import BaseEvent
from holdfast.events._delivery import Outlet, Payload
from holdfast.events._stamping import describe, opener_of
from holdfast.ports import Journal, Origin

if TYPE_CHECKING:
    from holdfast.events._bus import EventBus
    from holdfast.events._publishing import Publisher

MOST_IDS = 32
"""So many ids are made at once."""


class Scribe:
    """Writes down what a run tells. Of an event that nothing but the log takes none is built: its row is made at once.

    Every step of a run that is written down comes through here twice, each time after a wait for the disk that left the
    processor's caches cold. So it is one piece, and what stays the same for the run is found once.
    """

    __slots__ = (
        "_bus", "_ids", "_inside", "_last_id", "_log", "_many", "_origin", "_outlet", "_run_id", "_source", "_subject",
    )  # fmt: skip

    def __init__(self, bus: EventBus, inside: Publisher, outlet: Outlet, log: Journal, source: object) -> None:
        self._bus = bus
        self._inside = inside
        self._outlet = outlet
        self._run_id = outlet.run_id or ""
        self._log = log
        self._source = source
        self._ids: list[str] = []
        """Of the next events, the next one last."""
        self._last_id: str | None = None
        self._many = 1
        self._speak_for(NOBODY)

    def _speak_for(self, subject: Subject) -> None:
        self._subject = subject
        self._origin = Origin(*astuple(describe(self._source)), *astuple(subject))

    def _next_id(self, before: str | None) -> str:
        """The first of more and more ids that are made at once: the first after a wait for the disk costs as much as ten.

        Ids of a tree are in the order of its events. So if others told of something meanwhile, those left over are not used, and
        it starts with a single one again.
        """
        self._many = min(2 * self._many, MOST_IDS) if before is self._last_id else 1
        new_id = self._inside.new_id
        ids = [new_id() for _ in range(self._many)]
        if self._many > 1:
            self._log.expect(ids)
            ids.reverse()
        self._ids = ids  # once they are the right way round: Ctrl-C may come before
        return ids.pop()

    def note(self, event_type: type[BaseEvent], payload: Payload, changed: bytes | None = None) -> str | None:
        """Tell of something, with what it changed in the state. Returns the event's id, if there is an event.

        Code that tells of a beginning stands inside it afterwards. That of an end is about to leave: it may stay where it is.
        """
        inside, outlet, here = self._inside, self._outlet, standing()  # three at a time: more make a tuple first
        kind, run_id = outlet.unheard.get(event_type), self._run_id
        if (
            kind is None
            or outlet.version != inside.version
            or len(payload) != kind.size
            or here.run_id != run_id
            or outlet.refused
            or inside.generation != Forks.generation
        ):
            return self._announce(event_type, payload, changed)
        if here.subject is not self._subject:
            self._speak_for(here.subject)
        encode, opens, closes = kind.encode, kind.opens, kind.closes
        stored, scope, opener = encode(payload), here.scope, None
        if closes is not None:  # as `place` has it
            opened = scope if scope is not None and scope.kind == closes else opener_of(scope, closes)
            if opened is not None:
                scope, opener = opened.outer, opened.event_id
        parent, cause = scope.event_id if scope is not None else None, here.triggered_by
        log, tree, time_ns = self._log, outlet.tree, inside.time_ns  # called as it is: quicker
        with inside.lock:
            event_id = None
            if not (inside.stamping or inside.closed or outlet.log is None):
                try:
                    inside.stamping = True
                    ids, before = self._ids, tree.last_event_id
                    event_id = ids.pop() if ids and before is self._last_id else self._next_id(before)
                    self._last_id = tree.last_event_id = event_id
                    tree.sequence = number = tree.sequence + 1
                    at_us, origin = time_ns() // 1000, self._origin
                    row = log.write(kind.tag, stored, changed, event_id, at_us, run_id, parent, cause, opener, origin)
                    show = log.show
                    show((event_type, payload, number, before, row))
                finally:
                    inside.stamping = False
        if event_id is None:  # inside the block that stamps another event, or at the end of the run or the bus
            return self._announce(event_type, payload, changed)
        if opens is not None:
            scope = Scope(event_id, opens, scope)
            stand_at(Position(run_id, scope, here.subject, here.triggered_by, here.step_id))
        if inside.deferred:
            inside.publish_deferred()
        return event_id

    def _announce(self, event_type: type[BaseEvent], payload: Payload, changed: bytes | None) -> str | None:
        """Build it, and let everybody see it."""
        if changed is not None:
            self._log.carry(changed)
        return self._bus.note(self._source, event_type, payload)
