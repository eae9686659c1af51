"""What a `ModelServer` is told to answer: text, thinking, tool calls, waits, broken connections, failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Literal, Protocol

from msgspec import Struct

from holdfast.threads import done_here


class Thinking(Struct, frozen=True):
    """A piece of the model's thinking."""

    text: str


class ToolUse(Struct, frozen=True):
    """A call the model asks for. Arguments given as text are sent as they are, broken or not."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""
    """Made up from the request's number when empty."""


class Drop(Struct, frozen=True):
    """The connection breaks here, in the middle of the answer."""


class Cut(Struct, frozen=True):
    """The streamed answer ends here, in good order but without its last frames, as behind a proxy that gave up."""


class Gate:
    """Where an answer stands still until a test lets it go on, instead of a sleep.

    It opens by `open()`, or by itself when `opens_at` answers have reached it: a barrier. Safe to use from any thread or loop.
    """

    def __init__(self, opens_at: int | None = None) -> None:
        self._opens_at = opens_at
        self._lock = threading.Lock()
        self._opened: Future[None] = Future()
        self._arrived = 0
        self._watchers: list[tuple[int, Future[None]]] = []

    def open(self) -> None:
        """Let everybody pass, now and later. Opening twice is fine."""
        with self._lock:
            if not self._opened.done():
                self._opened.set_result(None)

    def wait_until_reached(self, answers: int = 1, timeout: float | None = 30.0) -> None:
        """Block until that many answers have got here. Raises TimeoutError."""
        self._reached(answers).result(timeout)

    async def until_reached(self, answers: int = 1) -> None:
        """Wait until that many answers have got here."""
        await done_here(self._reached(answers))

    def _reached(self, answers: int) -> Future[None]:
        future: Future[None] = Future()
        with self._lock:
            self._watchers.append((answers, future))
        self._tell()
        return future

    def _tell(self) -> None:
        with self._lock:
            told = [future for wanted, future in self._watchers if wanted <= self._arrived]
            self._watchers = [(wanted, future) for wanted, future in self._watchers if wanted > self._arrived]
        for future in told:
            future.set_result(None)

    async def pass_through(self) -> None:
        """What the server does here: say that it has come, and wait."""
        with self._lock:
            self._arrived += 1
            barrier_is_full = self._opens_at is not None and self._arrived >= self._opens_at
        self._tell()
        if barrier_is_full:
            self.open()
        if not self._opened.done():
            await done_here(self._opened)


Part = str | Thinking | ToolUse | Gate | Drop | Cut


class Answer:
    """One answer: its parts in order. Each text part is streamed as a piece of its own; no parts is an empty answer.

    `Answer(Thinking("hm"), "It is ", gate, "four.")`, `Answer(ToolUse("add", {"a": 1}), ToolUse("add", {"a": 2}))`
    """

    def __init__(
        self,
        *parts: Part,
        input_tokens: int = 10,
        output_tokens: int = 5,
        cached_tokens: int = 0,
        finish: Literal["", "stop", "length"] = "",
    ) -> None:
        self.parts = parts
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.cached_tokens = cached_tokens
        self.finish = finish
        """Why the model stopped; found from the parts when empty."""


class Failure(Struct, frozen=True):
    """An error in the provider's own words: 429 with `retry_after`, 500, 401, or 400 with the code `context_length`."""

    status: int
    message: str = "scripted failure"
    retry_after: float | None = None
    code: Literal["", "context_length"] = ""
    gate: Gate | None = None


class Raw(Struct, frozen=True):
    """A body that is sent as it is, with status 200: broken JSON, or nothing."""

    body: bytes
    content_type: str = "application/json"


class Received(Struct, frozen=True):
    """A request as it came in."""

    number: int
    """1 for the first one."""
    protocol: str
    """`openai` or `anthropic`."""
    headers: dict[str, str]
    """Names in small letters."""
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages", []))

    @property
    def is_stream(self) -> bool:
        return bool(self.body.get("stream"))


Reaction = str | Thinking | ToolUse | Answer | Failure | Raw
"""What one request is answered with; a single part stands for an answer of that part."""
Script = Sequence[Reaction] | Callable[[Received], Reaction | Awaitable[Reaction]]


class ScriptReader:
    """Finds the answer to each request: the next of a list, or what a function says."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def react(self, request: Received) -> Answer | Failure | Raw:
        if callable(self._script):
            found = self._script(request)
            reaction = await found if asyncio.iscoroutine(found) or isinstance(found, Awaitable) else found
        elif request.number <= len(self._script):
            reaction = self._script[request.number - 1]
        else:
            reaction = Failure(400, f"the script has {len(self._script)} answers; this is request {request.number}")
        return Answer(reaction) if isinstance(reaction, str | Thinking | ToolUse) else reaction


Step = bytes | Gate | Drop | Cut
"""A frame to send, or something to do before the next."""


class Wire(Protocol):
    """A provider's way of saying things. Each is a module."""

    def whole(self, answer: Answer, request: Received) -> bytes:
        """The body of an answer that is not streamed."""
        ...

    def frames(self, answer: Answer, request: Received) -> Iterator[Step]:
        """The frames of a streamed answer, with the waits and breaks between them."""
        ...

    def failure(self, failed: Failure) -> bytes:
        """The body of an error."""
        ...
