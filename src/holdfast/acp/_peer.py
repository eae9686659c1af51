"""`Peer`: JSON-RPC in both directions over lines. What comes in is taken in order, one message at a time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from holdfast.acp._lines import LINE_BYTES, LineSplitter, LongLine
from holdfast.errors import AcpError, AcpProtocolError, AcpRequestError
from holdfast.logs import get_logger

log = get_logger("acp")

AT_ONCE = 256
"""Requests of the other side that are worked on at once; more are refused."""
CANCEL_METHOD = "$/cancel_request"
INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL, CANCELLED = -32600, -32601, -32602, -32603, -32800
_FLAT = re.compile(rb"\s*\{[^{\[]*")
_ID = re.compile(rb'"id"\s*:\s*(\d+|"[^"]*")')

Reader = Callable[[], Awaitable[bytes]]
Writer = Callable[[bytes], Awaitable[None]]


class RefusedError(Exception):
    """What a handler raises to answer a request with an error of its choice."""

    def __init__(self, message: str, code: int = INVALID_PARAMS) -> None:
        self.code = code
        super().__init__(message)


class Answer(Struct, frozen=True):
    """What became of a request."""

    result: Any = None
    error: AcpError | None = None


OnAnswer = Callable[[Answer], None]


class Handler(Protocol):
    """Whoever is told what the other side sends."""

    def notified(self, method: str, params: Any, size: int) -> Awaitable[None] | None:
        """A notification of `size` bytes, in its turn. Nothing more is read until what this returns, if anything, is done."""
        ...

    async def asked(self, method: str, params: Any) -> Any:
        """Answer a request. Runs beside others. Raises RefusedError to answer with an error."""
        ...


class Peer:
    """One side of a connection. Belongs to one event loop; `serve()` runs until the other side is gone, then call `stop()`.

    Lines that are no message, replies to nothing and lines that are too long are passed over and counted.
    """

    def __init__(
        self, read: Reader, write: Writer, handler: Handler, lost: Callable[[], AcpError], limit: int = LINE_BYTES
    ) -> None:
        self._read = read
        self._write = write
        self._handler = handler
        self._lost = lost
        """Says why the connection is gone, once it is."""
        self._lines = LineSplitter(limit)
        self._limit = limit
        self._pending: dict[int, OnAnswer] = {}
        self._last_id = 0
        self._working: dict[int | str, asyncio.Task[None]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self.is_over = False
        self.garbage = 0
        """How many lines made no sense."""
        self.last_garbage = ""

    # -- sending ---------------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Any) -> Any:
        """Ask, and return the result. Raises AcpRequestError if the answer is an error. Cancelling it tells the other side."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        number = self.expect(lambda answer: None if answered.done() else answered.set_result(answer))
        try:
            await self.send(number, method, params)
            answer = await answered
        except asyncio.CancelledError:
            if self._pending.pop(number, None) is not None:
                self._send_soon(self.notify(CANCEL_METHOD, {"requestId": number}))
            raise
        if answer.error is not None:
            raise answer.error
        return answer.result

    def expect(self, on_answer: OnAnswer) -> int:
        """A number for a request. `on_answer` is called once, in the order in which things came in."""
        self._last_id += 1
        self._pending[self._last_id] = on_answer
        return self._last_id

    async def send(self, number: int, method: str, params: Any) -> None:
        """Send a request under a number that `expect` gave."""
        if self.is_over:
            self._settle(number, Answer(error=self._lost()))
        else:
            await self._write_message({"id": number, "method": method, "params": params})

    async def notify(self, method: str, params: Any) -> None:
        """Say something that wants no answer."""
        await self._write_message({"method": method, "params": params})

    async def _write_message(self, message: dict[str, Any]) -> None:
        try:
            await self._write(_encode({"jsonrpc": "2.0", **message}) + b"\n")
        except ConnectionError as error:  # the reader learns of the end by itself, and knows more of it
            log.debug("not sent: %s", error)

    def _send_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    # -- receiving -------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Take what comes until there is no more. `stop()` comes next."""
        while data := await self._read():
            for line in self._lines.feed(data):
                if (waiting := self._take(line)) is not None:
                    await waiting
                while len(self._sending) >= AT_ONCE:  # it does not read what it has us say
                    await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)

    async def stop(self) -> None:
        """Answer nothing more, and fail what still waits for an answer. Twice is fine."""
        self.is_over = True
        tasks = [*self._working.values(), *self._sending]
        for task in tasks:
            task.cancel()
        for number in list(self._pending):
            self._settle(number, Answer(error=self._lost()))
        if tasks:
            await asyncio.wait(tasks)

    def _take(self, line: bytes | LongLine) -> Awaitable[None] | None:
        if isinstance(line, LongLine):
            self._take_long(line)
            return None
        try:
            message = msgspec.json.decode(line)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            message = None
        if not isinstance(message, dict):
            self._pass_over(line)
        elif isinstance(message.get("method"), str):
            return self._take_call(message["method"], message, len(line))
        elif "id" in message and ("result" in message or "error" in message):
            self._take_answer(message)
        else:
            self._pass_over(line)
        return None

    def _take_call(self, method: str, message: dict[str, Any], size: int) -> Awaitable[None] | None:
        params: Any = message.get("params")
        number: Any = message.get("id")
        if type(number) in (int, str):
            return self._begin(number, method, params)
        if method == CANCEL_METHOD:
            self._stop_working(params)
            return None
        return self._handler.notified(method, params, size)

    def _stop_working(self, params: Any) -> None:
        number: Any = params.get("requestId") if isinstance(params, dict) else None
        task = self._working.get(number) if type(number) in (int, str) else None
        if task is not None:  # not before it has begun, or nobody would answer
            asyncio.get_running_loop().call_soon(task.cancel)

    def _take_answer(self, message: dict[str, Any]) -> None:
        error = message.get("error")
        if error is None:
            self._settle(message["id"], Answer(message.get("result")))
        else:
            told = error if isinstance(error, dict) else {"message": str(error)}
            code = told.get("code")
            made = AcpRequestError(
                str(told.get("message", "no reason given")),
                code=code if isinstance(code, int) else 0,
                data=told.get("data"),
            )
            self._settle(message["id"], Answer(error=made))

    def _settle(self, number: Any, answer: Answer) -> None:
        on_answer = self._pending.pop(number, None) if type(number) is int else None
        if on_answer is None:
            self._pass_over(f"a reply to {number!r}, which nobody asked".encode())
        else:
            on_answer(answer)

    def _take_long(self, line: LongLine) -> None:
        """Too long to keep. Whoever waits for it must not wait for ever."""
        self._pass_over(line.head)
        flat = _FLAT.match(line.head)
        found = _ID.search(flat[0]) if flat else None
        if flat is None or found is None:
            return
        number = msgspec.json.decode(found[1])
        why = f"a message of {line.length:,} bytes came, over the bound of {self._limit:,}"
        if b'"method"' in flat[0]:
            self._send_soon(self._refuse(number, RefusedError(why, INVALID_REQUEST)))
        else:
            self._settle(number, Answer(error=AcpProtocolError(f"{why}; ask for less at once")))

    def _pass_over(self, line: bytes) -> None:
        self.garbage += 1
        self.last_garbage = line[:200].decode(errors="replace")
        log.debug("passed over: %s", self.last_garbage)

    # -- answering -------------------------------------------------------------------------------------------------

    def _begin(self, number: int | str, method: str, params: Any) -> Awaitable[None] | None:
        """Start to work on a request. One too many is refused, and nothing more is read until that is sent."""
        if len(self._working) >= AT_ONCE or number in self._working:
            return self._refuse(number, RefusedError("too many requests at once", INTERNAL))
        task = asyncio.get_running_loop().create_task(self._answer(number, method, params))
        self._working[number] = task
        task.add_done_callback(lambda _: self._working.pop(number, None))
        return None

    async def _answer(self, number: int | str, method: str, params: Any) -> None:
        try:
            result = await self._handler.asked(method, params)
        except RefusedError as refusal:
            await self._refuse(number, refusal)
        except asyncio.CancelledError:
            if not self.is_over:
                self._send_soon(self._refuse(number, RefusedError("cancelled", CANCELLED)))
            raise
        except Exception as error:
            log.exception("%s broke", method)
            await self._refuse(number, RefusedError(f"{type(error).__name__}: {error}", INTERNAL))
        else:
            await self._write_message({"id": number, "result": result})

    async def _refuse(self, number: int | str, refusal: RefusedError) -> None:
        await self._write_message({"id": number, "error": {"code": refusal.code, "message": str(refusal)}})


def _encode(message: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:  # half a character, as models cut them: the rest of a prompt is worth sending
        return json.dumps(message, ensure_ascii=False).encode(errors="replace")
