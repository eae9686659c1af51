"""Group commit: many writers, one transaction, one fsync, and no thread in between when there is no need for one.

A blocking writer queues its work and waits for its turn; whoever has the turn commits everything queued, so those who
waited find theirs done. An awaiting writer that is alone commits on the spot; otherwise one thread, started when needed
and gone when idle, takes the turn for all of them and wakes each loop once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

from holdfast.errors import StoreUnavailableError

T = TypeVar("T")

IDLE_SECONDS = 2.0
INLINE_SECONDS = 0.001
"""A commit that takes longer would be felt by everything else on the loop."""
_SMOOTHING = 0.2


class BusyError(Exception):
    """Somebody else's transaction is in the way. Raised by an impatient commit that has changed nothing."""


class Waiter(Generic[T]):
    """A task that waits on its loop for something done elsewhere."""

    __slots__ = ("_future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = self.loop.create_future()

    async def wait(self) -> T:
        return await self._future

    def settle(self, result: T | None, error: BaseException | None) -> None:
        """On its own loop only."""
        if self._future.done() and not self._renew():
            return
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)  # type: ignore[arg-type]

    def _renew(self) -> bool:
        """Make a future in place of one that was cancelled. False: whoever waited is gone."""
        return False


class Lasting(asyncio.Future[T]):
    """A future that is not cancelled with the task that awaits it: that task hears of it once the future is done."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class LastingWaiter(Waiter[T]):
    """A waiter that waits to the end although its task is cancelled: what is being stored is stored, and known to be."""

    __slots__ = ()

    async def wait(self) -> T:
        try:
            return await self._future  # a plain one: to await a subclass costs more, and few are cancelled
        except asyncio.CancelledError:
            if self._future.cancelled():
                self._future = Lasting(loop=self.loop)
                with suppress(asyncio.CancelledError):  # cancelled once more
                    await self._future
            self._future.result()  # what could not be stored counts for more
            raise

    def _renew(self) -> bool:
        if self._future.cancelled():
            self._future = self.loop.create_future()  # the task is about to look
            return True
        return False


class Pending(Generic[T]):
    """One piece of work for a transaction, and what became of it."""

    __slots__ = ("done", "error", "result", "waiter", "work")

    def __init__(self, work: Callable[[Any], T], waiter: Waiter[T] | None = None) -> None:
        self.work = work
        self.waiter = waiter
        self.done = False
        self.result: T | None = None
        self.error: BaseException | None = None

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


class Storage(Protocol):
    """What work is committed to."""

    def commit_one(self, work: Callable[[Any], T], patient: bool) -> T:
        """Carry out one piece of work in a transaction: what it returns, or raises. Patient: waits for other processes; else raises
        BusyError at once, having done nothing."""
        ...

    def commit_all(self, group: Sequence[Pending[Any]]) -> None:
        """Carry out all of it in one transaction, patiently, and note each one's result or error."""
        ...


class GroupWriter:
    """The queue, the turn and the thread."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        self.reset()

    def reset(self) -> None:
        """Start with nothing queued: after a fork the threads that queued it are in the parent."""
        self._queue: deque[Pending[Any]] = deque()
        self._turn = threading.Lock()
        self._life = threading.Lock()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ringing: asyncio.AbstractEventLoop | None = None
        self._rung = False
        self._thread: threading.Thread | None = None
        self._smoothed = 0.0

    @property
    def turn(self) -> threading.Lock:
        """Who holds it is alone with the storage."""
        return self._turn

    @property
    def waiting(self) -> int:
        """How many pieces of work are queued."""
        return len(self._queue)

    def write_now(self, work: Callable[[Any], T]) -> T:
        """Block until the work is committed. Raises what the work or the storage raised."""
        if not self._queue and self._turn.acquire(False):
            try:
                return self._storage.commit_one(work, True)
            finally:
                self._turn.release()
        pending = Pending(work)
        self._queue.append(pending)
        with self._turn:
            if not pending.done:
                self._commit_queued()
        return pending.outcome()

    async def write(self, work: Callable[[Any], T], *, alone: bool) -> T:
        """Wait until the work is committed. `alone`: nobody else is at work here, so it may be done on the spot."""
        if alone:
            is_stored, result = self.write_at_once(work)
            if is_stored:
                await asyncio.sleep(0)  # or "concurrent" runs would run one after another and never meet in a group
                return result
        waiter: LastingWaiter[T] = LastingWaiter()
        self._queue.append(Pending(work, waiter))
        if self._ringing is not waiter.loop:
            self._ringing = waiter.loop
            waiter.loop.call_soon(self._ring)  # not now: whoever has a turn before that joins the group
        return await waiter.wait()

    def write_at_once(self, work: Callable[[Any], T]) -> tuple[bool, T]:
        """Commit the work here if nobody is in the way and commits are quick: True and what it returned. If not it is not queued
        either."""
        if self._smoothed >= INLINE_SECONDS or self._queue or not self._turn.acquire(False):
            return False, None  # type: ignore[return-value]
        try:
            started = perf_counter()
            result = self._storage.commit_one(work, False)
            self._smoothed += _SMOOTHING * (perf_counter() - started - self._smoothed)
            return True, result
        except BusyError:
            self._smoothed = max(self._smoothed, INLINE_SECONDS)
            return False, None  # type: ignore[return-value]
        finally:
            self._turn.release()

    def _commit_queued(self) -> None:
        """Commit all that is queued now."""
        waiting = self._queue
        group = [waiting.popleft() for _ in range(len(waiting))]  # others may add to it meanwhile
        if not group:
            return
        try:
            started = perf_counter()
            self._storage.commit_all(group)
            self._smoothed += _SMOOTHING * (perf_counter() - started - self._smoothed)
        except BaseException:  # Ctrl-C in the thread that has the turn: the others must not wait for ever
            for pending in group:
                pending.error = pending.error or StoreUnavailableError(
                    "interrupted while writing; it may not be stored"
                )
            raise
        finally:
            for pending in group:
                pending.done = True
            wake(group)

    def _ring(self) -> None:
        """See that the thread looks at the queue."""
        self._ringing = None
        if self._rung:
            return  # it was called and has not looked yet
        with self._life:
            self._rung = True
            self._bell.put(None)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while self._called():
            self._rung = False
            with self._turn:
                self._commit_queued()

    def _called(self) -> bool:
        """Wait to be called. False when it is time to go."""
        while True:
            try:
                self._bell.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._life:
                    if self._rung:
                        continue
                    self._thread = None
                    return False
            else:
                return self._thread is threading.current_thread()

    def finish(self) -> None:
        """Commit what is queued and let the thread go."""
        with self._turn:
            self._commit_queued()
        with self._life:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._bell.put(None)
        if thread is not None:
            thread.join()


def wake(group: Sequence[Pending[Any]]) -> None:
    """Tell those who wait on loops, with one call for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Pending[Any]]] = {}
    for pending in group:
        if (waiter := pending.waiter) is not None:
            by_loop.setdefault(waiter.loop, []).append(pending)
    for loop, settled in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, settled)
        except RuntimeError:  # the loop was closed, and with it whoever waited
            continue


def _settle(group: Sequence[Pending[Any]]) -> None:
    for pending in group:
        if pending.waiter is not None:
            pending.waiter.settle(pending.result, pending.error)
