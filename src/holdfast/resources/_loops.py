"""Work that belongs to one event loop, asked for from any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from holdfast.threads import done_here

T = TypeVar("T")


async def on_loop(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T],
    undo: Callable[[T], object] | None = None,
) -> T:
    """Carry out `work` on `loop` and return what it returns.

    Cancelling the wait cancels the work; if it was done all the same, `undo(result)` is called on that loop.
    """
    if asyncio.get_running_loop() is loop:
        return await work
    errand: _Errand[T] = _Errand(loop, work)
    try:
        await done_here(errand.outcome)
    except asyncio.CancelledError:
        errand.give_up(undo)
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

    def give_up(self, undo: Callable[[T], object] | None) -> None:
        self._loop.call_soon_threadsafe(self._give_up, undo)

    def _give_up(self, undo: Callable[[T], object] | None) -> None:
        if self._task is not None:
            self._task.cancel()
        if undo is not None:
            self.outcome.add_done_callback(lambda done: None if done.exception() else undo(done.result()))
