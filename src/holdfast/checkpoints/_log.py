"""`RunLog`: a run tree's way into its journal."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Sequence
from threading import get_ident
from time import monotonic
from typing import Any, Protocol

from holdfast.checkpoints._beats import Heartbeat, heartbeat_of
from holdfast.checkpoints._behind import WriteBehind
from holdfast.checkpoints._blobs import BlobWriter
from holdfast.checkpoints._config import Durability
from holdfast.checkpoints._document import Document
from holdfast.checkpoints._fold import Fold, Progress
from holdfast.checkpoints._live import JournalledState, RecordedTree, live_document
from holdfast.checkpoints._marks import Marking
from holdfast.checkpoints._rows import encode_fields, encoder_of, links_of, origin_of, stored_fields
from holdfast.checkpoints._snapshots import Snapshots
from holdfast.checkpoints._unstored import Unstored
from holdfast.clock import Clock
from holdfast.context import Position
from holdfast.errors import FencedError, StorageError
from holdfast.events._base import BaseEvent
from holdfast.events._delivery import Encoder
from holdfast.events.families.checkpoint import CheckpointCompletedEvent
from holdfast.ids import IdFactory
from holdfast.logs import get_logger
from holdfast.ports import Batch, JournalStore, Mark, Origin, Row, Session
from holdfast.runs import RunStatus
from holdfast.threads import LoopThread

log = get_logger("checkpoints")
HOLD_US = 60_000_000  # how long a session is held when its hold is renewed
RENEW_US = HOLD_US // 2  # what is left of a hold when it is renewed
SHOWN = 250  # events of a tree that handlers are shown; each keeps the result that it tells of
BREATH = 0.005  # seconds that a run which is stored on the spot may keep others on its loop waiting
BEHIND = 1_000  # rows not yet written at which a run that is written down asynchronously waits for its disk


class Listeners(Protocol):
    """Those who hear the events of a bus, as far as a log must know."""

    version: int
    """changes whenever they change"""
    lock: threading.RLock
    """gives their events an order"""


class RunLog(RecordedTree):
    """Takes down the durable events of a tree as they are stamped, and commits them when a step is about to begin.

    With `durability="step"` a step's result is on disk before the next one begins; with `"async"` it is handed over and written
    beside the run, in order, and a failure to write fails the run at its next step or its end; with `"exit"` all is written at
    the end.
    """

    __slots__ = (  # with more than thirty attributes Python keeps them in a dict, and finds each more slowly
        "_behind", "_blobs", "_breathed", "_calls", "_carried", "_clock", "_durability", "_failure", "_heartbeat",
        "_held_until", "_in_flight", "_last_mark", "_listeners", "_lock", "_marked_at", "_marking", "_marks",
        "_marks_all", "_new_id", "_order", "_quiet_in", "_rows", "_seq", "_snapshots", "_taken", "_triggers",
        "answers", "is_closed", "recorded", "secrets", "session", "show", "state", "store",
    )  # fmt: skip

    def __init__(
        self,
        store: JournalStore,
        session: Session,
        clock: Clock,
        ids: IdFactory,
        listeners: Listeners,
        *,
        triggers: frozenset[str] = frozenset(),
        durability: Durability = "step",
        recorded: Fold | None = None,
        last_mark: str | None = None,
        snapshots: Snapshots | None = None,
        marking: Marking | None = None,
    ) -> None:
        self.session = session
        self.store = store
        self.recorded = recorded
        """What the tree amounted to when it was taken up again."""
        self.answers: dict[str, str] = {}
        """What people answered while the run was put down, by the id of the request."""
        self.secrets: tuple[bytes, ...] = ()
        """As they look in JSON: whatever is told, they are not written down."""
        self.is_closed = False
        self._clock = clock
        self._new_id = ids
        self._triggers = triggers
        self._marks_all = "*" in triggers
        self._durability = durability
        self._seq = session.head
        self._rows: list[Row] = []
        self._marks: list[Mark] = []
        self._blobs = BlobWriter()
        self._carried: dict[int, bytes] = {}
        self._calls: Counter[tuple[str, str | None]] = Counter()
        self._listeners = listeners
        self._lock = listeners.lock
        """What is taken down is so in the order of the events: under their lock."""
        self._order = threading.Lock()
        """Held from taking a batch until it is stored: batches reach the store in order."""
        self._last_mark = last_mark
        self._taken = 0
        """Bytes taken down."""
        self._marked_at = 0
        """How many there were at the last mark."""
        self._snapshots = snapshots
        self._marking = marking
        self._quiet_in = -1
        """The version of the listeners in which nobody hears of marks; runs inside this one may have their own."""
        self._heartbeat: Heartbeat | None = None
        self._held_until = 0
        self._behind: WriteBehind | None = None
        self._failure: Exception | None = None
        self._in_flight: Batch | None = None
        self._breathed = 0.0
        self.state = JournalledState(SHOWN, session.root_run_id, session.branch, last_mark)
        """What handlers are shown of the tree: its newest events. The others are in the journal."""
        self.show = self.state.show
        self.state.keep_tree(session.root_run_id, self)

    # -- taking down -----------------------------------------------------------------------------------------------

    def record(self, event: BaseEvent) -> None:
        """Take down an event. Under the bus's lock, so rows are in the order of the events.

        Raises NotStorableError, naming the path, for what has no stored form.
        """
        env = event.env
        assert env is not None
        changed = self._carried.pop(get_ident(), None)  # first: a refusal must not leave it for the next event
        payload, run_id = encode_fields(stored_fields(event)), env.run_id or ""
        self.write(event.type, payload, changed, env.event_id, env.at_us, run_id, *links_of(env), origin_of(env))

    def encoder(self, event_type: type[BaseEvent]) -> Encoder:
        """What makes the stored form of a payload; it raises NotStorableError, naming the path, for what has none."""
        return encoder_of(event_type)

    def write(
        self,
        tag: str,
        payload: bytes,
        changed: bytes | None,
        event_id: str,
        at_us: int,
        run_id: str,
        parent: str | None,
        cause: str | None,
        opener: str | None,
        origin: Origin,
    ) -> Row:
        """Make a row of an event whose payload is in its stored form, with what it changed in the state. Under the bus's lock."""
        if self.secrets:
            payload = self._concealed(payload)
        size = len(payload) if changed is None else len(payload) + len(changed)
        if size > 4096:
            payload, changed = self._blobs.extract(payload), self._small(changed)
        self._seq = seq = self._seq + 1
        self._taken += size
        row = Row(seq, tag, event_id, at_us, run_id, payload, changed, parent, cause, opener, origin)
        self._rows.append(row)
        if tag in self._triggers or self._marks_all:
            self._mark(row, tag)
        return row

    def expect(self, event_ids: Sequence[str]) -> None:
        """Which ids the next events will have, if nothing else is told before."""
        self.store.expect(self.session, event_ids)

    def _concealed(self, payload: bytes) -> bytes:
        for secret in self.secrets:
            payload = payload.replace(secret, "•••".encode())
        return payload

    def _small(self, delta: bytes | None) -> bytes | None:
        return delta if delta is None else self._blobs.extract(delta)

    def _mark(self, row: Row, trigger: str) -> None:
        """Make a row a checkpoint. Named after its event: an id less to make and to store."""
        taken, event_id = self._taken, row.event_id
        mark = Mark(event_id, row.seq, row.at_us, trigger, "main", "", self._last_mark, taken - self._marked_at)
        self._marks.append(mark)  # of whatever branch and run its session is
        self._marked_at, self._last_mark = taken, event_id

    def _mark_head(self, trigger: str) -> None:
        """Make what was taken down last a checkpoint, if it is none yet."""
        with self._lock:
            if self._rows and not (self._marks and self._marks[-1].seq == self._rows[-1].seq):
                self._mark(self._rows[-1], trigger)

    def carry(self, changed: bytes) -> None:
        """What a step changed in the state: it is stored with the next event that this thread emits."""
        self._carried[get_ident()] = changed

    # -- runs inside the tree --------------------------------------------------------------------------------------

    def next_call(self, run_id: str, step_id: str | None) -> str:
        """Which run this is that a step starts: `step#number/ordinal`, the same each time the step is run again."""
        with self._lock:
            self._calls[run_id, step_id] += 1
            return f"{step_id}/{self._calls[run_id, step_id]}"

    def recorded_call(self, run_id: str, call: str) -> tuple[str, Progress] | None:
        """The run that this call started before the tree was taken up again, and how far it had come."""
        if self.recorded is None or (parent := self.recorded.runs.get(run_id)) is None:
            return None
        child = parent.children.get(call, "")
        return (child, self.recorded.runs[child]) if child in self.recorded.runs else None

    # -- committing ------------------------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Make durable what was taken down, unless that is left for the end."""
        if (rest := self.commit_here()) is not None:
            await rest

    def commit_here(self) -> Coroutine[Any, Any, None] | None:
        """`commit`, on the spot if that is quick: most are, and need no coroutine. Else what is left, to be awaited at once."""
        if self._durability != "step" and not self._is_due():
            return None
        return self._store_here(None) if self._order.acquire(False) else self._store_rows(None)

    def commit_now(self) -> None:
        """`commit`, blocking."""
        if self._durability == "step" or self._is_due():
            with self._order:
                if self._failure is not None or self._behind is not None:
                    self._check_written()
                if self._rows:
                    batch = self._batch(None)
                    marking = None
                    if batch.marks and (self._listeners.version != self._quiet_in or self._calls):
                        marking = self._begin_marks(batch.marks)
                    try:
                        self.store.append_now(batch)
                    except Exception as error:
                        self._not_stored(batch, error)
                        raise
                    if (snapshots := self._snapshots) is not None and self._taken >= snapshots.due_at:
                        snapshots.note(batch, self._taken)
                    if marking is not None:
                        marking.end_now(batch.marks)

    def _is_due(self) -> bool:
        """Whether what was taken down is to be stored here and now. Hands it over if that is to be done beside the run."""
        if self._behind is None:
            return self._durability != "exit"
        self._behind.wake()
        return len(self._rows) > BEHIND

    def _check_written(self) -> None:
        """Raise what an earlier writing met: what comes after a gap cannot be stored, and its own error would not say why."""
        if self._failure is not None:
            raise self._failure
        if self._behind is not None:
            self._behind.check()

    async def commit_end(self, run_id: str, status: str) -> None:
        """The end of a run of the tree: with the root's, its status is stored in the same transaction."""
        if run_id != self.session.root_run_id:
            await self.commit()
            return
        self.stop_beating()
        if status == RunStatus.WAITING:
            self._mark_head("run_waiting")
        await self._store_rows(status)
        self.is_closed = True  # whoever stores the end gives up the hold with it
        if self._marking is not None:
            await self._marking.prune()

    async def close(self) -> None:
        """Let go of the run, so that another may take it up. Twice is fine."""
        self.stop_beating()
        if self.is_closed:
            return
        self.is_closed = True
        try:
            if self._durability == "async":
                await self._store_rows(None)
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        try:
            await self.store.close_session(self.session)
        except StorageError as error:  # what the run came to is stored, or was refused with an error of its own
            log.warning("the hold on run %s could not be given up: %s", self.session.root_run_id, error)

    async def _store_rows(self, status: str | None) -> None:
        while not self._order.acquire(False):  # noqa: ASYNC110 - a thread of this tree is storing
            await asyncio.sleep(0.001)  # not in a thread: a wait that is cancelled there would take the lock for good
        if (rest := self._store_here(status)) is not None:
            await rest

    def _store_here(self, status: str | None) -> Coroutine[Any, Any, None] | None:
        """Store what was taken down. Whoever calls has the order, and loses it: at once, or to what is left to be awaited."""
        is_over = True
        try:
            if self._failure is not None or self._behind is not None:
                self._check_written()
            if self._rows or status is not None:
                batch = self._batch(status)
                marking = None
                if batch.marks and (self._listeners.version != self._quiet_in or self._calls):
                    marking = self._begin_marks(batch.marks)
                try:
                    is_stored = self.store.append_at_once(batch)
                except Exception as error:
                    self._not_stored(batch, error)
                    raise
                if not is_stored or marking is not None:
                    is_over = False
                    return self._store_rest(batch, is_stored, marking)
                if (snapshots := self._snapshots) is not None and self._taken >= snapshots.due_at:
                    snapshots.note(batch, self._taken)
        finally:
            if is_over:
                self._order.release()
        return self._breath() if monotonic() > self._breathed + BREATH else None

    async def _store_rest(self, batch: Batch, is_stored: bool, marking: Marking | None) -> None:
        """What takes longer: waiting for the store, telling of marks."""
        try:
            if not is_stored:
                try:
                    await self.store.append(batch)
                except Exception as error:
                    self._not_stored(batch, error)
                    raise
                self._breathed = monotonic()
            if (snapshots := self._snapshots) is not None and self._taken >= snapshots.due_at:
                snapshots.note(batch, self._taken)
            if marking is not None:
                await marking.end(batch.marks)
        finally:
            self._order.release()
        if monotonic() > self._breathed + BREATH:
            await self._breath()

    async def _breath(self) -> None:
        """Whoever else is on this loop has a turn now and then, whatever this run does."""
        self._breathed = monotonic()
        await asyncio.sleep(0)

    def _batch(self, status: str | None) -> Batch:
        with self._lock:
            rows, self._rows = self._rows, []
            hold: int | None = None
            if status is not None:
                hold = 0  # with its end nobody holds it
            elif rows and self._held_until - rows[-1].at_us < RENEW_US:
                hold = self._hold_until()  # not with every row: writing that costs a page each
            marks, self._marks = self._marks, []
            blobs = self._blobs.take_all() if self._blobs.taken else ()
        self._in_flight = batch = Batch(self.session, tuple(rows), blobs, None, tuple(marks), status, hold)
        return batch

    def _begin_marks(self, marks: tuple[Mark, ...]) -> Marking | None:
        """Who is to be told of marks, once that they are about to be written."""
        version, marking = self._listeners.version, self._marking
        if marking is None or (marking.exporter is None and not marking.wants(CheckpointCompletedEvent)):
            self._quiet_in = version  # most have nobody who listens, and no document to write
            return None
        marking.begin(marks)
        return marking

    def _not_stored(self, batch: Batch, error: Exception) -> None:
        self._failure = error
        if self._marking is not None:
            self._marking.fail(batch.marks, error)

    # -- documents -------------------------------------------------------------------------------------------------

    async def document(self) -> Document:
        """The tree as it is now, what is not stored yet included."""
        with self._lock:
            unstored, session = self.unstored(), self.session
            now, name, before = self._clock.time_ns() // 1000, self._new_id(), self._last_mark
            mark = Mark(name, self._seq, now, "manual", session.branch, session.root_run_id, before)
        return await live_document(self.store, unstored, mark)

    def unstored(self) -> Unstored:
        """What was taken down and is not known to be stored."""
        with self._lock:
            flying = self._in_flight
            rows = [*(flying.rows if flying is not None else ()), *self._rows]
            blobs = {**dict(flying.blobs if flying is not None else ()), **self._blobs.taken}
            return Unstored(rows, blobs)

    # -- holding on ------------------------------------------------------------------------------------------------

    def start_beating(self, loop_thread: LoopThread) -> None:
        """Keep the hold on the run while its steps take their time. Until `stop_beating`, or the end."""
        place = Position(self.session.root_run_id)
        if self._durability == "async":
            self._behind = WriteBehind(loop_thread, lambda: self._store_rows(None), place)
        self._heartbeat = heartbeat_of(loop_thread, self._clock, HOLD_US / 3_000_000)
        self._heartbeat.add(self._renew_hold, loop_thread)

    def stop_beating(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.remove(self._renew_hold)
            self._heartbeat = None

    async def _renew_hold(self) -> None:
        try:
            await self.store.append(Batch(self.session, hold_until_us=self._hold_until()))
        except FencedError:
            self.stop_beating()  # somebody took the run over; its next commit will say so
        except StorageError as error:
            log.warning("the hold on run %s could not be renewed: %s", self.session.root_run_id, error)

    def _hold_until(self) -> int:
        self._held_until = self._clock.time_ns() // 1000 + HOLD_US
        return self._held_until
