"""What a streamed chunk costs from the step that emits it to the reader that has it."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from bench._harness import Row, best_of, compare
from holdfast import Flow, RunStream, Runtime, start
from holdfast.events import LLMStreamChunkEvent

CHUNKS = 20_000
STREAMS = 200
ROUNDS = 5
TARGET_US = 30


class Talk(Flow[Any]):
    """Streams as a model does: one chunk, then a turn of the loop."""

    def __init__(self, runtime: Runtime, chunks: int) -> None:
        super().__init__(runtime=runtime)
        self.bus = runtime.event_bus
        self.chunks = chunks

    @start()
    async def talk(self) -> None:
        for number in range(self.chunks):
            self.bus.emit(self, LLMStreamChunkEvent(chunk=str(number)))
            await asyncio.sleep(0)


async def _read(stream: RunStream) -> int:
    return len([None async for frame in stream if frame.channel == "text"])


async def _streams(runtime: Runtime, streams: int, chunks: int) -> None:
    started = [await Talk(runtime, chunks).akickoff(stream=True) for _ in range(streams)]
    read = await asyncio.gather(*map(_read, started))
    if read != [chunks] * streams:
        raise AssertionError("chunks were lost")


def _microseconds(streams: int, chunks: int) -> float:
    """Per chunk, all in one loop: emit, the way through the bus, the frame, the reader's turn of the loop."""
    with Runtime() as runtime:
        began = time.process_time()  # one loop that never waits: what other programs do meanwhile does not count
        asyncio.run(_streams(runtime, streams, chunks))
        return (time.process_time() - began) / (streams * chunks) * 1e6


def measure_streams() -> list[Row]:
    """One stream, and two hundred at once."""
    cases = [("one stream", 1, CHUNKS), (f"{STREAMS} streams on one loop", STREAMS, CHUNKS // 100)]
    rows = []
    for name, streams, chunks in cases:
        best = best_of(ROUNDS, partial(_microseconds, streams, chunks))
        told: dict[str, Any] = {"target": f"≤ {TARGET_US} µs", "ok": best <= TARGET_US}
        rows.append(compare(f"a streamed chunk, {name}", "µs of CPU", best, better="lower", peers={}, **told))
    return rows


ROWS = {"streams": measure_streams}
