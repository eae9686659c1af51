"""`PooledManager`: leases, sharing, caps, waiting, ending, for resources of any kind."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from holdfast.clock import Clock, SystemClock
from holdfast.context import Forks
from holdfast.errors import ManagerClosedError, RunEndedError, StorageError, StuckError
from holdfast.ids import new_id
from holdfast.logs import get_logger
from holdfast.ports import HeldResource, Holder, Ledger, LedgerRow, Owner, ProcessTable, ProcessUse, Spec, SweepReport
from holdfast.resources._entries import Entry, Limits, PooledLease, Waiter, settle
from holdfast.resources._loops import on_loop, surely
from holdfast.resources._platform import check_platform
from holdfast.resources._queue import Queue
from holdfast.resources._sweep import sweep_ledger
from holdfast.resources._table import SystemProcessTable, this_process
from holdfast.threads import LoopThread

log = get_logger("resources")

S = TypeVar("S", bound=Spec)
R = TypeVar("R")


class PooledManager(ABC, Generic[S, R]):
    """A `ResourceManager` that wants to know only how its resources are made, checked and ended.

    All of its work is done on one event loop in a thread of its own, so that a resource outlives the loop of the run that asked
    for it first; the thread starts with the first call and ends with `release_all()`.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        table: ProcessTable | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_platform()
        self.ledger = ledger
        self.limits = limits or Limits()
        self._table: ProcessTable = table or SystemProcessTable()
        self._clock: Clock = clock or SystemClock()
        self._home = LoopThread("holdfast-resources")
        self._closed = False
        self._begin_process()

    def _begin_process(self) -> None:
        """Start with nothing: in a forked child all of it is the parent's."""
        self._generation = Forks.generation
        self._owner = Owner(new_id(), this_process())
        self._queue: Queue[R] = Queue(self.limits, self)
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- what a kind of resource says ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def kind(self) -> str:
        """What sort of thing it makes."""

    @abstractmethod
    def intend(self, spec: S, row: LedgerRow) -> LedgerRow:
        """Complete the row that is written before anything is made."""

    @abstractmethod
    async def make(self, spec: S, row: LedgerRow) -> tuple[R, LedgerRow]:
        """Make it, and complete its row. Cancelled or failing, it leaves nothing behind, or raises StuckError."""

    @abstractmethod
    async def is_healthy(self, resource: R) -> bool:
        """Whether it can be given to somebody else."""

    @abstractmethod
    async def end(self, resource: R) -> None:
        """End it, and return when it is proved gone. Raises if it is not."""

    @abstractmethod
    async def end_orphan(self, row: LedgerRow) -> str:
        """End what a row of a dead owner names. Returns why it could not, or nothing."""

    async def died(self, resource: R) -> None:
        """Return when it ended by itself. Most things never do."""
        await asyncio.get_running_loop().create_future()

    def uses(self, resource: R) -> list[ProcessUse]:
        """The processes it consists of."""
        return []

    def left(self, resource: R, lease: PooledLease[R]) -> None:
        """Somebody gives it back; others may hold it still."""

    async def shut(self) -> None:
        """Let go of what all of them needed. Called once, after the last one is gone."""

    # -- the port --------------------------------------------------------------------------------------------------

    async def acquire(self, spec: S, run: Holder) -> PooledLease[R]:
        self._check_process()
        self._check_open()
        lease = await on_loop(self._home.loop, self._acquire(spec, run.id), undo=self._release)
        try:
            run.own(lease)
        except RunEndedError:
            await lease.release()
            raise
        return lease

    async def release_for_run(self, run_id: str) -> None:
        self._check_process()
        if not self._closed:
            await on_loop(self._home.loop, self._release_for_run(run_id))

    async def release_all(self) -> None:
        self._check_process()
        if self._closed:
            return
        self._closed = True
        try:
            await on_loop(self._home.loop, self._release_all())
        finally:
            if not self._home.is_current():
                await asyncio.to_thread(self._home.stop)

    async def sweep(self) -> SweepReport:
        """Also takes out rows of our own whose resource is gone, as when the ledger was out of reach in that moment."""
        self._check_process()
        return await sweep_ledger(self.ledger, self._table, {self.kind: self.end_orphan}, self._is_stale)

    def _is_stale(self, row: LedgerRow) -> bool:
        return row.owner.id == self._owner.id and row.id not in self._queue.entries

    def inventory(self) -> list[HeldResource]:
        self._check_process()
        return [
            HeldResource(
                id=entry.row.id,
                kind=self.kind,
                name=entry.row.name,
                state=entry.state,
                runs=entry.runs,
                since_us=entry.row.since_us,
                processes=tuple(self.uses(entry.resource)) if entry.resource is not None else (),
            )
            for entry in self._queue.entries.copy().values()
        ]

    def _check_process(self) -> None:
        if self._generation != Forks.generation:
            self._begin_process()

    def _check_open(self) -> None:
        if self._closed:
            raise ManagerClosedError(f"this manager of {self.kind} resources has released everything; make another one")

    # -- acquiring, on the home loop -------------------------------------------------------------------------------

    async def _acquire(self, spec: S, run_id: str) -> PooledLease[R]:
        while True:
            self._check_open()  # another thread may have closed it since, or somebody while an unhealthy one was ended
            lease = await self._take_turn(Waiter(spec, run_id))
            try:
                if await self._is_ready(lease.entry):
                    self._note(lease.entry)
                    return lease
            except BaseException:
                await surely(self._release(lease))
                raise
            lease.entry.leases.discard(lease)
            await self._end_entry(lease.entry)

    async def _take_turn(self, waiter: Waiter[R]) -> PooledLease[R]:
        self._queue.join(waiter)
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            self._queue.leave(waiter)
            if not waiter.turn.cancelled() and waiter.turn.exception() is None:  # its turn came in the same moment
                await surely(self._release(waiter.turn.result()))
            raise

    async def _is_ready(self, entry: Entry[R]) -> bool:
        """Wait until it is made, or see that it still works."""
        assert entry.making is not None
        if entry.making.done() and entry.state != "starting":
            return await self.is_healthy(entry.made()) and entry.is_usable
        try:
            await asyncio.shield(entry.making)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._check_open()  # not this task was cancelled but the making of it
            raise RunEndedError(f"{self.kind} {entry.row.name} was released while it was being made") from None
        return True

    def lease(self, entry: Entry[R], run_id: str) -> PooledLease[R]:
        """For the queue."""
        return PooledLease(self.kind, entry, run_id, self._release_at_home)

    def begin(self, spec: Spec) -> Entry[R]:
        """Start making a resource. Whoever waits for it may leave; the task is the pool's own."""
        since = self._clock.time_ns() // 1000
        name = spec.name.encode(errors="replace").decode()  # a program's name may be bytes that are no text
        row = LedgerRow(new_id(), self.kind, name, self._owner, since)
        entry: Entry[R] = Entry(spec.key(), row)
        entry.making = self._own(self._make(spec, entry))
        entry.making.add_done_callback(_look)
        return entry

    async def _make(self, spec: Any, entry: Entry[R]) -> R:
        try:
            entry.row = self.intend(spec, entry.row)
            await self.ledger.put(replace(entry.row, runs=entry.runs))
            entry.resource, entry.row = await self.make(spec, entry.row)
            await self._write_down(entry, entry.resource)
        except StuckError:
            self._forget(entry)  # its row stays, for the sweep
            raise
        except BaseException:
            await surely(self._strike_out(entry))
            self._forget(entry)
            raise
        if entry.state == "starting":  # and not already at its end
            entry.state = "held"
            entry.watching = self._own(self._watch(entry, entry.resource))
        return entry.resource

    async def _write_down(self, entry: Entry[R], resource: R) -> None:
        entry.row = replace(entry.row, runs=entry.runs)
        try:
            await self.ledger.put(entry.row)
        except BaseException:  # what is not written down must not be
            await surely(self._end_unwritten(entry, resource))
            raise

    async def _end_unwritten(self, entry: Entry[R], resource: R) -> None:
        try:
            await self.end(resource)
        except Exception as error:  # whatever it is, the intent stays in the ledger
            raise StuckError(f"{self.kind} {entry.row.name} could not be ended: {error}") from error

    async def _watch(self, entry: Entry[R], resource: R) -> None:
        """End what died by itself: its row must go, and whatever it left."""
        await self.died(resource)
        self.end_soon(entry)

    def _note(self, entry: Entry[R]) -> None:
        """Write down who holds it, without making anybody wait."""
        if entry.noting is None and entry.resource is not None:
            entry.noting = self._own(self._write_note(entry))

    async def _write_note(self, entry: Entry[R]) -> None:
        try:
            while entry.is_usable and entry.row.runs != entry.runs:
                entry.row = replace(entry.row, runs=entry.runs)
                await self.ledger.put(entry.row)
        except StorageError as error:
            log.warning("the ledger does not say who holds %s %s: %s", self.kind, entry.row.name, error)
        finally:
            entry.noting = None

    # -- releasing, on the home loop -------------------------------------------------------------------------------

    async def _release_at_home(self, lease: PooledLease[R]) -> None:
        """In a forked child there is nothing to give back: what a lease is on is the parent's."""
        if lease.entry.state != "gone" and lease.entry.generation == Forks.generation:
            await on_loop(self._home.loop, self._release(lease))

    async def _release(self, lease: PooledLease[R]) -> None:
        entry = lease.entry
        if lease in entry.leases and entry.resource is not None:
            self.left(entry.resource, lease)
        entry.leases.discard(lease)
        if entry.ending is not None and entry.state == "ending" and not entry.leases:
            await asyncio.shield(entry.ending)  # another release of it came first: both return when it is gone
        elif entry.leases or not (entry.is_usable or entry.state == "stuck"):
            self._note(entry)
            self._queue.move_on()
        elif self.limits.idle_timeout > 0 and entry.state == "held" and not self._closed:
            self._rest(entry)
        else:
            await self._end_entry(entry)

    def _rest(self, entry: Entry[R]) -> None:
        entry.state, entry.idle_since = "idle", self._clock.monotonic()
        entry.resting = self._own(self._end_later(entry))
        self._note(entry)
        self._queue.move_on()
        self._queue.trim_idle()

    async def _end_later(self, entry: Entry[R]) -> None:
        await self._clock.sleep(self.limits.idle_timeout)
        if entry.state == "idle":
            self.end_soon(entry)

    def end_soon(self, entry: Entry[R]) -> None:
        """End it without waiting. What goes wrong is in the log, the inventory and the ledger."""
        if entry.state not in ("ending", "gone"):
            entry.state = "ending"  # now: before the task begins, somebody may ask for one like it
            entry.ending = self._own(self._end(entry))
            entry.ending.add_done_callback(_look)

    async def _end_entry(self, entry: Entry[R]) -> None:
        self.end_soon(entry)
        if entry.ending is not None:
            await asyncio.shield(entry.ending)

    async def _end(self, entry: Entry[R]) -> None:
        for task in (entry.resting, entry.watching):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        if entry.making is not None and not entry.making.done():
            entry.making.cancel()
            await asyncio.wait({entry.making})
        if entry.noting is not None:
            await asyncio.wait({entry.noting})
        if entry.resource is not None and entry.row.id in self._queue.entries:
            await self._end_made(entry, entry.resource)

    async def _end_made(self, entry: Entry[R], resource: R) -> None:
        try:
            await self.end(resource)
        except BaseException as error:
            entry.state = "stuck"
            log.error("%s %s could not be ended: %s", self.kind, entry.row.name, error)
            raise
        await self._strike_out(entry)
        self._forget(entry)

    async def _strike_out(self, entry: Entry[R]) -> None:
        """Take its row out. If the ledger is out of reach now, the next sweep does it."""
        try:
            await self.ledger.remove(entry.row.id)
        except Exception as error:  # it is gone, whatever a ledger raises
            log.warning("%s %s is gone but still in the ledger: %s", self.kind, entry.row.name, error)

    def _forget(self, entry: Entry[R]) -> None:
        entry.state = "gone"
        self._queue.drop(entry)

    async def _release_for_run(self, run_id: str) -> None:
        self._queue.refuse(
            lambda waiter: waiter.run_id == run_id, RunEndedError(f"run {run_id} is ending or has ended")
        )
        entries = list(self._queue.entries.values())
        leases = [lease for entry in entries for lease in entry.leases.copy() if lease.run_id == run_id]
        _raise(await settle([self._own(self._release(lease)) for lease in leases]))

    async def _release_all(self) -> None:
        refusal = ManagerClosedError(f"this manager of {self.kind} resources is releasing everything")
        self._queue.refuse(lambda waiter: True, refusal)
        problems = await settle([self._own(self._end_entry(entry)) for entry in list(self._queue.entries.values())])
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await settle(list(others))
        await self.shut()
        _raise(problems)

    def _own(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _look(task: asyncio.Task[Any]) -> None:
    """Its error was told; asyncio need not say that nobody asked for it."""
    if not task.cancelled():
        task.exception()


def _raise(problems: list[BaseException]) -> None:
    for problem in problems:
        raise problem
