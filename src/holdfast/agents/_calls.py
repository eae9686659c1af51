"""One call of a model inside a run: what it may cost, what it streams, what it used."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing

from holdfast.checkpoints import RunLog
from holdfast.errors import AnswerPendingError, ModelKeyMissingError, ModelStreamError
from holdfast.events.families.llm import LLMStreamChunkEvent, LLMStreamRestartedEvent, LLMThinkingChunkEvent
from holdfast.kickoff import check_budgets, count_usage
from holdfast.models import (
    Message,
    Model,
    ModelSettings,
    ProviderModel,
    Reply,
    RequestLimits,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
)
from holdfast.ports import HumanRequest
from holdfast.runs import Run

RESTARTS = 2
"""How often a model is asked again whose answer broke off half-way."""


class ModelCall:
    """Asks one model for one run."""

    def __init__(self, run: Run, model: Model, limits: RequestLimits | None) -> None:
        self._run = run
        self._model = model
        self._limits = limits
        self._opened = False

    async def ask(
        self, call_id: str, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> Reply:
        """The model's answer. Streams it if anybody looks.

        Raises BudgetExceededError, a ModelError, or, in a run that can be taken up again, AnswerPendingError if the key of
        the model is missing.
        """
        check_budgets(self._run)
        try:
            await self._keep_open()
        except ModelKeyMissingError as error:
            self._take_key(error)
            await self._keep_open()
        reply = await self._ask(call_id, messages, tools, settings)
        count_usage(self._run, reply.usage)
        return reply

    async def _keep_open(self) -> None:
        """Keep the model's connections until the run ends."""
        if not self._opened:
            stack = AsyncExitStack()
            await stack.enter_async_context(self._model.opened())
            self._run.hold("connection", self._model.name, stack.aclose)
            self._opened = True

    async def _ask(
        self, call_id: str, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> Reply:
        wants = self._run.host.event_bus.wants
        if not wants(LLMStreamChunkEvent) and not wants(LLMThinkingChunkEvent):
            return await self._model.request(messages, tools, settings, self._limits)
        restarts = 0
        while True:
            try:
                return await self._stream(call_id, messages, tools, settings)
            except ModelStreamError as error:
                restarts += 1
                if restarts > RESTARTS:
                    raise
                self._run.tell(LLMStreamRestartedEvent, call_id=call_id, error=str(error))

    async def _stream(
        self, call_id: str, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> Reply:
        reply: Reply | None = None
        run = self._run
        async with aclosing(self._model.stream(messages, tools, settings, self._limits)) as parts:
            async for part in parts:
                if isinstance(part, TextDelta):
                    run.tell(LLMStreamChunkEvent, call_id=call_id, chunk=part.text)
                elif isinstance(part, ThinkingDelta):
                    run.tell(LLMThinkingChunkEvent, call_id=call_id, chunk=part.text)
                elif isinstance(part, Reply):
                    reply = part
                    continue
                if run.outlet.crowding() is not None:
                    await run.room()
        assert reply is not None  # a stream that ends without one raises
        return reply

    def _take_key(self, error: ModelKeyMissingError) -> None:
        """Give the model the key that `resume()` brought. Raises AnswerPendingError if none came, where the run can wait."""
        journal = self._run.journal
        if not isinstance(journal, RunLog):
            raise error
        # of the tree, not of this run: one answer does for every agent that needs the same key
        request_id = f"{self._run.root_id} secret {error.variable or error.model}"
        key = journal.answers.get(request_id)
        if key is None or not isinstance(self._model, ProviderModel):
            request = HumanRequest(
                request_id, "secret", f"{error} (or give it to resume())", self._run.id, self._run.name
            )
            raise AnswerPendingError("a key is needed to go on", requests=(request,)) from error
        self._model.with_key(key)
