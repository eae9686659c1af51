"""Steps in flight: each is one call that its run owns, on the loop or in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from holdfast.context import Position, is_async_callable, position
from holdfast.errors import RunEndedError
from holdfast.events._base import BaseEvent
from holdfast.events.families.step import (
    StepCancelledEvent,
    StepCompletedEvent,
    StepDisownedEvent,
    StepFailedEvent,
    StepStartedEvent,
)
from holdfast.threads import done_here

if TYPE_CHECKING:
    from holdfast.runs._run import Run


class Step:
    """A call in flight. Await it for its result; the run ends only when every one of its steps has.

    A step that raises fails its run, as in a task group, whether or not anybody awaits it.
    """

    _over: Future[Any] | None = None
    fails_run = True
    """Whether the run ends when the step raises or is cancelled."""

    def __init__(
        self, run: Run, name: str, call: Callable[..., Any], args: tuple[Any, ...], step_id: str | None = None
    ) -> None:
        self.id = step_id or run.host.new_id()
        self.name = name
        self.run = run
        self._call = call
        self._is_async = is_async_callable(call)
        self._args = args
        self._loop = run.loop or run.host.loop_thread.loop
        self._task: asyncio.Task[None] | None = None
        self._thread: Future[Any] | None = None
        self._context: Context | None = None
        self._cancelled = False

    @property
    def over(self) -> Future[Any]:
        """Set when the step has ended, or was given up: what came of it. Made when first asked for: most bodies do without."""
        made: Future[Any] = self._over or self.__dict__.setdefault("_over", Future())  # atomic: the first one counts
        return made

    def __await__(self) -> Generator[Any, None, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        if not self.over.done():
            await done_here(self.over)
        return self.over.result()

    def start(self, context: Context) -> None:
        """Begin, inside `context`. From any thread."""
        if asyncio._get_running_loop() is self._loop:
            self._begin(context)
        else:
            self._loop.call_soon_threadsafe(self._begin, context)

    def _begin(self, context: Context) -> None:
        if self._cancelled:  # before it began
            self._settle(error=asyncio.CancelledError())
            return
        if self._is_async or self.run.is_held_back:
            self._task = self._loop.create_task(self._work(), name=f"holdfast-{self.name}", context=context)
            self._task.add_done_callback(self._settle_unstarted)
        else:
            self._begin_in_thread(context)

    def _begin_in_thread(self, context: Context) -> None:
        """Make a blocking call in a thread. Nothing waits for it but a callback: a task would take three turns of the loop."""
        try:
            context.run(self._open)
        except Exception as error:
            context.run(self._end_with, error)
            return
        self._submit(context, context.copy(), self._call, *self._args)

    def _open(self) -> None:
        self._stand()
        self._say(StepStartedEvent)

    def _submit(self, context: Context, inside: Context, call: Callable[..., Any], *args: Any) -> None:
        """Make a call in a thread, inside one context; how it ended is told inside the other."""
        self._context = context
        try:
            self._thread = self.run.host.threads.submit(inside, call, *args)
        except RuntimeError as error:  # there is no thread for it
            context.run(self._end_with, error)
            return
        self._thread.add_done_callback(self._notice)

    def _notice(self, thread: Future[Any]) -> None:
        """The call has returned, in its thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._land, thread, context=self._context)

    def _land(self, thread: Future[Any]) -> None:
        error = (
            asyncio.CancelledError() if self._cancelled else thread.exception()
        )  # cancelled: it came too late to count
        if self.over.done():
            return  # given up
        if error is None:
            self._complete(thread.result())
        else:
            self._end_with(error)
            self._pass_on(error)

    def _settle_unstarted(self, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first turn never runs: say for it that it is over."""
        if task.cancelled():
            self._settle(error=asyncio.CancelledError())

    async def _work(self) -> None:
        try:
            self._stand()
            await self.run.gate()
            self._say(StepStartedEvent)
            result = await self._execute()
        except BaseException as error:
            self._end_with(error)
            self._pass_on(error)
        else:
            self._complete(result)

    def _stand(self) -> None:
        """Stand inside the step: what follows in this context is said and done by it."""
        here = position.get()
        position.set(Position(self.run.id, here.scope, here.subject, here.triggered_by, self.id, here.replaying))

    def _complete(self, result: Any) -> None:
        self._say(StepCompletedEvent)
        self._settle(result)

    def _end_with(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            self._say(StepCancelledEvent, reason=self.run.end_reason)
        elif isinstance(error, Exception):
            self._say(StepFailedEvent, error=str(error), error_type=type(error).__name__)
        self._settle(error=error)

    def _pass_on(self, error: BaseException) -> None:
        """KeyboardInterrupt, SystemExit: the program ends too. (Not on our own loop: there it would only end the thread.)"""
        fatal = not isinstance(error, Exception | asyncio.CancelledError)
        if fatal and not self.run.host.loop_thread.is_current():
            raise error

    async def _execute(self) -> Any:
        if self._is_async:
            return await self._call(*self._args)
        self._thread = self.run.host.threads.submit(
            copy_context(), self._call, *self._args
        )  # it was held back at first
        waiter = done_here(self._thread)
        while not waiter.done():
            try:
                await asyncio.wait({waiter})  # cancelling this wait leaves the waiter alone
            except asyncio.CancelledError:
                if self.over.done():  # given up
                    raise
                self._cancelled = True  # a thread cannot be stopped: wait for it; finish() gives it up in time
        if self._cancelled:  # its outcome came too late to count
            raise asyncio.CancelledError
        return self._thread.result()

    def _say(self, event_type: type[BaseEvent], **payload: Any) -> None:
        """Tell of the step, unless it was given up: its run may be gone."""
        if not self.over.done():
            self.run.tell(event_type, name=self.name, **payload)

    def _settle(self, result: Any = None, error: BaseException | None = None) -> None:
        """Give the result to whoever awaits it, and tell the run. Only the first call counts."""
        if self.over.done():
            return
        self.run.step_ended(self, result, error)
        if error is None:
            self.over.set_result(result)
        else:
            self.over.set_exception(error)

    def cancel(self) -> None:
        """Ask it to stop. From any thread."""
        self._cancelled = True
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())

    def disown(self) -> None:
        """Give it up: what it still does is refused, and its thread stays in the inventory until it ends."""
        self.run.outlet.refused.add(self.id)
        self._say(StepDisownedEvent, thread="a thread" if self._thread is not None else "")
        if self._thread is not None:
            self.run.host.disown(self.run.id, self.name, self._thread)
        self._settle(error=RunEndedError(f"step {self.name} did not stop in time and was given up"))
        if self._thread is not None:
            self.cancel()  # nobody waits for the thread any more


class QuietStep(Step):
    """A step that says nothing: others speak for it."""

    def _say(self, event_type: type[BaseEvent], **payload: Any) -> None:
        if event_type is StepDisownedEvent:
            super()._say(event_type, **payload)


class Body(QuietStep):
    """The run's own body. The run's events speak for it."""

    def __init__(self, run: Run, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__(run, run.name or getattr(call, "__name__", "body"), call, (run, *args))


class GraphStep(QuietStep):
    """A step of the run's graph. The scheduler tells of it, and decides what its failure means."""

    fails_run = False
