"""Two runs side by side, each with listeners of its own; one completes, one is cancelled; nothing is left."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from pathlib import Path

from holdfast import BaseEvent, Run, Runtime
from holdfast.events import ResourceReleasedEvent, RunCancelledEvent, RunCompletedEvent, StepStartedEvent

COLOUR = sys.stdout.isatty()


def say(who: str, text: str) -> None:
    tint = {"painter": "36", "sweeper": "33"}.get(who, "1")
    print(f"\033[{tint}m{who:>8}\033[0m  {text}" if COLOUR else f"{who:>8}  {text}")


class RoomPaintedEvent(BaseEvent):
    """A room has its new colour."""

    room: str
    colour: str


def mix(colour: str) -> str:
    """A blocking step: it runs in a thread and still belongs to its run."""
    return f"light {colour}"


def listen(run: Run) -> None:
    """Handlers that hear this run alone, and go when it ends."""

    @run.on(RoomPaintedEvent)
    def painted(source: object, event: RoomPaintedEvent) -> None:
        say(run.name, f"event {event.emission_sequence}: the {event.room} is {event.colour}")

    @run.on(StepStartedEvent)
    def started(source: object, event: StepStartedEvent) -> None:
        say(run.name, f"event {event.emission_sequence}: step {event.name} started")

    @run.on(ResourceReleasedEvent)
    def released(source: object, event: ResourceReleasedEvent) -> None:
        say(run.name, f"event {event.emission_sequence}: released {event.kind} {event.resource}")

    @run.on(RunCompletedEvent, RunCancelledEvent)
    def ended(source: object, event: RunCompletedEvent | RunCancelledEvent) -> None:
        say(run.name, f"event {event.emission_sequence}: {event.type}" + (f", {event.reason}" if event.reason else ""))


def owns(run: Run) -> str:
    held = ", ".join(f"{holding.kind} {holding.name}" for holding in run.inventory())
    return f"{run.name} is {run.status} and owns: {held}"


def borrow_directory(run: Run) -> Path:
    directory = tempfile.TemporaryDirectory(prefix=f"holdfast-{run.name}-")
    run.hold("directory", Path(directory.name).name, directory.cleanup)
    return Path(directory.name)


async def paint(run: Run, ready: asyncio.Event) -> int:
    listen(run)
    directory = borrow_directory(run)
    rooms = ["kitchen", "hall", "attic"]
    say("demo", owns(run))
    for room in rooms:
        colour = await run.spawn(mix, "green", name=f"mix for {room}")
        (directory / room).write_text(colour)
        run.emit(RoomPaintedEvent(room=room, colour=colour))
    ready.set()
    return len(rooms)


async def sweep(run: Run, ready: asyncio.Event) -> None:
    listen(run)
    borrow_directory(run)
    run.spawn(asyncio.Event().wait, name="sweep for ever")
    async with run.waiting("more dust"):
        ready.set()
        await asyncio.Event().wait()


async def main() -> None:
    say(
        "demo", "two runs side by side: each hears its own events, owns what it borrows, and gives it back when it ends"
    )
    async with Runtime() as runtime:
        painting, sweeping = asyncio.Event(), asyncio.Event()
        painter = runtime.start(paint, painting, name="painter")
        sweeper = runtime.start(sweep, sweeping, name="sweeper")
        await sweeping.wait()
        say("demo", owns(sweeper))
        rooms = await painter
        say("demo", f"{painter.name} painted {rooms} rooms and is {painter.status}")
        await sweeper.acancel("the demo is over")
        say("demo", f"{sweeper.name} is {sweeper.status}")
        left = runtime.inventory()
        say("demo", f"left behind: {', '.join(f'{h.kind} {h.name}' for h in left) or 'nothing'}")
        if left:
            sys.exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `make demo | head` ends quietly
    asyncio.run(main())
