"""`ScriptedModel`: a model without a network, for tests and for the demonstration."""

from __future__ import annotations

import inspect
import itertools
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from holdfast.errors import ModelError, ModelRequestError, NotStorableError, UsageError
from holdfast.models._calls import (
    ModelSettings,
    Reply,
    StreamPart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
)
from holdfast.models._messages import AssistantMessage, AssistantPart, Message, Text, Thought, ToolCall
from holdfast.models._model import Model
from holdfast.ports import Usage

Pause = Callable[[], Awaitable[None]]
Piece = str | Text | Thought | ToolCall | ModelError | Pause
Line = str | Reply | ToolCall | ModelError | Sequence[Piece]
"""One answer: text, a whole Reply, a tool call, an error to raise, or pieces in order.

Among pieces, an error breaks the answer there, and an async function without arguments is awaited there.
"""
LineFunction = Callable[[Sequence[Message], Sequence[ToolSpec], ModelSettings], Line | Awaitable[Line]]
Lines = Sequence[Line] | LineFunction

_WORDS = re.compile(r"\S+\s*|\s+")
FREE = Usage(requests=1)


class ScriptedModel(Model):
    """Answers from a list, one for each request in order, or from a function of `(messages, tools, settings)`.

    The same port as any other model: text is streamed in words, errors that are transient are tried again. It uses no
    tokens unless a Reply says so. A request beyond the end of the list is a ModelRequestError.
    """

    tag: ClassVar[str] = "scripted"

    def __init__(self, script: Lines, *, name: str = "scripted:model", **options: Any) -> None:
        if isinstance(script, str):  # of which every letter would be an answer
            raise UsageError(f"a script is a list of answers: ScriptedModel([{script!r}])")
        super().__init__(**options)
        self._name = name
        self._script = script
        self._lock = threading.Lock()
        self.count = 0
        """How many requests have come so far, those that failed included."""
        self._restored_at = 0

    @property
    def name(self) -> str:
        return self._name

    async def request_once(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> Reply:
        line = await self._next_line(messages, tools, settings)
        async for part in self._play(line):
            if isinstance(part, Reply):
                return part
        raise AssertionError("every line ends in a reply")

    async def stream_once(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], settings: ModelSettings
    ) -> AsyncGenerator[StreamPart, None]:
        line = await self._next_line(messages, tools, settings)
        async for part in self._play(line):
            yield part

    async def _next_line(self, *call: Any) -> Line:
        with self._lock:
            number = self.count
            self.count += 1
        if callable(self._script):
            found = self._script(*call)
            return await found if inspect.isawaitable(found) else found
        if number < len(self._script):
            return self._script[number]
        raise ModelRequestError(
            f"{self.name} has {len(self._script)} answers and this is request {number + 1}; give the script more",
            model=self.name,
        )

    async def _play(self, line: Line) -> AsyncGenerator[StreamPart, None]:
        if isinstance(line, Reply):
            for part in _deltas(line.message.parts):
                yield part
            yield line
            return
        said: list[AssistantPart] = []
        for piece in [line] if isinstance(line, str | ToolCall | ModelError) else line:
            if isinstance(piece, ModelError):
                raise piece
            if isinstance(piece, str | Text | Thought | ToolCall):
                whole = Text(piece) if isinstance(piece, str) else piece
                for delta in _deltas([whole], len(said)):
                    yield delta
                said.append(whole)
            else:
                await piece()
        message = AssistantMessage(tuple(_joined(said)))
        yield Reply(message, FREE, "tool_call" if message.tool_calls else "stop", self.name)

    def to_stored(self) -> dict[str, Any]:
        if callable(self._script):
            raise NotStorableError("$.script", "function", "script a model that is to be stored with a list")
        lines = [_stored_line(line, f"$.script[{index}]") for index, line in enumerate(self._script)]
        return {"type": self.tag, "name": self._name, "script": lines, "count": self.count}

    @classmethod
    def from_stored(cls, stored: dict[str, Any]) -> ScriptedModel:
        lines: list[Line] = [_restored_line(line) for line in stored["script"]]
        model = cls(lines, name=stored["name"])
        model.count = model._restored_at = stored["count"]
        return model

    def reach(self, requests: int) -> None:
        self.count = max(self.count, self._restored_at + requests)


def _deltas(parts: Sequence[AssistantPart], first: int = 0) -> Iterator[StreamPart]:
    for index, part in enumerate(parts, first):
        if isinstance(part, Text):
            yield from map(TextDelta, _WORDS.findall(part.text))
        elif isinstance(part, Thought):
            yield ThinkingDelta(part.text)
        else:
            yield ToolCallDelta(index, part.id, part.name)
            yield ToolCallDelta(index, arguments=part.arguments)


def _joined(parts: list[AssistantPart]) -> Iterator[AssistantPart]:
    """Neighbouring texts, and neighbouring thoughts, as one, the way a provider gives them."""
    for kind, group in itertools.groupby(parts, type):
        if kind is ToolCall:
            yield from group
        else:
            yield kind("".join(part.text for part in group if not isinstance(part, ToolCall)))


_StoredPiece = Text | Thought | ToolCall


def _stored_line(line: Line, path: str) -> Any:
    if isinstance(line, Reply):
        return {"reply": msgspec.to_builtins(line)}
    pieces: Sequence[Piece] = [line] if isinstance(line, str | ToolCall | ModelError) else line
    return {"pieces": [_stored_piece(piece, f"{path}[{index}]") for index, piece in enumerate(pieces)]}


def _stored_piece(piece: Piece, path: str) -> Any:
    if isinstance(piece, str):
        return msgspec.to_builtins(Text(piece))
    if isinstance(piece, Text | Thought | ToolCall):
        return msgspec.to_builtins(piece)
    raise NotStorableError(path, type(piece).__name__, "keep errors and pauses out of a script that is to be stored")


def _restored_line(stored: Any) -> Line:
    if "reply" in stored:
        return msgspec.convert(stored["reply"], Reply)
    return [msgspec.convert(piece, _StoredPiece) for piece in stored["pieces"]]
