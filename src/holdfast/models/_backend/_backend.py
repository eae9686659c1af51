"""Calls through pydantic-ai, on one event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings as TheirSettings

from holdfast.errors import ModelStreamError
from holdfast.models._backend._connect import connect
from holdfast.models._backend._failures import CAUGHT, cause_of, translate
from holdfast.models._backend._incoming import our_parts, our_reply, says_why_it_stopped
from holdfast.models._backend._outgoing import has_late_instructions, their_messages, their_parameters, their_settings
from holdfast.models._calls import ModelSettings, Reply, StreamPart, ToolSpec
from holdfast.models._messages import Message
from holdfast.models._provider import Target

Prepared = tuple[list[Any], TheirSettings | None, ModelRequestParameters]


class Backend:
    """One model of pydantic-ai with its connections. Used and closed on the loop it was made on."""

    def __init__(self, target: Target) -> None:
        self._name = target.name
        self._key = target.api_key
        self._prices = target.prices
        self._model, self._client = connect(target)
        self._can_follow_schema = bool(self._model.profile.get("supports_json_schema_output"))

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
        elif (provider := self._model.provider) is not None:
            async with provider:  # leaving it closes the client it made for itself
                pass

    async def request(self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings) -> Reply:
        try:
            response = await self._model.request(*self._prepare(messages, tools, settings))
        except CAUGHT as error:
            raise translate(error, self._name, self._key) from cause_of(error, self._key)
        return our_reply(response, self._name, self._prices)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[StreamPart, None]:
        try:
            async with self._model.request_stream(*self._prepare(messages, tools, settings)) as stream:
                async for event in stream:
                    for part in our_parts(event):
                        yield part
                response = stream.get()
        except CAUGHT as error:
            raise translate(error, self._name, self._key) from cause_of(error, self._key)
        if not says_why_it_stopped(response):
            raise ModelStreamError(
                f"the answer of {self._name} ended without saying why it stopped; nothing of it counts, ask again",
                model=self._name,
            )
        yield our_reply(response, self._name, self._prices)

    def _prepare(self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings) -> Prepared:
        parameters = their_parameters(tools, settings, self._can_follow_schema)
        prepared = their_messages(messages)
        if has_late_instructions(messages):  # not always: it adds a paragraph of its own to the first ones
            prepared = self._model.prepare_messages(prepared, parameters)
        return prepared, their_settings(settings), parameters
