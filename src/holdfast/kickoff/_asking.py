"""Questions of one kickoff to people. What was answered before a crash is not asked again."""

from __future__ import annotations

import asyncio
import inspect
import math
from contextvars import copy_context
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.checkpoints import Progress, RunLog
from holdfast.context import Scope, at, is_async_callable, position
from holdfast.errors import AnswerPendingError, UsageError
from holdfast.events._base import BaseEvent
from holdfast.events.families.flow import FlowInputReceivedEvent, FlowInputRequestedEvent
from holdfast.events.families.human import (
    HumanFeedbackReceivedEvent,
    HumanFeedbackRequestedEvent,
    HumanRequestTimedOutEvent,
)
from holdfast.ports import HumanProvider, HumanRequest
from holdfast.runs import Run
from holdfast.threads import done_here


class Late(Struct, frozen=True):
    """Nobody answered in time."""


class Asking:
    """Asks for the steps of one run."""

    def __init__(self, run: Run, flow_name: str, recorded: Progress | None, log: RunLog | None) -> None:
        self._run = run
        self._flow_name = flow_name
        self._recorded = recorded
        self._log = log
        self._ordinals: dict[str, int] = {}

    def request(self, kind: Any, message: str, timeout: float | None, **more: Any) -> HumanRequest:
        """A question of the step that asks."""
        step = position.get().step_id or ""
        self._ordinals[step] = self._ordinals.get(step, 0) + 1
        if timeout is not None and not math.isfinite(timeout):
            raise UsageError(
                f"timeout={timeout!r} is no time to wait; give a number of seconds, or none to wait for ever"
            )
        expires = self.now_us() + round(timeout * 1_000_000) if timeout is not None else None
        return HumanRequest(
            f"{self._run.id} {step}/{self._ordinals[step]}",
            kind,
            message,
            self._run.id,
            self._flow_name,
            step.rpartition("#")[0],
            expires_us=expires,
            **more,
        )

    def now_us(self) -> int:
        return self._run.host.clock.time_ns() // 1000

    def ask(self, request: HumanRequest, provider: HumanProvider) -> str | None:
        """The answer, in a thread; None if none came in time. Raises AnswerPendingError if it will come later."""
        found, request = self._known(request)
        if found is None:
            if self._tell_asked(request) and self._log is not None:
                self._log.commit_now()
            found = self._run.host.loop_thread.submit(self._consult(request, provider)).result()
        if self._tell_answered(request, found) and self._log is not None:
            self._log.commit_now()  # whoever has answered is not asked again, whatever the step does now
        return None if isinstance(found, Late) else found

    async def aask(self, request: HumanRequest, provider: HumanProvider) -> str | None:
        """`ask` for coroutines."""
        found, request = self._known(request)
        if found is None:
            if self._tell_asked(request) and self._log is not None:
                await self._log.commit()
            found = await self._consult(request, provider)
        if self._tell_answered(request, found) and self._log is not None:
            await self._log.commit()
        return None if isinstance(found, Late) else found

    # -- what is known ---------------------------------------------------------------------------------------------

    def _known(self, request: HumanRequest) -> tuple[str | Late | None, HumanRequest]:
        """An answer that is there already, and the request as it was first made."""
        recorded = self._recorded
        if recorded is None:
            return None, request
        if request.id in recorded.answers:
            answer = recorded.answers[request.id]
            return (Late() if answer is None else answer), request
        if request.id in recorded.asked:
            request = replace(request, expires_us=recorded.asked[request.id].event.get("expires_us"))
        return self._log.answers.pop(request.id, None) if self._log is not None else None, request

    def _is_told(self, request: HumanRequest) -> bool:
        return self._recorded is not None and request.id in self._recorded.asked

    def _tell_asked(self, request: HumanRequest) -> bool:
        """Tell of a question, unless that was done before the run was put down. Says whether it was told now."""
        if self._is_told(request):
            return False
        about: dict[str, Any] = {
            "request_id": request.id,
            "flow_name": request.flow_name,
            "method_name": request.method_name,
            "message": request.message,
            "expires_us": request.expires_us,
        }
        if request.kind == "feedback":
            self._run.tell(HumanFeedbackRequestedEvent, **about, output=request.output, emit=list(request.options))
        else:
            self._run.tell(FlowInputRequestedEvent, **about, metadata=request.metadata)
        return True

    def _tell_answered(self, request: HumanRequest, answer: str | Late) -> bool:
        """Tell of an answer, unless that was done before the run was put down. Says whether it was told now."""
        recorded = self._recorded
        if recorded is not None and request.id in recorded.answers:
            return False
        here = position.get()
        if recorded is not None and (asked := recorded.asked.get(request.id)) is not None:  # its scope is still open
            here = replace(here, scope=Scope(asked.event_id, "human", here.scope))
        event_type, about = _answered(request, answer)
        with at(here):
            self._run.tell(event_type, request_id=request.id, **about)
            after = position.get()
        position.set(after)
        return True

    # -- asking ----------------------------------------------------------------------------------------------------

    async def _consult(self, request: HumanRequest, provider: HumanProvider) -> str | Late:
        """Let the provider ask, for as long as there is time."""
        clock = self._run.host.clock
        answer = asyncio.ensure_future(self._asked(request, provider))
        if request.expires_us is None:
            return await answer
        left = request.expires_us / 1_000_000 - clock.time_ns() / 1_000_000_000
        timer = asyncio.ensure_future(clock.sleep(max(0.0, left)))
        try:
            await asyncio.wait({answer, timer}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() or (left <= 0 and answer.exception() is not None):
                return Late()
            return answer.result()
        finally:
            answer.cancel()
            timer.cancel()

    async def _asked(self, request: HumanRequest, provider: HumanProvider) -> str:
        try:
            if is_async_callable(provider.request):
                given: Any = await provider.request(request)  # type: ignore[misc]
            else:
                thread = self._run.host.threads.submit(copy_context(), provider.request, request)
                await done_here(thread)
                given = thread.result()
            if inspect.isawaitable(given):
                given = await given
        except AnswerPendingError:
            raise AnswerPendingError(requests=(request,)) from None
        return str(given)


def _answered(request: HumanRequest, answer: str | Late) -> tuple[type[BaseEvent], dict[str, Any]]:
    """The event that tells of an answer."""
    if isinstance(answer, Late):
        return HumanRequestTimedOutEvent, {}
    about = {"flow_name": request.flow_name, "method_name": request.method_name}
    if request.kind == "feedback":
        return HumanFeedbackReceivedEvent, {**about, "feedback": answer}
    return FlowInputReceivedEvent, {
        **about, "message": request.message, "response": answer, "metadata": request.metadata,
    }  # fmt: skip
