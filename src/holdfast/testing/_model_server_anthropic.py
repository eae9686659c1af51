"""Scripted answers in the words of Anthropic's messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.testing._model_server_script import (
    Answer,
    Cut,
    Drop,
    Failure,
    Gate,
    Part,
    Received,
    Step,
    Thinking,
    ToolUse,
)

PATHS = ("/v1/messages",)
SIGNATURE = "c2lnbmVk"
"""Goes with every piece of thinking; a client must send it back."""


def _usage(answer: Answer) -> dict[str, int]:
    return {
        "input_tokens": answer.input_tokens - answer.cached_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": answer.output_tokens,
    }


def _finish(answer: Answer) -> str:
    if answer.finish:
        return {"stop": "end_turn", "length": "max_tokens"}[answer.finish]
    return "tool_use" if any(isinstance(part, ToolUse) for part in answer.parts) else "end_turn"


def _message(request: Received, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"msg_{request.number}",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", "scripted"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        **changes,
    }


def _blocks(answer: Answer) -> list[list[Part]]:
    """The parts, those of one block together: neighbouring texts are one block, as are neighbouring thoughts."""
    blocks: list[list[Part]] = []
    kind: type | None = None
    for part in answer.parts:
        if isinstance(part, Gate | Drop | Cut) and blocks:
            blocks[-1].append(part)
            continue
        if isinstance(part, ToolUse) or type(part) is not kind:
            blocks.append([])
        blocks[-1].append(part)
        kind = type(part)
    return blocks


def whole(answer: Answer, request: Received) -> bytes:
    """The body of an answer that is not streamed."""
    content = [_content(block, request, index) for index, block in enumerate(_blocks(answer))]
    kept = [block for block in content if block is not None]
    return msgspec.json.encode(
        _message(request, content=kept, stop_reason=_finish(answer), usage=_usage(answer)),
    )


def _content(block: list[Any], request: Received, index: int) -> dict[str, Any] | None:
    first = block[0]
    if isinstance(first, str):
        return {"type": "text", "text": "".join(part for part in block if isinstance(part, str))}
    if isinstance(first, Thinking):
        text = "".join(part.text for part in block if isinstance(part, Thinking))
        return {"type": "thinking", "thinking": text, "signature": SIGNATURE}
    if isinstance(first, ToolUse):
        return {**_call(first, request, index), "input": first.arguments}
    return None


def _call(call: ToolUse, request: Received, index: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id or f"toolu_{request.number}_{index}", "name": call.name, "input": {}}


def frames(answer: Answer, request: Received) -> Iterator[Step]:
    """The frames of a streamed answer, with the waits and breaks between them."""
    usage = _usage(answer) | {"output_tokens": 1}
    yield _event("message_start", message=_message(request, usage=usage))
    index = 0
    for number, block in enumerate(_blocks(answer)):
        if isinstance(block[0], Gate | Drop | Cut):
            yield from (part for part in block if isinstance(part, Gate | Drop | Cut))
            continue
        yield _event("content_block_start", index=index, content_block=_opening(block[0], request, number))
        for part in block:
            if isinstance(part, Gate | Drop | Cut):
                yield part
            else:
                yield from (_event("content_block_delta", index=index, delta=delta) for delta in _deltas(part))
        if isinstance(block[0], Thinking):
            signed = {"type": "signature_delta", "signature": SIGNATURE}
            yield _event("content_block_delta", index=index, delta=signed)
        yield _event("content_block_stop", index=index)
        index += 1
    delta = {"stop_reason": _finish(answer), "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": answer.output_tokens})
    yield _event("message_stop")


def _opening(part: str | Thinking | ToolUse, request: Received, index: int) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": ""}
    if isinstance(part, Thinking):
        return {"type": "thinking", "thinking": "", "signature": ""}
    return _call(part, request, index)


def _deltas(part: str | Thinking | ToolUse) -> Iterator[dict[str, Any]]:
    if isinstance(part, str):
        yield {"type": "text_delta", "text": part}
    elif isinstance(part, Thinking):
        yield {"type": "thinking_delta", "thinking": part.text}
    else:
        given = part.arguments
        text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
            yield {"type": "input_json_delta", "partial_json": piece}


def failure(failed: Failure) -> bytes:
    """The body of an error."""
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    kinds |= {500: "api_error", 503: "api_error", 529: "overloaded_error"}
    message = failed.message
    if failed.code == "context_length":
        message = "prompt is too long: 209000 tokens > 200000 maximum"
    error = {"type": kinds.get(failed.status, "invalid_request_error"), "message": message}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": "req_1"})


def _event(kind: str, **data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **data}))
