"""Taking hold of a run's journal, new or known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.checkpoints._config import CheckpointConfig
from holdfast.checkpoints._definition import Definition
from holdfast.checkpoints._log import HOLD_US, Listeners, RunLog
from holdfast.checkpoints._marks import Marking, Tell
from holdfast.checkpoints._owner import Owner
from holdfast.checkpoints._restore import Place, Restored, definition_of, fold_upto
from holdfast.checkpoints._snapshots import Snapshots
from holdfast.checkpoints._source import Source
from holdfast.clock import Clock
from holdfast.errors import GraphChangedError, RunBusyError, StorageError
from holdfast.events._base import BaseEvent
from holdfast.graph import Graph
from holdfast.ids import IdFactory
from holdfast.ports import JournalStore, RunInfo
from holdfast.runs import RunRef, RunStatus
from holdfast.threads import LoopThread


class Journalling(Struct, frozen=True):
    """What opening a journal needs from its surroundings."""

    config: CheckpointConfig
    source: Source
    clock: Clock
    ids: IdFactory
    loop_thread: LoopThread
    tell: Tell
    wants: Callable[[type[BaseEvent]], bool]
    listeners: Listeners
    log_type: type[RunLog] = RunLog
    kind: str = "flow"
    """of what is run"""
    entity: dict[str, Any] = {}
    """what is run, if another process can make it again from that"""

    @property
    def store(self) -> JournalStore:
        return self.source.store

    async def begin(self, run_id: str, graph: Graph, made_by: str, inputs: Iterable[str] = ()) -> RunLog:
        """Start the journal of a new run."""
        now = self.clock.time_ns() // 1000
        return await self._open(self._info(run_id, graph, made_by, now, tuple(inputs)), "main", now, self.ids())

    async def resume(self, restored: Restored, graph: Graph, made_by: str) -> tuple[RunLog, RunRef]:
        """Take over a recorded run. Raises GraphChangedError, RunBusyError, or StorageError for one that has ended."""
        status = restored.info.status
        if status in (RunStatus.COMPLETED, RunStatus.CANCELLED):
            raise StorageError(
                f"run {restored.info.root_run_id} is {status}; it can only be forked: "
                f"{self.kind.capitalize()}.fork(…, branch=…), or `holdfast checkpoint fork`"
            )
        now, owner = self.clock.time_ns() // 1000, self.ids()
        taken_at, branch = self._check(restored, graph, now), restored.branch
        if not await self._is_at_head(restored):  # what was recorded after it stays as it is
            branch = self._branch_name(restored)
            await self._fork(restored, branch, now, taken_at, owner)
        return await self._take_over(restored, graph, made_by, branch, taken_at, owner), self._ref(restored)

    async def fork(self, restored: Restored, graph: Graph, made_by: str, branch: str) -> tuple[RunLog, RunRef]:
        """Go on from a place of a recorded run on a new branch, whatever became of the run since.

        Raises GraphChangedError, RunBusyError, or StorageError if the branch's name is taken.
        """
        now, owner = self.clock.time_ns() // 1000, self.ids()
        taken_at = self._check(restored, graph, now)
        branch = branch or self._branch_name(restored)
        await self._fork(restored, branch, now, taken_at, owner)
        return await self._take_over(restored, graph, made_by, branch, taken_at, owner), self._ref(restored)

    def _check(self, restored: Restored, graph: Graph, now: int) -> int:
        """Whether the run may be taken over, and as of when."""
        stored = definition_of(restored.info)
        changes = graph.differences(stored.graph)
        if changes and self.config.on_change == "refuse":
            raise GraphChangedError(
                f"{graph.name} has changed since this run was recorded: {'; '.join(changes)}. "
                f'CheckpointConfig(on_change="adopt") goes on with it as it is now'
            )
        held = restored.info.held_until_us
        if held and restored.info.status == RunStatus.RUNNING and stored.owner.is_another_alive():
            raise RunBusyError(
                f"run {restored.info.root_run_id} is held by process {stored.owner.pid}, which is alive; wait for it to end"
            )
        return max(now, held + 1) if stored.owner.is_dead() else now

    async def _take_over(
        self, restored: Restored, graph: Graph, made_by: str, branch: str, taken_at: int, owner: str
    ) -> RunLog:
        inputs = definition_of(restored.info).inputs
        info = self._info(restored.info.root_run_id, graph, made_by, taken_at, inputs)
        return await self._open(info, branch, taken_at, owner, restored)

    async def _open(
        self, info: RunInfo, branch: str, now_us: int, owner: str, restored: Restored | None = None
    ) -> RunLog:
        store = self.store
        session = await store.open(info, branch=branch, owner=owner, now_us=now_us, hold_until_us=now_us + HOLD_US)
        graph = msgspec.json.decode(info.definition, type=Definition).graph

        async def fold_here(seq: int) -> Any:
            return await fold_upto(store, Place(info, branch, seq), graph)

        log = self.log_type(
            store,
            session,
            self.clock,
            self.ids,
            self.listeners,
            triggers=frozenset(self.config.on_events),
            durability=self.config.durability,
            recorded=restored.fold if restored is not None else None,
            last_mark=restored.mark.id if restored is not None and restored.mark is not None else None,
            snapshots=Snapshots(store, session, self.loop_thread, fold_here),
            marking=Marking(
                store,
                session,
                self.loop_thread,
                self.tell,
                self.wants,
                self.source.exporter,
                self.config.max_checkpoints,
            ),
        )
        log.start_beating(self.loop_thread)
        return log

    async def _is_at_head(self, restored: Restored) -> bool:
        heads = {branch.name: branch.head for branch in await self.store.branches(restored.info.root_run_id)}
        return heads.get(restored.branch) == restored.seq

    def _branch_name(self, restored: Restored) -> str:
        return f"{restored.branch}@{restored.seq}-{self.ids()[-6:]}"

    async def _fork(self, restored: Restored, branch: str, now: int, taken_at: int, owner: str) -> None:
        """Begin a branch, with the run in hand: the id of a busy one would stand for a branch that nobody goes on with."""
        store, info, until = self.store, restored.info, taken_at + HOLD_US
        held = await store.open(info, branch=restored.branch, owner=owner, now_us=taken_at, hold_until_us=until)
        try:
            await store.fork(info.root_run_id, branch=branch, parent=restored.branch, at_seq=restored.seq, now_us=now)
        except BaseException:
            await store.close_session(held)
            raise

    @staticmethod
    def _ref(restored: Restored) -> RunRef:
        # whoever left it is gone: for its next incarnation nothing has begun
        failed = restored.info.status == RunStatus.FAILED
        begin_as = RunStatus.FAILED if failed else RunStatus.CREATED
        return RunRef(restored.info.root_run_id, begin_as, restored.info.incarnation, restored.seq)

    def _info(self, run_id: str, graph: Graph, made_by: str, now: int, inputs: tuple[str, ...]) -> RunInfo:
        definition = msgspec.json.encode(Definition(Owner.this_process(), graph, made_by, inputs, self.entity))
        return RunInfo(run_id, self.kind, graph.name, "running", 0, graph.fingerprint, now, now, definition=definition)
