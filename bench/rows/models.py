"""What our model port costs over the libraries below it, on one loopback server in another process.

Processor time of the client alone, so that the server and other programs do not count; blocks in turns, medians.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from bench._harness import Row, compare
from holdfast.models import ProviderModel, ScriptedModel, UserMessage

CALLS = 50
CHUNKS = 1000
BLOCKS = 11
MAX_CALL_MS = 2.0
MAX_CHUNK_US = 30.0

SERVER = f"""
import sys
from holdfast.testing import Answer, ModelServer
with ModelServer(lambda request: Answer(*["word "] * {CHUNKS}) if request.is_stream else "word") as server:
    print(server.openai_url, flush=True)
    sys.stdin.read()
"""
Block = Callable[[], Awaitable[object]]


@contextmanager
def _served() -> Iterator[str]:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def _in_turns(blocks: dict[str, Block], units: int) -> dict[str, float]:
    """Seconds of processor time for one unit of each block: the median of many turns."""
    taken: dict[str, list[float]] = {name: [] for name in blocks}
    for _ in range(BLOCKS + 1):
        for name, block in blocks.items():
            before = time.process_time()
            await block()
            taken[name].append(time.process_time() - before)
    return {name: statistics.median(times[1:]) / units for name, times in taken.items()}


class _Clients:
    """The three ways to ask the same server."""

    def __init__(self, url: str) -> None:
        import openai
        from pydantic_ai.messages import ModelRequest, UserPromptPart
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        self.bare = openai.AsyncOpenAI(base_url=url, api_key="k")
        self.theirs = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=url, api_key="k"))
        self.ours = ProviderModel("openai:gpt-4o", base_url=url, api_key="k")
        self._their_call: Any = ([ModelRequest([UserPromptPart("hello")])], None, ModelRequestParameters())
        self._our_call = [UserMessage("hello")]
        self._bare_call: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}

    async def call_bare(self) -> None:
        for _ in range(CALLS):
            await self.bare.chat.completions.create(**self._bare_call)

    async def call_theirs(self) -> None:
        for _ in range(CALLS):
            await self.theirs.request(*self._their_call)

    async def call_ours(self) -> None:
        for _ in range(CALLS):
            await self.ours.request(self._our_call)

    async def stream_bare(self) -> None:
        async for _ in await self.bare.chat.completions.create(**self._bare_call, stream=True):
            pass

    async def stream_theirs(self) -> None:
        async with self.theirs.request_stream(*self._their_call) as stream:
            async for _ in stream:
                pass

    async def stream_ours(self) -> None:
        async for _ in self.ours.stream(self._our_call):
            pass


async def _measure(url: str) -> tuple[dict[str, float], dict[str, float]]:
    clients = _Clients(url)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(clients.bare)
        await stack.enter_async_context(clients.theirs)
        await stack.enter_async_context(clients.ours.opened())
        calls = await _in_turns(
            {"openai": clients.call_bare, "pydantic-ai": clients.call_theirs, "holdfast": clients.call_ours}, CALLS
        )
        chunks = await _in_turns(
            {"openai": clients.stream_bare, "pydantic-ai": clients.stream_theirs, "holdfast": clients.stream_ours},
            CHUNKS,
        )
    return calls, chunks


async def _measure_port() -> tuple[float, float]:
    """The port alone: a scripted model, asked and streamed."""
    ask = [UserMessage("hello")]
    model = ScriptedModel(lambda *call: "word")
    long = ScriptedModel(lambda *call: "word " * CHUNKS)

    async def call() -> None:
        for _ in range(CALLS):
            await model.request(ask)

    async def stream() -> None:
        async for _ in long.stream(ask):
            pass

    calls = await _in_turns({"port": call}, CALLS)
    chunks = await _in_turns({"port": stream}, CHUNKS)
    return calls["port"], chunks["port"]


def measure_models() -> list[Row]:
    """A call and a streamed chunk, over what the provider's library takes; then the port alone."""
    with _served() as url:
        calls, chunks = asyncio.run(_measure(url))
    port_call, port_chunk = asyncio.run(_measure_port())
    return [
        _over("model call over loopback HTTP", "ms", calls, 1e3, MAX_CALL_MS),
        _over("streamed chunk over loopback HTTP", "µs", chunks, 1e6, MAX_CHUNK_US),
        Row(
            "model call, the port alone",
            "ms",
            port_call * 1e3,
            target=f"≤ {MAX_CALL_MS:g}",
            ok=port_call * 1e3 <= MAX_CALL_MS,
        ),
        Row(
            "streamed chunk, the port alone",
            "µs",
            port_chunk * 1e6,
            target=f"≤ {MAX_CHUNK_US:g}",
            ok=port_chunk * 1e6 <= MAX_CHUNK_US,
        ),
    ]


def _over(name: str, unit: str, taken: dict[str, float], scale: float, most: float) -> Row:
    ours, theirs = taken["holdfast"] * scale, taken["pydantic-ai"] * scale
    return compare(
        name,
        unit,
        ours,
        better="lower",
        peers={"pydantic-ai": theirs},
        limit=taken["openai"] * scale,
        target=f"≤ pydantic-ai + {most:g} {unit}",
        ok=ours - theirs <= most,
    )


ROWS = {"models": measure_models}
