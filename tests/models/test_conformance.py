"""One suite for all: without a network, and through each provider's protocol over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.models import ProviderModel, ScriptedModel
from holdfast.testing import Answer, Failure, ModelServer
from holdfast.testing.model_conformance import ModelConformance, Subject, as_lines


class TestScriptedModel(ModelConformance):
    @asynccontextmanager
    async def serving(self, script: Sequence[str | Answer | Failure], **options: Any) -> AsyncIterator[Subject]:
        model = ScriptedModel(as_lines(script), **options)
        yield Subject(model, lambda: model.count)


class TestOpenAI(ModelConformance):
    @asynccontextmanager
    async def serving(self, script: Sequence[str | Answer | Failure], **options: Any) -> AsyncIterator[Subject]:
        with ModelServer(script) as server:
            model = ProviderModel("openai:gpt-4o", base_url=server.openai_url, api_key="k", **options)
            yield Subject(model, lambda: len(server.requests))


class TestAnthropic(ModelConformance):
    @asynccontextmanager
    async def serving(self, script: Sequence[str | Answer | Failure], **options: Any) -> AsyncIterator[Subject]:
        with ModelServer(script) as server:
            model = ProviderModel("anthropic:claude-opus-5", base_url=server.url, api_key="k", **options)
            yield Subject(model, lambda: len(server.requests))
