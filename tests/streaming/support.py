"""Flows that stream chunks by hand, as a model would."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from holdfast import Flow, Frame, listen, start
from holdfast.events import LLMStreamChunkEvent, LLMThinkingChunkEvent
from holdfast.ports import DefaultRuntime


def say(text: str) -> None:
    """Emit a chunk where this code stands."""
    DefaultRuntime.get().event_bus.emit("model", LLMStreamChunkEvent(chunk=text))


async def asay(text: str) -> None:
    """`say`, and wait for handlers and the reader."""
    await DefaultRuntime.get().event_bus.aemit("model", LLMStreamChunkEvent(chunk=text))


def think(text: str) -> None:
    DefaultRuntime.get().event_bus.emit("model", LLMThinkingChunkEvent(chunk=text))


def texts(frames: list[Frame]) -> list[str]:
    return [frame.text for frame in frames if frame.channel == "text"]


class Talk(Flow[Any]):
    """Says `count` things in a coroutine, giving way to others after each."""

    count = 3

    @start()
    async def talk(self) -> str:
        for number in range(self.count):
            say(f"{self.name} {number}")
            await asyncio.sleep(0)
        return f"{self.name} is done"


class PlainTalk(Flow[Any]):
    """The same in blocking code."""

    count = 3

    @start()
    def talk(self) -> str:
        for number in range(self.count):
            say(f"{self.name} {number}")
        return f"{self.name} is done"


class Forever(Flow[Any]):
    """Says one thing, then hangs until it is cancelled."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.cancelled = threading.Event()

    @start()
    async def hang(self) -> None:
        say("begun")
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


class Breaks(Flow[Any]):
    @start()
    async def talk(self) -> None:
        say("before")
        raise ValueError("it broke")

    @listen(talk)
    def never(self) -> None:
        raise AssertionError
