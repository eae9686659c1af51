"""`Runtime`: one bus, one loop thread, one pool of threads, and the runs that use them."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import importlib
import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from holdfast import stores
from holdfast.clock import Clock, SystemClock, check_seconds
from holdfast.context import Forks, current_run_id, is_async_callable
from holdfast.errors import AlreadyFinishedError, RuntimeClosedError, SyncInAsyncError, UsageError
from holdfast.events._bus import EventBus
from holdfast.events._state import RuntimeState
from holdfast.home import find_home, make_home, store_path
from holdfast.ids import IdFactory, new_id
from holdfast.ports import Entity, Journal, JournalStore, ResourceManager
from holdfast.resources._serving import SWEEP_SECONDS, release_everything, sweep_regularly
from holdfast.runs._drive import drive, drive_in_thread, supervise
from holdfast.runs._end import RunRef
from holdfast.runs._finish import finish
from holdfast.runs._holdings import Holding
from holdfast.runs._run import Run
from holdfast.threads import LoopThread, ThreadPool, done_here

Body = Callable[..., Any]


class Runtime:
    """Holds runs. `default_runtime()` is the one of this process; or make one and close it: `with Runtime() as runtime:`.

    `grace` bounds each part of a run's end, in seconds: how long steps get to stop, leases to be released, handlers to
    catch up. Raises UsageError if it is no such bound.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        ids: IdFactory = new_id,
        grace: float = 10.0,
        store: JournalStore | None = None,
    ) -> None:
        check_seconds(grace=grace)
        if grace == math.inf:
            raise UsageError("grace=inf bounds nothing; give a number of seconds")
        self.clock: Clock = clock or SystemClock()
        self.new_id: IdFactory = ids
        self.grace = grace
        self.loop_thread = LoopThread()
        self.threads = ThreadPool()
        self.event_bus = EventBus(clock=self.clock, ids=ids, loop_thread=self.loop_thread)
        self._store = store
        self._own_store: JournalStore | None = None
        self._closed = False
        self._managers: list[ResourceManager] = []
        self._begin_process()
        _living.add(self)

    def _begin_process(self) -> None:
        self._lock = threading.RLock()
        self._generation = Forks.generation
        self._runs: dict[str, Run] = {}
        self._supervisors: set[asyncio.Task[None]] = set()
        self._disowned: dict[Future[Any], Holding] = {}
        self._unreleased: list[Holding] = []

    # -- starting runs ---------------------------------------------------------------------------------------------

    def start(
        self,
        body: Body,
        *args: Any,
        name: str = "",
        record: bool = False,
        entity: Entity | None = None,
        resume: RunRef | None = None,
        journal: Journal | None = None,
        run_id: str | None = None,
    ) -> Run:
        """Start a run on the running loop and return it at once; `await` it for the result of `body(run, *args)`.

        Called inside a run, it starts a child of that run. A `body` that is no async function runs in a thread.
        `record=True` keeps the events of this run's tree while it lives. `resume` goes on with a failed run under its
        next incarnation. `journal` takes down what the run's tree does and makes its end durable. `run_id` is for a run
        whose id is known before it starts.
        """
        loop = asyncio._get_running_loop()
        if loop is None:
            raise UsageError(
                "start() needs a running event loop; from plain code use run(), which waits for the result"
            )
        run = self._make(loop, name, record, entity, resume, journal, run_id)
        supervise(run, body, args)
        return run

    async def arun(self, body: Body, *args: Any, **options: Any) -> Any:
        """Start a run and wait for its result. Cancelling the wait cancels the run, and returns when nothing is left of it."""
        run = self._make(asyncio.get_running_loop(), **options)
        drive(run, body, args)
        try:
            return await run
        except asyncio.CancelledError:
            run.depart("the task that waited for it was cancelled")
            await _patiently(run)
            raise

    def run(self, body: Body, *args: Any, **options: Any) -> Any:
        """Run `body(run, *args)` and return its result, from code that is not async.

        Works with or without a running loop in this thread, and inside a blocking step, where it makes a child run.
        Inside an async step it raises SyncInAsyncError: `await arun(...)` there.
        """
        in_loop = asyncio._get_running_loop() is not None
        if in_loop and self.current_run() is not None:
            raise SyncInAsyncError(
                "run() inside an async step would block the loop of its own run; use `await arun(...)`"
            )
        if in_loop:
            return self.loop_thread.submit(self.arun(body, *args, **options)).result()
        if is_async_callable(body):
            return asyncio.run(self.arun(body, *args, **options))
        run = self._make(None, **options)
        return drive_in_thread(run, body, args)

    def _make(
        self,
        loop: asyncio.AbstractEventLoop | None,
        name: str = "",
        record: bool = False,
        entity: Entity | None = None,
        resume: RunRef | None = None,
        journal: Journal | None = None,
        run_id: str | None = None,
    ) -> Run:
        self._check_process()
        with self._lock:
            if self._closed:
                raise RuntimeClosedError("this Runtime was closed and starts no more runs; make another one")
            run = Run(
                self,
                name=name,
                parent=self.current_run(),
                loop=loop,
                entity=entity,
                record=record,
                resume=resume,
                journal=journal,
                run_id=run_id,
            )
            self._runs[run.id] = run
        return run

    @property
    def store(self) -> JournalStore:
        """Where runs are written down that do not say where: what it was given, else the project's own SQLite file.

        That is `holdfast.db` in the `.holdfast/` of the working directory or the nearest folder above it; made if there is none.
        """
        with self._lock:
            if self._store is None:
                home = find_home() or make_home()
                self._store = self._own_store = stores.SqliteStore(store_path(home))
                self._collect_old(self._store, home)
            return self._store

    def _collect_old(self, store: JournalStore, home: Path) -> None:
        """Let go of runs that ended long ago, beside everything else and at most once a day."""
        checkpoints = importlib.import_module("holdfast.checkpoints")
        now = self.clock.time_ns() // 1000
        self.loop_thread.submit(checkpoints.collect_daily(store, home / "collected", now_us=now))

    def read_checkpoint(self, where: str | os.PathLike[str]) -> RuntimeState:
        """What a checkpoint recorded: a file, or an id in this runtime's store. `RuntimeState.from_checkpoint` calls this."""
        checkpoints = importlib.import_module("holdfast.checkpoints")  # a bare runtime does without
        state: RuntimeState = checkpoints.read_state(where, lambda: self.store)
        return state

    def register(self, manager: ResourceManager, *, sweep_seconds: float = SWEEP_SECONDS) -> None:
        """Take in a manager of resources: what dead owners left is swept now and every so often, and `close()` releases all."""
        check_seconds(sweep_seconds=sweep_seconds)
        if not sweep_seconds:
            raise UsageError("sweep_seconds=0 would sweep all the time; give a number of seconds")
        self._check_process()
        with self._lock:
            if self._closed:
                raise RuntimeClosedError("this Runtime was closed and takes in no manager; make another one")
            self._managers.append(manager)
        self.loop_thread.submit(sweep_regularly(manager, self.clock, sweep_seconds, self.event_bus))

    # -- what lives ------------------------------------------------------------------------------------------------

    def current_run(self) -> Run | None:
        """The run this code belongs to, if it lives here."""
        return self._runs.get(current_run_id() or "")

    def runs(self) -> list[Run]:
        """Every run that lives, oldest first."""
        self._check_process()
        with self._lock:
            return list(self._runs.values())

    def inventory(self) -> list[Holding]:
        """Everything held now by any run, resources kept warm, threads that were given up, leases that could not be released."""
        held = [Holding("run", run.name or run.id, run.id) for run in self.runs() if run.parent is None]
        for run in self.runs():
            if run.parent is None:
                held += run.inventory()
        for manager in self._managers:
            held += [Holding(found.kind, found.name, "") for found in manager.inventory() if not found.runs]
        with self._lock:
            return [*held, *self._disowned.values(), *self._unreleased]

    def look_after(self, supervisor: asyncio.Task[None]) -> None:
        """Keep a supervisor until it is done: its loop does not."""
        self._supervisors.add(supervisor)
        supervisor.add_done_callback(self._supervisors.discard)

    def forget(self, run: Run) -> None:
        """A run has ended."""
        with self._lock:
            self._runs.pop(run.id, None)

    def disown(self, run_id: str, name: str, thread: Future[Any]) -> None:
        """List a thread that did not stop in time, until it ends."""
        with self._lock:
            self._disowned[thread] = Holding("thread", name, run_id)
        thread.add_done_callback(self._reclaim)

    def _reclaim(self, thread: Future[Any]) -> None:
        with self._lock:
            self._disowned.pop(thread, None)

    def keep(self, holding: Holding) -> None:
        """List a lease that could not be released."""
        with self._lock:
            self._unreleased.append(holding)

    # -- ending ----------------------------------------------------------------------------------------------------

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Within the block the runtime is as new and open; afterwards it is as it was before."""
        before, self._closed = self._closed, False
        try:
            with self.event_bus.isolated():
                yield
        finally:
            self._closed = before

    async def aclose(self) -> None:
        """Cancel every run on this loop and elsewhere, wait until nothing is left, and refuse new ones. Twice is fine."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """`aclose` for code that is not async. Not in a loop that has runs: `await aclose()` there."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        running = asyncio._get_running_loop()
        runs = self.runs()
        if running is not None and any(run.loop is running for run in runs):
            self._closed = False
            raise SyncInAsyncError("close() would block the loop its runs live on; use `await aclose()`")
        for run in runs:
            run.depart("the runtime is closing")
        for run in runs:
            self._outlast(run)
        if self._managers:
            self.loop_thread.submit(release_everything(self._managers)).result()
        try:
            self.event_bus.shutdown()
        finally:  # also when a handler is stuck
            if self._own_store is not None:
                self._own_store.close()
            self.threads.stop()
            self.loop_thread.stop()

    def _outlast(self, run: Run) -> None:
        """Wait for the end of a run; end it from here if its own thread is stuck."""
        while not concurrent.futures.wait([run.ending.done], self.grace).done:
            if not run.ending.entered:
                with suppress(AlreadyFinishedError):  # it came to its door by itself just now
                    self.loop_thread.submit(finish(run)).result()
            elif run.loop is not None and not run.loop.is_running():
                return  # its loop went away, or was left, in the middle of the end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _check_process(self) -> None:
        if self._generation != Forks.generation:
            self._begin_process()


async def _patiently(run: Run) -> None:
    """Wait for a run's end although this task is being cancelled."""
    while not run.ending.done.done():
        try:
            await asyncio.wait({done_here(run.ending.done)})
        except asyncio.CancelledError:
            continue


_living: WeakSet[Runtime] = WeakSet()
_default: Runtime | None = None
_default_lock = threading.Lock()


def default_runtime() -> Runtime:
    """The runtime of this process that module-level calls use, made on first use."""
    global _default
    if _default is None:
        with _default_lock:
            if _default is None:
                _default = Runtime()
                atexit.register(_default.close)
    return _default


def current_runtime() -> Runtime:
    """The runtime of the run that this code belongs to; outside any run, the default one."""
    if current_run_id() is not None and (_default is None or _default.current_run() is None):
        for runtime in list(_living):
            if runtime.current_run() is not None:
                return runtime
    return default_runtime()
