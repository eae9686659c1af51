"""`RuntimeState`: what a recording holds – the entities of the runs it saw, and their events."""

from __future__ import annotations

import threading

from holdfast.events._base import BaseEvent
from holdfast.events._record import EventRecord
from holdfast.logs import get_logger
from holdfast.ports import Entity

log = get_logger("events")


class RuntimeState:
    """The recorded side of one run tree (run scope) or of everything on a bus (bus scope).

    Data only: it never keeps a run alive, and dropping it drops all it holds.
    """

    def __init__(self, *, max_events: int = 10_000, branch: str = "main", parent_id: str | None = None) -> None:
        self.event_record = EventRecord(max_events)
        self.branch = branch
        self.parent_id = parent_id
        self._lock = threading.RLock()  # a finaliser may emit in the middle
        self._entities: dict[str, tuple[Entity, str]] = {}
        self._warned = False

    @property
    def root(self) -> list[Entity]:
        """The entities of the recorded runs (flows, crews, agents, bare runs), each once, by its own id."""
        with self._lock:
            return [entity for entity, _ in self._entities.values()]

    def register(self, entity: Entity, root_run_id: str) -> None:
        """Add an entity of a run tree. Registering one twice changes nothing."""
        if entity.entity_id not in self._entities:
            with self._lock:
                self._entities.setdefault(entity.entity_id, (entity, root_run_id))

    def record(self, event: BaseEvent) -> None:
        """Keep an event, and let go of what no longer fits."""
        gone = self.event_record.add(event)
        if gone:
            with self._lock:
                self._entities = {key: held for key, held in self._entities.items() if held[1] not in gone}
        if self.event_record.evicted and not self._warned:
            self._warned = True
            log.warning(
                "the recording is full at %d events: the oldest are evicted from now on (event_record.evicted counts "
                "them); call reset_runtime_state() once you have read it, or raise max_events",
                self.event_record.max_events,
            )

    def finish_tree(self, root_run_id: str) -> None:
        """Say that a run tree has ended; it is the first to go when room is needed."""
        self.event_record.finish_tree(root_run_id)
