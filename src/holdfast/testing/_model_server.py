"""A model provider on loopback: real HTTP, scripted answers."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.errors import UsageError
from holdfast.testing import _model_server_anthropic as anthropic
from holdfast.testing import _model_server_openai as openai
from holdfast.testing._model_server_http import STREAM_HEAD, HttpRequest, chunk, read_request, whole_response
from holdfast.testing._model_server_script import (
    Answer,
    Cut,
    Drop,
    Failure,
    Gate,
    Raw,
    Received,
    Script,
    ScriptReader,
    Wire,
)
from holdfast.threads import LoopThread

_WIRES: dict[str, tuple[str, Wire]] = {
    **dict.fromkeys(openai.PATHS, ("openai", openai)),
    **dict.fromkeys(anthropic.PATHS, ("anthropic", anthropic)),
}


class ModelServer:
    """Answers OpenAI chat completions and Anthropic messages from a script, streamed or not, over real HTTP.

    A script is a list of answers, one for each request in the order they come, or a function of the request. It runs in a
    thread of its own, so clients may block or await as they like. Use it with `with` or `async with`; afterwards nothing of
    it is left. A request beyond the end of a list is answered with status 400.
    """

    def __init__(self, script: Script = (), *, port: int = 0) -> None:
        self._script = ScriptReader(script)
        self._port = port
        self._thread = LoopThread("holdfast-model-server")
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.requests: list[Received] = []
        """Every request so far, in the order they came."""
        self.active = 0
        """How many are being answered now."""
        self.peak_active = 0
        """How many were being answered at once, at most."""

    @property
    def url(self) -> str:
        """Where it listens: the base URL for Anthropic's client."""
        if self._server is None:
            raise UsageError("the model server is not running; use it as `with ModelServer(script) as server:`")
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    @property
    def openai_url(self) -> str:
        """The base URL for OpenAI's client."""
        return f"{self.url}/v1"

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listen. `with` calls this."""
        if self._server is None:
            self._thread.submit(self._listen()).result()
        return self

    def close(self) -> None:
        """Break every connection and end the thread. Closing twice, or before starting, is fine."""
        if self._server is not None:
            self._thread.submit(self._shut()).result()
        self._thread.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, backlog=2048, limit=1024 * 1024)

    async def _shut(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await server.wait_closed()

    # -- one connection --------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: Any = asyncio.current_task()
        self._connections.add(task)
        try:
            while (request := await read_request(reader)) is not None:
                if not await self._answer(request, writer):
                    break
        except (asyncio.CancelledError, ConnectionError):
            writer.transport.abort()  # closed by us, or the client left in the middle: nothing to say to it
        finally:
            self._connections.discard(task)
            await _close(writer)

    async def _answer(self, request: HttpRequest, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection is over."""
        if request.path not in _WIRES or request.method != "POST":
            body = b'{"error": {"message": "no such path", "type": "invalid_request_error"}}'
            return await _send(writer, whole_response(404, body, "application/json", {}))
        name, wire = _WIRES[request.path]
        received = Received(len(self.requests) + 1, name, request.headers, msgspec.json.decode(request.body))
        self.requests.append(received)
        self.active += 1
        self.peak_active = max(self.peak_active, self.active)
        try:
            return await self._react(received, wire, writer)
        finally:
            self.active -= 1

    async def _react(self, request: Received, wire: Wire, writer: asyncio.StreamWriter) -> bool:
        reaction = await self._script.react(request)
        if isinstance(reaction, Raw):
            return await _send(writer, whole_response(200, reaction.body, reaction.content_type, {}))
        if isinstance(reaction, Failure):
            return await _fail(writer, reaction, wire)
        if request.is_stream:
            return await _stream(writer, reaction, request, wire)
        return await _send_whole(writer, reaction, request, wire)


async def _fail(writer: asyncio.StreamWriter, failed: Failure, wire: Wire) -> bool:
    if failed.gate is not None:
        await failed.gate.pass_through()
    extra = {} if failed.retry_after is None else {"retry-after": f"{failed.retry_after:g}"}
    body = wire.failure(failed)
    return await _send(writer, whole_response(failed.status, body, "application/json", extra))


async def _send_whole(writer: asyncio.StreamWriter, answer: Answer, request: Received, wire: Wire) -> bool:
    body = wire.whole(answer, request)
    response = whole_response(200, body, "application/json", {})
    for part in answer.parts:
        if isinstance(part, Gate):
            await part.pass_through()
        elif isinstance(part, Drop):
            await _send(writer, response[: len(response) - len(body) // 2])
            return False
    return await _send(writer, response)


async def _stream(writer: asyncio.StreamWriter, answer: Answer, request: Received, wire: Wire) -> bool:
    await _send(writer, STREAM_HEAD)
    for step in wire.frames(answer, request):
        if isinstance(step, Gate):
            await step.pass_through()
        elif isinstance(step, Drop):
            return False
        elif isinstance(step, Cut):
            break
        else:
            await _send(writer, chunk(step))
            await asyncio.sleep(0)  # the streams of others go on in between
    return await _send(writer, chunk(b""))


async def _send(writer: asyncio.StreamWriter, data: bytes) -> bool:
    writer.write(data)
    await writer.drain()
    return True


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except ConnectionError:
        writer.transport.abort()
