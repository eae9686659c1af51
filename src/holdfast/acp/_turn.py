"""One prompt, from its sending to its stop, on the loop of the run."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from holdfast.acp._desk import WITHDRAWN, Ask, Broken, Desk, Done, Stop, Update
from holdfast.acp._peer import Answer
from holdfast.acp._permissions import Permissions, Question, decide
from holdfast.acp._telling import Telling, ToolUse
from holdfast.context import position
from holdfast.errors import AcpRequestError, AcpTimeoutError
from holdfast.logs import get_logger
from holdfast.ports import Usage
from holdfast.resources._loops import on_loop, surely
from holdfast.runs import Run
from holdfast.threads import done_here

log = get_logger("acp")

STOP_SECONDS = 5.0
"""How long an agent that was told to stop gets to say that it did."""


class PromptResult(Struct, frozen=True):
    """What came of a prompt."""

    text: str
    """what the agent answered"""
    stop_reason: str
    """`end_turn`, `max_tokens`, `max_turn_requests`, `refusal` or `cancelled`"""
    session_id: str
    usage: dict[str, Any] = {}
    """as far as the agent tells: `inputTokens`, `outputTokens`, `totalTokens`; `used` and `size` of its context; `cost`"""
    tools: tuple[ToolUse, ...] = ()
    plan: tuple[dict[str, Any], ...] = ()
    is_cut: bool = False
    """whether there was more text than is kept (16 MB)"""

    @property
    def used(self) -> Usage:
        """What it used, as one request, as far as the agent tells."""
        cost = self.usage.get("cost")
        amount = cost.get("amount") if isinstance(cost, dict) else cost
        priced = float(amount) if isinstance(amount, int | float) else None
        read, said = _whole(self.usage.get("inputTokens")), _whole(self.usage.get("outputTokens"))
        return Usage.of_event({"requests": 1, "input_tokens": read, "output_tokens": said}, priced)


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


class Turn:
    """Reads the inbox of a desk until the prompt is answered: tells of updates, has permissions decided."""

    def __init__(self, desk: Desk, run: Run, permissions: Permissions, telling: Telling, number: int) -> None:
        self._desk = desk
        self._run = run
        self._permissions = permissions
        self._telling = telling
        self._number = number
        self._asking: set[asyncio.Task[None]] = set()
        self._asks = 0
        self._told_to_stop = False

    async def take(self, prompt: list[dict[str, Any]]) -> PromptResult:
        """Send a prompt and see it through. Cancelled, or failing here, it has the agent stop first."""
        home = self._desk.agent.loop
        try:
            await on_loop(home, self._desk.begin(prompt))
            return self._result(await self._read())
        except BaseException:
            await surely(self._call_off())
            raise
        finally:
            for task in self._asking:
                task.cancel()
            if self._asking:
                await asyncio.wait(self._asking)
            if not self._desk.is_left:
                home.call_soon_threadsafe(self._desk.hush)

    async def _read(self) -> Answer:
        """Until the answer. Once it was told to stop, the agent has only so long."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                while not isinstance(item := await self._desk.inbox.get(), Done):
                    if isinstance(item, Stop):
                        self._told_to_stop = True
                        self._withdraw()
                        limit.reschedule(asyncio.get_running_loop().time() + STOP_SECONDS)
                    else:
                        await self._take(item)
                return item.answer
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise AcpTimeoutError(
                f"{self._desk.agent.name} did not stop within {STOP_SECONDS:g} s; release its lease to end it",
                agent=self._desk.agent.name,
            ) from error

    async def _take(self, item: Update | Ask | Broken) -> None:
        if isinstance(item, Update):
            await self._telling.take(item.data)
        elif isinstance(item, Ask):
            self._ask(item)
        else:
            raise item.error

    # -- permissions -----------------------------------------------------------------------------------------------

    def _ask(self, ask: Ask) -> None:
        """Have it decided beside what else comes: an agent may ask for several things at once."""
        self._asks += 1
        self._telling.take_question(ask.params["toolCall"])
        place = f"{self._run.id} {position.get().step_id or ''}"
        question = Question(
            f"{place}/permission/{self._number}.{self._asks}",
            self._desk.session_id,
            ask.params["toolCall"],
            ask.params["options"],
        )
        task = asyncio.create_task(self._decide(ask, question))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        done_here(ask.reply).add_done_callback(lambda _: task.cancel())  # nobody wants the answer any more

    async def _decide(self, ask: Ask, question: Question) -> None:
        try:
            option = await decide(question, self._permissions, self._run)
        except Exception as error:
            self._desk.inbox.put(Broken(error))
            return
        ask.answer({"outcome": {"outcome": "selected", "optionId": option}} if option is not None else WITHDRAWN)

    def _withdraw(self) -> None:
        for task in self._asking:
            task.cancel()
        self._desk.agent.loop.call_soon_threadsafe(self._desk.withdraw)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _result(self, answer: Answer) -> PromptResult:
        agent, telling = self._desk.agent, self._telling
        if isinstance(answer.error, AcpRequestError) and self._told_to_stop:  # some call their own stopping an error
            log.info("%s stopped as it was told to, with an error: %s", agent.name, answer.error)
            answer = Answer({"stopReason": "cancelled"})
        if isinstance(answer.error, AcpRequestError):
            raise agent.explained("session/prompt", answer.error) from answer.error
        if answer.error is not None:
            raise answer.error
        told = answer.result if isinstance(answer.result, dict) else {}
        usage = told.get("usage")
        return PromptResult(
            telling.text,
            str(told.get("stopReason", "end_turn")),
            self._desk.session_id,
            {**telling.usage, **(usage if isinstance(usage, dict) else {})},
            tuple(telling.tools.values()),
            tuple(telling.plan),
            telling.is_cut,
        )

    async def _call_off(self) -> None:
        """Have the agent stop, and wait until it has, but not for ever. Nothing of what it still tells is told on."""
        for task in self._asking:
            task.cancel()
        desk = self._desk
        if not desk.is_left and not await on_loop(desk.agent.loop, desk.call_off(STOP_SECONDS)):
            desk.is_stuck = True
            log.warning("%s did not stop session %s in time", desk.agent.name, desk.session_id)
