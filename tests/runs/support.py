"""Small implementations of the ports that tell what happens to them, and a way to run a script in a process of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast import BaseEvent, Runtime

Hook = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """What a port does when nothing goes wrong."""


async def breaks() -> None:
    raise OSError("it broke")


class Stuck:
    """A hook that hangs until let go. `entered` says that it hangs."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.let_go = asyncio.Event()
        self.was_cancelled = False

    async def __call__(self) -> None:
        self.entered.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


class NotedLease:
    """A lease that notes its release."""

    def __init__(self, notes: list[str], name: str = "it", hook: Hook = nothing) -> None:
        self.kind = "thing"
        self.name = name
        self._notes = notes
        self._hook = hook

    async def release(self) -> None:
        await self._hook()
        self._notes.append(f"released {self.name}")


class NotedChannel:
    """A stream that notes its end."""

    def __init__(self, notes: list[str], hook: Hook = nothing) -> None:
        self._notes = notes
        self._hook = hook

    async def close(self, status: str) -> None:
        await self._hook()
        self._notes.append(f"closed {status}")


class NotedJournal:
    """A journal that notes the ends it is given."""

    state = None

    def __init__(self, notes: list[str], hook: Hook = nothing) -> None:
        self.recorded: list[str] = []
        self._notes = notes
        self._hook = hook

    def record(self, event: BaseEvent) -> None:
        self.recorded.append(event.type)

    def encoder(self, event_type: type[BaseEvent]) -> Callable[[dict[str, Any]], bytes]:
        return msgspec.json.encode

    def write(self, tag: str, payload: bytes, changed: bytes | None, *stamp: Any) -> None:
        self.recorded.append(tag)

    def carry(self, changed: bytes) -> None: ...
    def expect(self, event_ids: Sequence[str]) -> None: ...
    def show(self, unbuilt: Any) -> None: ...

    async def commit_end(self, run_id: str, status: str) -> None:
        await self._hook()
        self._notes.append(f"committed {status}")


def hear(runtime: Runtime, *types: type[BaseEvent]) -> list[BaseEvent]:
    """What the runtime's bus tells of these events, from now on."""
    heard: list[BaseEvent] = []

    def note(source: object, event: BaseEvent) -> None:
        heard.append(event)

    runtime.event_bus.on(*types or (BaseEvent,))(note)
    return heard


def tags(events: list[BaseEvent]) -> list[str]:
    return [event.type for event in events]


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop go round until something is so that nobody tells of: a thread has left, a status has changed."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


def run_script(script: str, *, timeout: float = 40, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, warnings as errors, and wait for its end."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, cwd=folder)
