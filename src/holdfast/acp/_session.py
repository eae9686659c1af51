"""`AgentSession`: a conversation of a run with an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from holdfast.acp._desk import Desk
from holdfast.acp._permissions import Permissions
from holdfast.acp._settings import SettingCall, mode_setting, model_setting
from holdfast.acp._telling import Telling
from holdfast.acp._turn import PromptResult, Turn
from holdfast.context import at, position
from holdfast.errors import AcpGoneError, AcpTimeoutError, RunEndedError, UsageError
from holdfast.events.families.agent import (
    AgentExecutionCancelledEvent,
    AgentExecutionCompletedEvent,
    AgentExecutionErrorEvent,
    AgentExecutionStartedEvent,
)
from holdfast.resources._loops import on_loop
from holdfast.runs import Run

Blocks = Sequence[dict[str, Any]]


class AgentSession:
    """A conversation with an agent. A lease opens it; it is closed with the lease, or by `aclose()` before.

    `id` is what `lease.reopen()` takes later, where the agent can reopen a session.
    """

    def __init__(self, desk: Desk, run: Run, permissions: Permissions, opened: dict[str, Any]) -> None:
        self.id = desk.session_id
        self.agent = desk.agent.name
        self._desk = desk
        self._run = run
        self._permissions = permissions
        self._opened = opened
        self._prompts = 0
        self._is_prompting = False

    def __repr__(self) -> str:
        return f"<AgentSession {self.id} of {self.agent}>"

    @property
    def is_open(self) -> bool:
        """Whether it can be prompted: it was not closed, and its agent lives."""
        return not (self._desk.is_left or self._desk.is_closed or self._desk.is_stuck)

    def move_to(self, run: Run) -> None:
        """Belong to another run, which holds the lease it was opened with by now."""
        self._run = run
        self._desk.move_to(run)

    # -- prompting -------------------------------------------------------------------------------------------------

    async def prompt(self, content: str | Blocks) -> PromptResult:
        """Send a prompt, text or content blocks of the protocol, and return what came of it. One at a time.

        What the agent does meanwhile is told as events of the run: text and thinking as chunks, tools, plans, questions; it waits
        while whoever reads the run's stream is behind. Cancelling the wait has the agent stop, and returns when it has, or after
        five seconds. Raises AcpGoneError if its process ends, AcpRequestError with its words if it refuses, AcpTimeoutError
        if it does not stop when `cancel()` told it to, and what asking a person raises.
        """
        self._check()
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        self._prompts += 1
        telling = Telling(self._run, self.id, f"{self.id}#{self._prompts}")
        here = position.get()
        place = here if here.run_id == self._run.id else self._run.place
        with self._alone(), at(place), self._told(blocks, telling):
            turn = Turn(self._desk, self._run, self._permissions, telling, self._prompts)
            result = await turn.take(blocks)
            telling.close(result.stop_reason)
            if result.stop_reason == "cancelled":
                self._run.tell(AgentExecutionCancelledEvent, reason="cancelled")
            else:
                used = {"usage": result.used.tokens(), "cost_usd": result.used.cost_usd} if result.usage else {}
                self._run.tell(AgentExecutionCompletedEvent, output=result.text, iterations=1, **used)
            return result

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._is_prompting:
            raise UsageError(f"session {self.id} is at work on a prompt; wait for it, or cancel it")
        self._is_prompting = True
        try:
            yield
        finally:
            self._is_prompting = False

    @contextmanager
    def _told(self, blocks: list[dict[str, Any]], telling: Telling) -> Iterator[None]:
        """Tell of the prompt, and of its end if that is not a good one."""
        run = self._run
        run.tell(AgentExecutionStartedEvent, task_prompt="\n".join(str(block.get("text", "")) for block in blocks))
        try:
            yield
        except asyncio.CancelledError:
            with suppress(RunEndedError):  # too late to tell
                telling.close("cancelled")
                run.tell(AgentExecutionCancelledEvent, reason=run.end_reason or "cancelled")
            raise
        except Exception as error:
            with suppress(RunEndedError):
                telling.close("failed")
                run.tell(AgentExecutionErrorEvent, error=str(error), error_type=type(error).__name__)
            raise

    async def cancel(self) -> None:
        """Tell the agent to stop what it does in this session. Its prompt then returns with the stop reason `cancelled`."""
        if not self._desk.is_left:
            await on_loop(self._desk.agent.loop, self._desk.stop())

    # -- settings --------------------------------------------------------------------------------------------------

    @property
    def modes(self) -> list[str]:
        """The ids of the modes it can be in."""
        return mode_setting(self._opened).values

    @property
    def models(self) -> list[str]:
        """The ids of the models it can use."""
        return model_setting(self._opened).values

    async def set_mode(self, mode: str) -> None:
        """Have the agent work in another mode. Raises AcpUnsupportedError, naming the modes, if it has no such mode."""
        await self._set(mode_setting(self._opened).call(mode, self.id, self.agent))

    async def set_model(self, model: str) -> None:
        """Have the agent use another model. Raises AcpUnsupportedError, naming the models, if it has no such model."""
        await self._set(model_setting(self._opened).call(model, self.id, self.agent))

    async def go_on_with(self, permissions: Permissions, model: str = "") -> None:
        """From the next prompt on have other permissions decide, and another model answer. Raises as `set_model` does."""
        permissions.check()
        self._permissions = permissions
        if model:
            await self.set_model(model)

    async def _set(self, call: SettingCall) -> None:
        self._check()
        agent = self._desk.agent
        await on_loop(agent.loop, agent.ask(call.method, call.params))

    # -- its end ---------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close it; the agent and its other sessions go on. Twice is fine."""
        if not self._desk.is_left and not self._desk.is_closed:
            agent = self._desk.agent
            await on_loop(agent.loop, agent.close(self._desk))

    def _check(self) -> None:
        if self._desk.is_left or self._desk.is_closed:
            raise AcpGoneError(f"session {self.id} of {self.agent} was closed; reopen it", agent=self.agent)
        if self._desk.is_stuck:
            raise AcpTimeoutError(
                f"session {self.id} of {self.agent} never stopped its last prompt; release the lease and reopen it",
                agent=self.agent,
            )
