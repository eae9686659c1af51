"""`RuntimeState`: what a recording holds – the entities of the runs it saw, and their events."""

from __future__ import annotations

import os
import threading

from holdfast.context import current_run_id
from holdfast.errors import UsageError
from holdfast.events._base import BaseEvent
from holdfast.events._record import EventRecord
from holdfast.logs import get_logger
from holdfast.ports import DefaultRuntime, Entity, Recorded

log = get_logger("events")


class RuntimeState:
    """The recorded side of one run tree (run scope) or of everything on a bus (bus scope).

    Data only: it never keeps a run alive, and dropping it drops all it holds.
    """

    def __init__(
        self,
        *,
        max_events: int = 10_000,
        branch: str = "main",
        parent_id: str | None = None,
    ) -> None:
        self.max_events = max_events
        self._record = EventRecord(max_events)
        self.branch = branch
        self.parent_id = parent_id
        self._lock = threading.RLock()  # a finaliser may emit in the middle
        self._entities: dict[str, tuple[Entity, str]] = {}
        self._forked = False
        self._warned = False
        self._trees: dict[str, Recorded] = {}

    # -- files -----------------------------------------------------------------------------------------------------

    def checkpoint(self, directory: str | os.PathLike[str]) -> str:
        """Write the run this code belongs to, else the latest one, into a file in a directory, and return its path.

        The file holds all that a machine which never saw the run needs to take it up again; it is as large as the run is
        long. Raises UsageError if there is no run to write, StorageError if something in it cannot be stored.
        """
        return self._tree().checkpoint(directory, self._branch())

    async def acheckpoint(self, directory: str | os.PathLike[str]) -> str:
        """`checkpoint`, without blocking the loop."""
        return await self._tree().acheckpoint(directory, self._branch())

    @classmethod
    def from_checkpoint(cls, where: str | os.PathLike[str]) -> RuntimeState:
        """What a checkpoint recorded, to be looked at: a file, or an id in the runtime's own store."""
        state: RuntimeState = DefaultRuntime.get().read_checkpoint(where)
        return state

    def fork(self, branch: str) -> RuntimeState:
        """The same record, whose checkpoints go to a branch of that name."""
        forked = RuntimeState(max_events=self.max_events, branch=branch, parent_id=self.parent_id)
        forked._forked = True
        forked._record, forked._entities, forked._trees = self.event_record, self._entities, self._trees
        return forked

    def keep_tree(self, root_run_id: str, tree: Recorded) -> None:
        """Remember how a recorded run tree is written into a file."""
        with self._lock:
            self._trees[root_run_id] = tree

    def _tree(self) -> Recorded:
        with self._lock:
            known = self._trees
            if not known:
                raise UsageError(
                    "there is no recorded run to write into a file: flows are recorded under a CheckpointConfig, or after "
                    "event_bus.enable_recording()"
                )
            here = next((tree for root, tree in known.items() if current_run_id() == root), None)
            return here or next(reversed(known.values()))

    def _branch(self) -> str | None:
        return self.branch if self._forked else None

    # -- what is recorded ------------------------------------------------------------------------------------------

    @property
    def event_record(self) -> EventRecord:
        """The events, with their links to one another."""
        return self._record

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
        gone = self._record.add(event)
        if gone:
            with self._lock:
                self._entities = {key: held for key, held in self._entities.items() if held[1] not in gone}
                self._trees = {root: tree for root, tree in self._trees.items() if root not in gone}
        if self._record.evicted and not self._warned:
            self._warned = True
            log.warning(
                "the recording is full at %d events: the oldest are evicted from now on (event_record.evicted counts "
                "them); call reset_runtime_state() once you have read it, or raise max_events",
                self.max_events,
            )

    def finish_tree(self, root_run_id: str) -> None:
        """Say that a run tree has ended; it is the first to go when room is needed."""
        self._record.finish_tree(root_run_id)
