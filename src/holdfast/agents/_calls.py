"""One call of a model inside a run: what it may cost, what it streams, what it used."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing

from holdfast.errors import AnswerPendingError, ModelKeyMissingError, ModelStreamError
from holdfast.events.families.llm import LLMStreamChunkEvent, LLMStreamRestartedEvent, LLMThinkingChunkEvent
from holdfast.kickoff import check_budgets, count_usage
from holdfast.models import Message, Model, ModelSettings, ProviderModel, Reply, TextDelta, ThinkingDelta, ToolSpec
from holdfast.ports import HumanRequest
from holdfast.runs import Run

RESTARTS = 2
"""How often a model is asked again whose answer broke off half-way."""


class ModelCall:
    """Asks one model for one run."""

    def __init__(self, run: Run, model: Model) -> None:
        self._run = run
        self._model = model
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
            reply = await self._ask(call_id, messages, tools, settings)
        except ModelKeyMissingError as error:
            raise self._pending(error) from error
        count_usage(self._run, reply.usage)
        return reply

    async def _keep_open(self) -> None:
        """Keep the model's connections until the run ends."""
        if not self._opened:
            self._opened = True
            stack = AsyncExitStack()
            await stack.enter_async_context(self._model.opened())
            self._run.hold("connection", self._model.name, stack.aclose)

    async def _ask(
        self, call_id: str, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> Reply:
        wants = self._run.host.event_bus.wants
        if not wants(LLMStreamChunkEvent) and not wants(LLMThinkingChunkEvent):
            return await self._model.request(messages, tools, settings)
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
        async with aclosing(self._model.stream(messages, tools, settings)) as parts:
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

    def _pending(self, error: ModelKeyMissingError) -> Exception:
        """The missing key as a question, where the run can wait for the answer; else the error itself."""
        if self._run.journal is None:
            return error
        name = error.variable or f"key of {error.model}"
        message = f"{error} (or give it to resume())"
        request = HumanRequest(key_request(self._run, name), "secret", message, self._run.id, self._run.name)
        return AnswerPendingError("a key is needed to go on", requests=(request,))


def key_request(run: Run, name: str) -> str:
    """The id under which `resume()` brings a model's key."""
    return f"{run.id} secret {name}"


def with_given_key(run: Run, model: Model, answers: dict[str, str]) -> None:
    """Give a model the key that `resume()` brought, if it did."""
    if isinstance(model, ProviderModel):
        prefix = key_request(run, "")
        for request_id in [known for known in answers if known.startswith(prefix)]:
            model.with_key(answers.pop(request_id))
