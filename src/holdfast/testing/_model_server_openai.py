"""Scripted answers in the words of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.testing._model_server_script import Answer, Failure, Received, Step, Thinking, ToolUse

PATHS = ("/v1/chat/completions", "/chat/completions")


def _base(request: Received, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{request.number}",
        "object": kind,
        "created": 1_700_000_000,
        "model": request.body.get("model", "scripted"),
    }


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }


def _finish(answer: Answer) -> str:
    calls = any(isinstance(part, ToolUse) for part in answer.parts)
    return answer.finish or ("tool_calls" if calls else "stop")


def _arguments(call: ToolUse) -> str:
    return call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()


def _call_id(call: ToolUse, request: Received, index: int) -> str:
    return call.id or f"call_{request.number}_{index}"


def whole(answer: Answer, request: Received) -> bytes:
    """The body of an answer that is not streamed."""
    calls = [part for part in answer.parts if isinstance(part, ToolUse)]
    texts = [part for part in answer.parts if isinstance(part, str)]
    thoughts = [part.text for part in answer.parts if isinstance(part, Thinking)]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) if texts else None}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = [
            {
                "id": _call_id(call, request, index),
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for index, call in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
    return msgspec.json.encode({**_base(request, "chat.completion"), "choices": [choice], "usage": _usage(answer)})


def frames(answer: Answer, request: Received) -> Iterator[Step]:
    """The frames of a streamed answer, with the waits and breaks between them."""
    base = _base(request, "chat.completion.chunk")

    def frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield frame({"role": "assistant", "content": ""})
    index = 0
    for part in answer.parts:
        if isinstance(part, str):
            yield frame({"content": part})
        elif isinstance(part, Thinking):
            yield frame({"reasoning_content": part.text})
        elif isinstance(part, ToolUse):
            for piece in _call_pieces(part, request, index):
                yield frame({"tool_calls": [piece]})
            index += 1
        else:
            yield part
    yield frame({}, _finish(answer))
    if request.body.get("stream_options", {}).get("include_usage"):
        yield _event({**base, "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def _call_pieces(call: ToolUse, request: Received, index: int) -> Iterator[dict[str, Any]]:
    """A call comes in three pieces: its name, and its arguments in two halves."""
    text = _arguments(call)
    function = {"name": call.name, "arguments": ""}
    yield {"index": index, "id": _call_id(call, request, index), "type": "function", "function": function}
    for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
        if piece:
            yield {"index": index, "function": {"arguments": piece}}


def failure(failed: Failure) -> bytes:
    """The body of an error."""
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    kind = kinds.get(failed.status, "invalid_request_error" if failed.status < 500 else "server_error")
    code: str | None = None
    message = failed.message
    if failed.code == "context_length":
        code = "context_length_exceeded"
        message = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    elif failed.status in {401, 429}:
        code = "invalid_api_key" if failed.status == 401 else "rate_limit_exceeded"
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
