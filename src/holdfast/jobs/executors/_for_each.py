"""`for_each:`: a flow for every item of a list, several at a time; the results in the items' order."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from holdfast.errors import AnswerPendingError, JobStepError
from holdfast.events.families.for_each import (
    ForEachItemCompletedEvent,
    ForEachItemFailedEvent,
)
from holdfast.flowfiles import ForEach
from holdfast.jobs._alarm import Alarm, first_due
from holdfast.jobs._calls import Call
from holdfast.jobs._scope import Wait
from holdfast.jobs.executors._children import forget_inside, run_inside

PARALLEL = 16
"""How many items are worked on at once where a flow does not say."""


class Missed(Struct, frozen=True):
    """An item that failed."""

    error: JobStepError

    def outputs(self) -> dict[str, Any]:
        return {"_error": {"message": str(self.error), "category": self.error.category}}


async def run_for_each(call: Call) -> Any:
    """`{"results": [...]}`. Raises JobStepError for the first item that fails, or if every one does; AnswerPendingError when all
    that is left waits."""
    results = await _Items(call).all()
    failed = [one for one in results if isinstance(one, Missed)]
    if failed and len(failed) == len(results):
        raise JobStepError(
            f"all {len(failed)} items failed, the first: {failed[0].error}", category=failed[0].error.category
        )
    forget_inside(call)
    return {"results": [one.outputs() if isinstance(one, Missed) else one for one in results]}


class _Items:
    """The items of one step, on their way."""

    def __init__(self, call: Call) -> None:
        executor = call.executor
        assert isinstance(executor, ForEach)
        self._call, self._executor = call, executor
        self._left = list(reversed(range(len(call.items))))
        self._working: dict[asyncio.Task[Any], int] = {}
        self._waiting: dict[int, Wait] = {}
        self._results: dict[int, Any] = {}
        self._alarm = Alarm(call.clock)

    async def all(self) -> list[Any]:
        try:
            while self._left or self._working:
                self._start()
                await self._next()
            if self._waiting:
                raise AnswerPendingError(
                    requests=(_together([self._waiting[index] for index in sorted(self._waiting)]),)
                )
            return [self._results[index] for index in range(len(self._call.items))]
        finally:
            for wait in self._waiting.values():
                self._show(wait, shown=False)
            self._alarm.stop()
            await self._stop()

    def _start(self) -> None:
        most = self._executor.max_parallel or PARALLEL
        while self._left and len(self._working) < most:
            index = self._left.pop()
            self._working[asyncio.ensure_future(self._work(index))] = index

    async def _work(self, index: int) -> Any:
        given = {**self._call.inputs, self._executor.item_name: self._call.items[index]}
        return await run_inside(self._call, self._executor.flow, given, str(index))

    async def _next(self) -> None:
        callers = [self._call.scope.shared.knocked(), *self._alarm.rings(first_due(self._waiting.values()))]
        done, _ = await asyncio.wait({*self._working, *callers}, return_when=asyncio.FIRST_COMPLETED)
        for task in [task for task in self._working if task in done]:
            self._take(task, self._working.pop(task))
        for index in [index for index in self._results if self._is_passed(index)]:
            del self._results[index]
            self._left.append(index)
        now = self._call.now_us
        for index, wait in list(self._waiting.items()):
            if wait.is_due(now) or self._call.scope.shared.frees(wait):
                self._show(self._waiting.pop(index), shown=False)
                self._left.append(index)

    def _is_passed(self, index: int) -> bool:
        """Whether a step of an item that is done is to run again."""
        shared = self._call.scope.shared
        return bool(shared.passed) and shared.is_passed(f"{self._call.scope.step_path(self._call.step.name)}/{index}")

    def _take(self, task: asyncio.Task[Any], index: int) -> None:
        about = {"step": self._call.step.name, "index": index}
        try:
            self._results[index] = task.result()
            self._call.run.tell(ForEachItemCompletedEvent, **about)
        except AnswerPendingError as pending:
            wait: Any = pending.requests[0]
            self._waiting[index] = wait
            self._show(wait, shown=True)
        except JobStepError as error:
            self._call.run.tell(ForEachItemFailedEvent, **about, error=str(error), error_type=type(error).__name__)
            if self._executor.on_error == "fail_fast":
                raise JobStepError(f"item {index}: {error}", category=error.category) from error
            self._results[index] = Missed(error)

    def _show(self, wait: Wait, *, shown: bool) -> None:
        """While other items are worked on, those that wait are asked for too."""
        asks = self._call.scope.shared.open_asks
        for ask in wait.asks:
            if shown:
                asks[ask.id] = ask
            else:
                asks.pop(ask.id, None)
        self._call.scope.shared.knock()

    async def _stop(self) -> None:
        for task in self._working:
            task.cancel()
        while pending := {task for task in self._working if not task.done()}:
            await asyncio.wait(pending)
        for task in self._working:
            if not task.cancelled():
                task.exception()


def _together(waits: list[Wait]) -> Wait:
    """What several wait for, as one."""
    asks = tuple(ask for wait in waits for ask in wait.asks)
    return Wait(asks, first_due(waits), next((wait.held for wait in waits if wait.held), ""))
