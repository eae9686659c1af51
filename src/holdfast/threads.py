"""The two kinds of thread a runtime may start, both only when first needed, both daemons.

`LoopThread` runs an event loop for async work that has no loop of its own. `ThreadPool` runs blocking steps: it grows
with demand instead of queueing, because a blocked step may be waiting for another step, and an idle thread leaves by
itself. Neither keeps an interpreter from exiting, so a step that never returns cannot hang the process.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVar

from holdfast.context import Forks

T = TypeVar("T")


def done_here(future: Future[Any]) -> asyncio.Future[None]:
    """A future of the running loop that is done when `future`, which any thread may set, is.

    Unlike `asyncio.wrap_future` it leaves the other alone when it is cancelled, carries neither result nor error, and costs no
    way through the loop's pipe when the other is set on this very loop.
    """
    here, wake = signal_here()
    future.add_done_callback(wake)
    return here


def signal_here() -> tuple[asyncio.Future[None], Callable[..., None]]:
    """A future of the running loop, and what sets it from any thread, however often, whatever it is called with."""
    loop = asyncio.get_running_loop()
    here: asyncio.Future[None] = loop.create_future()

    def notice() -> None:
        if not here.done():
            here.set_result(None)

    def wake(*_: object) -> None:
        if asyncio._get_running_loop() is loop:
            notice()
        else:
            with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(notice)

    return here, wake


class LoopThread:
    """An event loop in a thread of its own, started by the first call that needs it."""

    def __init__(self, name: str = "holdfast-loop") -> None:
        self._name = name
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._generation = Forks.generation

    @property
    def started(self) -> bool:
        return self._loop is not None and self._generation == Forks.generation

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, running. Starts the thread if there is none, also in a forked child; RuntimeError where none can be had."""
        if self._generation != Forks.generation:
            self._reset()
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._serve, args=(loop,), name=self._name, daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:
                    loop.close()
                    raise
                self._loop = loop
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def is_current(self) -> bool:
        """True when the calling thread is the loop's own."""
        return self.started and threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the loop and its thread. Stopping twice, or before starting, is fine; a later use starts it anew."""
        if not self.started:
            return
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _cancel_others(patience: float = 1.0) -> None:
    """Cancel what is left on the loop. What does not listen is left behind with the loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=patience)


class _Job:
    __slots__ = ("args", "call", "context", "future")

    def __init__(self, future: Future[Any], context: Context, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.future, self.context, self.call, self.args = future, context, call, args

    def run(self, before_telling: Callable[[], None]) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = self.context.run(self.call, *self.args)
        except StopIteration as raised:  # asyncio refuses to carry one
            error = RuntimeError("the call raised StopIteration").with_traceback(raised.__traceback__)
        except BaseException as raised:  # the caller's future carries it, whatever it is
            error = raised
        before_telling()
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class ThreadPool:
    """Threads for blocking calls: one for each call that runs, reused when idle, gone after `idle_seconds`."""

    def __init__(self, name: str = "holdfast-step", idle_seconds: float = 5.0) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._idle = 0
        """Threads that wait and for which no job is queued yet."""
        self._threads: set[threading.Thread] = set()
        self._number = 0
        self._stopping = False
        self._generation = Forks.generation

    def submit(self, context: Context, call: Callable[..., T], *args: Any) -> Future[T]:
        """Run `call(*args)` inside `context` on some thread. Never waits for a free one.

        Raises RuntimeError where the system has no thread for it; the call is not made then.
        """
        if self._generation != Forks.generation:
            self._reset()
        future: Future[T] = Future()
        job = _Job(future, context, call, args)
        with self._lock:
            self._stopping = False
            if self._idle:
                self._idle -= 1
            else:
                self._start_thread()  # first: if there is none, nothing may be left in the queue
            # never as a thread's argument: that would keep its first call alive as long as it lives
            self._jobs.put(job)
        return future

    def _start_thread(self) -> None:
        self._number += 1
        thread = threading.Thread(target=self._work, name=f"{self._name}-{self._number}", daemon=True)
        thread.start()
        self._threads.add(thread)  # it cannot have left: that takes the lock

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run(self._come_back)
            job = None  # a waiting thread must not keep its last call alive

    def _come_back(self) -> None:
        """Be free again, before anybody hears of the call's end: who then calls again, or stops the pool, finds this thread."""
        with self._lock:
            self._idle += 1
            if self._stopping:
                self._jobs.put(None)

    def _next(self) -> _Job | None:
        """The next call to make; None when this thread has nothing to do any more, and is off the list."""
        while (job := self._await_job()) is None:
            with self._lock:
                if self._idle:  # else there is a job on its way for everyone who waits
                    self._idle -= 1
                    self._threads.discard(threading.current_thread())
                    self._left.notify_all()
                    return None
        return job

    def _await_job(self) -> _Job | None:
        try:
            return self._jobs.get(timeout=self._idle_seconds)
        except queue.Empty:
            return None

    @property
    def thread_names(self) -> list[str]:
        """Names of the threads alive now, busy or idle."""
        with self._lock:
            return sorted(t.name for t in self._threads)

    def stop(self, timeout: float = 1.0) -> None:
        """Let idle threads go and wait for them; a busy one leaves when its call returns."""
        if self._generation != Forks.generation:
            return
        with self._lock:
            self._stopping = True
            for _ in range(self._idle):
                self._jobs.put(None)
            self._left.wait_for(lambda: not self._idle, timeout)
