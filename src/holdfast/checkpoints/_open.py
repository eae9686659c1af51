"""Taking hold of a run's journal, new or known."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.checkpoints._config import CheckpointConfig
from holdfast.checkpoints._log import HOLD_US, RunLog
from holdfast.checkpoints._owner import Owner
from holdfast.checkpoints._restore import Restored
from holdfast.clock import Clock
from holdfast.errors import GraphChangedError, RunBusyError, StorageError
from holdfast.graph import Graph
from holdfast.ids import IdFactory
from holdfast.ports import RunInfo
from holdfast.runs import RunRef, RunStatus
from holdfast.threads import LoopThread


class Definition(Struct, frozen=True):
    """What is stored beside a run: who holds it, and the graph it was started with."""

    owner: Owner
    graph: Graph
    made_by: str = ""
    """the module and class of its program"""


class Journalling(Struct, frozen=True):
    """What opening a journal needs from its surroundings."""

    config: CheckpointConfig
    clock: Clock
    ids: IdFactory
    loop_thread: LoopThread

    async def begin(self, run_id: str, graph: Graph, made_by: str) -> RunLog:
        """Start the journal of a new run."""
        now = self.clock.time_ns() // 1000
        return await self._open(self._info(run_id, graph, made_by, now), "main", now)

    async def resume(self, restored: Restored, graph: Graph, made_by: str) -> tuple[RunLog, RunRef]:
        """Take over a recorded run. Raises GraphChangedError, RunBusyError, or StorageError for one that has ended."""
        stored = msgspec.json.decode(restored.info.definition, type=Definition)
        changes = graph.differences(stored.graph)
        if changes:
            raise GraphChangedError(f"{graph.name} has changed since this run was recorded: {'; '.join(changes)}")
        ref = self._ref(restored)
        if restored.info.status == RunStatus.RUNNING and stored.owner.is_another_alive():
            raise RunBusyError(
                f"run {ref.run_id} is held by process {stored.owner.pid}, which is alive; wait for it to end"
            )
        now = self.clock.time_ns() // 1000
        taken_at = max(now, restored.info.held_until_us + 1) if stored.owner.is_dead() else now
        branch = await self._branch(restored, now)
        return await self._open(self._info(ref.run_id, graph, made_by, now), branch, taken_at), ref

    async def _open(self, info: RunInfo, branch: str, now_us: int) -> RunLog:
        store, owner = self.config.store, self.ids()
        session = await store.open(info, branch=branch, owner=owner, now_us=now_us, hold_until_us=now_us + HOLD_US)
        triggers, durability = frozenset(self.config.on_events), self.config.durability
        log = RunLog(store, session, self.clock, self.ids, triggers=triggers, durability=durability)
        log.start_beating(self.loop_thread)
        return log

    async def _branch(self, restored: Restored, now: int) -> str:
        """The branch to go on with: the recorded one at its head, else a new one from there."""
        store, root = self.config.store, restored.info.root_run_id
        heads = {branch.name: branch.head for branch in await store.branches(root)}
        if heads.get(restored.branch) == restored.seq:
            return restored.branch
        branch = f"{restored.branch}@{restored.seq}-{self.ids()[-6:]}"
        await store.fork(root, branch=branch, parent=restored.branch, at_seq=restored.seq, now_us=now)
        return branch

    @staticmethod
    def _ref(restored: Restored) -> RunRef:
        status = RunStatus(restored.info.status)
        if status in (RunStatus.COMPLETED, RunStatus.CANCELLED):
            raise StorageError(f"run {restored.info.root_run_id} is {status}; it can only be forked")
        # whoever left it running is gone: for its next incarnation nothing has begun
        begin_as = status if status is RunStatus.FAILED else RunStatus.CREATED
        return RunRef(restored.info.root_run_id, begin_as, restored.info.incarnation, restored.seq)

    def _info(self, run_id: str, graph: Graph, made_by: str, now: int) -> RunInfo:
        definition = msgspec.json.encode(Definition(Owner.this_process(), graph, made_by))
        return RunInfo(run_id, "flow", graph.name, "running", 0, graph.fingerprint, now, now, definition=definition)
