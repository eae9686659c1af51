"""Work that belongs to one event loop, asked for from any other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from holdfast.threads import done_here

T = TypeVar("T")

GIVE_UP_SECONDS = 10.0
"""How long work that is cancelled gets to clean up after itself."""


async def on_loop(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T],
    undo: Callable[[T], Coroutine[Any, Any, object]] | None = None,
) -> T:
    """Carry out `work` on `loop` and return what it returns.

    Cancelling the wait cancels the work and waits until it has cleaned up; if it was done all the same, it is undone.
    """
    if asyncio.get_running_loop() is loop:
        return await work
    errand: _Errand[T] = _Errand(loop, work)
    try:
        await done_here(errand.outcome)
    except asyncio.CancelledError:
        await surely(errand.call_off(undo))
        raise
    return errand.outcome.result()


class _Errand(Generic[T]):
    """A task on another loop, and its outcome as any thread may wait for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self.outcome: Future[T] = Future()
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())

    async def call_off(self, undo: Callable[[T], Coroutine[Any, Any, object]] | None) -> None:
        self._loop.call_soon_threadsafe(self._cancel)
        await asyncio.wait({done_here(self.outcome)}, timeout=GIVE_UP_SECONDS)
        if undo is not None and self.outcome.done() and self.outcome.exception() is None:
            await on_loop(self._loop, undo(self.outcome.result()))

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def surely(work: Awaitable[Any]) -> None:
    """Wait for work to be done although this task is being cancelled. Raises what it raises."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue
    task.result()
