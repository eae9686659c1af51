"""pydantic-ai's answers in our words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from genai_prices import calc_price
from pydantic_ai import messages as theirs
from pydantic_core import to_jsonable_python

from holdfast.errors import ModelReplyError
from holdfast.models._calls import Reply, StreamPart, TextDelta, ThinkingDelta, ToolCallDelta
from holdfast.models._messages import AssistantMessage, AssistantPart, Text, Thought, ToolCall
from holdfast.models._usage import PriceTable, cost_of, find_price, priced
from holdfast.ports import Usage

_KEPT = ("id", "signature", "provider_name", "provider_details")
_ORIGIN = ("provider_name", "provider_url", "canonical_system", "provider_response_id", "model_name")


def our_reply(response: theirs.ModelResponse, model: str, prices: PriceTable) -> Reply:
    """Their response as ours. Raises ModelReplyError when it holds something we have no word for."""
    origin = {name: value for name in _ORIGIN if (value := getattr(response, name)) is not None}
    return Reply(
        AssistantMessage(tuple(_our_part(part, model) for part in response.parts), origin),
        _our_usage(response, model, prices),
        response.finish_reason or "unknown",
        response.model_name or model,
        response.provider_response_id or "",
    )


def _our_part(part: theirs.ModelResponsePart, model: str) -> AssistantPart:
    if isinstance(part, theirs.TextPart):
        return Text(part.content, _extra(part))
    if isinstance(part, theirs.ThinkingPart):
        return Thought(part.content, _extra(part))
    if isinstance(part, theirs.ToolCallPart):
        return ToolCall(part.tool_call_id, part.tool_name, _arguments(part.args) or "{}", _extra(part))
    raise ModelReplyError(
        f"{model} answered with a part of kind {part.part_kind!r}, which Holdfast cannot take; ask for text or tool calls",
        model=model,
    )


def _extra(part: Any) -> dict[str, Any]:
    found = {name: value for name in _KEPT if (value := getattr(part, name, None)) is not None}
    return to_jsonable_python(found) if "provider_details" in found else found


def _arguments(args: Any) -> str:
    if args is None or isinstance(args, str):
        return args or ""
    return msgspec.json.encode(args).decode()


def _our_usage(response: theirs.ModelResponse, model: str, prices: PriceTable) -> Usage:
    used = response.usage
    usage = Usage(1, used.input_tokens, used.output_tokens, used.cache_read_tokens)
    price = find_price(prices, model)
    return priced(usage, _known_cost(response) if price is None else cost_of(usage, price))


def _known_cost(response: theirs.ModelResponse) -> float | None:
    """The cost by the table that comes with pydantic-ai, for the providers' own addresses alone: elsewhere prices differ."""
    if not response.model_name or not response.provider_url:
        return None
    try:
        price = calc_price(response.usage, response.model_name, provider_api_url=response.provider_url)
    except (LookupError, ValueError):
        return None
    return float(price.total_price)


def says_why_it_stopped(response: theirs.ModelResponse) -> bool:
    """Whether the provider itself ended the answer. For some that break off in good order pydantic-ai makes up a reason."""
    if response.finish_reason in {"stop", "tool_call"} and response.canonical_system == "openai":
        return "finish_reason" in (response.provider_details or {})
    return response.finish_reason is not None


def our_parts(event: object) -> Iterator[StreamPart]:
    """The pieces in one event of their stream: mostly one, none for what is only bookkeeping."""
    if type(event) is theirs.PartDeltaEvent:
        reader = _DELTAS.get(type(event.delta))
        if reader is not None:
            yield from reader(event.delta, event.index)
    elif type(event) is theirs.PartStartEvent:
        part = event.part
        if isinstance(part, theirs.TextPart):
            yield from _text(part.content)
        elif isinstance(part, theirs.ThinkingPart):
            yield from _thinking(part.content)
        elif isinstance(part, theirs.ToolCallPart):
            yield ToolCallDelta(event.index, part.tool_call_id, part.tool_name, _arguments(part.args))


def _text(content: str | None) -> Iterator[StreamPart]:
    if content:
        yield TextDelta(content)


def _thinking(content: str | None) -> Iterator[StreamPart]:
    if content:
        yield ThinkingDelta(content)


def _call(delta: theirs.ToolCallPartDelta, index: int) -> Iterator[StreamPart]:
    name, arguments = delta.tool_name_delta or "", _arguments(delta.args_delta)
    if name or arguments:
        yield ToolCallDelta(index, delta.tool_call_id or "", name, arguments)


_DELTAS: dict[type, Callable[[Any, int], Iterator[StreamPart]]] = {
    theirs.TextPartDelta: lambda delta, index: _text(delta.content_delta),
    theirs.ThinkingPartDelta: lambda delta, index: _thinking(delta.content_delta),
    theirs.ToolCallPartDelta: _call,
}
