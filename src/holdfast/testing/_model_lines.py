"""One script for both: what a `ModelServer` is told to answer, as lines for a `ScriptedModel`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import (
    ContextLengthError,
    ModelAuthError,
    ModelError,
    ModelRateLimitedError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
)
from holdfast.models._messages import Thought, ToolCall
from holdfast.models._scripted import Line, Piece
from holdfast.testing._model_server_script import Answer, Cut, Drop, Failure, Gate, Part, Thinking, ToolUse


def as_lines(script: Sequence[str | Answer | Failure]) -> list[Line]:
    """The same answers and failures, without a network."""
    return [_line(reaction, number) for number, reaction in enumerate(script, 1)]


def _line(reaction: str | Answer | Failure, number: int) -> Line:
    if isinstance(reaction, Failure):
        return _error(reaction)
    parts = (reaction,) if isinstance(reaction, str) else reaction.parts
    return [_piece(part, f"call_{number}_{index}") for index, part in enumerate(parts)]


def _piece(part: Part, call_id: str) -> Piece:
    if isinstance(part, Gate):
        return part.pass_through
    if isinstance(part, Thinking):
        return Thought(part.text)
    if isinstance(part, ToolUse):
        given = part.arguments
        arguments = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        return ToolCall(part.id or call_id, part.name, arguments)
    if isinstance(part, Drop):
        return ModelUnavailableError("the connection broke")
    if isinstance(part, Cut):
        return ModelStreamError("the answer ended too early")
    return part


def _error(failed: Failure) -> ModelError:
    if failed.code == "context_length":
        return ContextLengthError(failed.message, status=failed.status)
    kinds: dict[int, type[ModelError]] = {401: ModelAuthError, 403: ModelAuthError, 429: ModelRateLimitedError}
    kind = kinds.get(failed.status, ModelUnavailableError if failed.status >= 500 else ModelRequestError)
    return kind(failed.message, status=failed.status, retry_after=failed.retry_after)
