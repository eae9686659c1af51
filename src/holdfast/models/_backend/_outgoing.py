"""Our messages, tools and settings in pydantic-ai's words."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai import messages as theirs
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings as TheirSettings
from pydantic_ai.tools import ToolDefinition

from holdfast.models._calls import ModelSettings, ToolSpec
from holdfast.models._messages import (
    AssistantMessage,
    AssistantPart,
    Image,
    Message,
    SystemMessage,
    Text,
    Thought,
    UserMessage,
)


def their_messages(messages: Sequence[Message]) -> list[theirs.ModelMessage]:
    """Neighbouring messages that are not the model's make up one request of theirs."""
    found: list[theirs.ModelMessage] = []
    for is_answer, group in itertools.groupby(messages, lambda message: isinstance(message, AssistantMessage)):
        if is_answer:
            found += [_their_answer(message) for message in group if isinstance(message, AssistantMessage)]
        else:
            found.append(theirs.ModelRequest([_their_part(message) for message in group]))
    return found


def has_late_instructions(messages: Sequence[Message]) -> bool:
    """Whether a system message comes after others, which some providers have no place for."""
    kinds = [isinstance(message, SystemMessage) for message in messages]
    return True in kinds[kinds.index(False) :] if False in kinds else False


def _their_part(message: Message) -> theirs.ModelRequestPart:
    if isinstance(message, SystemMessage):
        return theirs.SystemPromptPart(message.text)
    if isinstance(message, UserMessage):
        content = message.content
        return theirs.UserPromptPart(content if isinstance(content, str) else list(map(_their_content, content)))
    assert not isinstance(message, AssistantMessage)
    outcome: Any = "failed" if message.is_error else "success"
    return theirs.ToolReturnPart(message.name, message.text, message.call_id, outcome=outcome)


def _their_content(part: Text | Image) -> theirs.UserContent:
    if isinstance(part, Text):
        return part.text
    if part.url:
        return theirs.ImageUrl(url=part.url)
    return theirs.BinaryContent(part.data, media_type=part.media_type)


def _their_answer(message: AssistantMessage) -> theirs.ModelResponse:
    return theirs.ModelResponse([_their_answer_part(part) for part in message.parts], **message.origin)


def _their_answer_part(part: AssistantPart) -> theirs.ModelResponsePart:
    if isinstance(part, Text):
        return theirs.TextPart(part.text, **part.extra)
    if isinstance(part, Thought):
        return theirs.ThinkingPart(part.text, **part.extra)
    return theirs.ToolCallPart(part.name, part.arguments, part.id, **part.extra)


def their_parameters(
    tools: Sequence[ToolSpec], settings: ModelSettings, can_follow_schema: bool
) -> ModelRequestParameters:
    """The tools, and the form of the answer. A model that cannot be held to a schema is told of it in words."""
    specs = [
        ToolDefinition(name=tool.name, parameters_json_schema=tool.parameters, description=tool.description or None)
        for tool in tools
    ]
    if settings.output_schema is None:
        return ModelRequestParameters(function_tools=specs)
    return ModelRequestParameters(
        function_tools=specs,
        output_mode="native" if can_follow_schema else "prompted",
        output_object=OutputObjectDefinition(settings.output_schema, name=settings.output_name),
    )


_SAME_NAME = ("temperature", "top_p", "max_tokens", "seed", "timeout", "thinking", "parallel_tool_calls")


def their_settings(settings: ModelSettings) -> TheirSettings | None:
    return TheirSettings(**dict(_their_settings(settings))) or None  # type: ignore[typeddict-item]


def _their_settings(settings: ModelSettings) -> Iterator[tuple[str, Any]]:
    for name in _SAME_NAME:
        if (value := getattr(settings, name)) is not None:
            yield name, value
    if settings.stop:
        yield "stop_sequences", list(settings.stop)
    if settings.tool_choice is not None:
        choice = settings.tool_choice
        yield "tool_choice", choice if isinstance(choice, str) else list(choice)
    if settings.extra_body:
        yield "extra_body", settings.extra_body
