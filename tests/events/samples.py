"""Events and small tools that the tests of this folder share."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from holdfast import BaseEvent, EventBus, Runtime
from holdfast.events import Envelope, event_from_dict, event_to_dict
from holdfast.events._base import ScopeKind

ROOT = Path(__file__).parents[2]
LONG = 20.0
"""Seconds after which a wait has failed; nothing that works waits nearly as long."""


class NumberEvent(BaseEvent):
    """Carries a number."""

    type: ClassVar[str] = "sample_number"

    n: int = 0


class BigNumberEvent(NumberEvent):
    """A special kind of number."""

    type: ClassVar[str] = "sample_big_number"


class EchoEvent(BaseEvent):
    """What a handler answers to a number."""

    type: ClassVar[str] = "sample_echo"

    n: int = 0


class OpenedEvent(BaseEvent):
    """Opens a scope of kind `task`."""

    type: ClassVar[str] = "sample_opened"
    opens: ClassVar[ScopeKind | None] = "task"


class ClosedEvent(BaseEvent):
    """Closes a scope of kind `task`."""

    type: ClassVar[str] = "sample_closed"
    closes: ClassVar[ScopeKind | None] = "task"


class ToolOpenedEvent(BaseEvent):
    """Opens a scope of kind `tool`."""

    type: ClassVar[str] = "sample_tool_opened"
    opens: ClassVar[ScopeKind | None] = "tool"


class ChunkEvent(BaseEvent):
    """Worth seeing live only."""

    type: ClassVar[str] = "sample_chunk"
    durable: ClassVar[bool] = False


class PayloadEvent(BaseEvent):
    """Carries anything."""

    type: ClassVar[str] = "sample_payload"

    data: Any = None


SAMPLES: dict[Any, Any] = {str: "x", int: 1, float: 1.5, bool: True, list[str]: ["x"]}
"""One value for each type that a required field has."""


def build(cls: type[BaseEvent]) -> BaseEvent:
    """An event with a value for each of its required fields and nothing else."""
    return cls(**{field.name: SAMPLES[field.type] for field in msgspec.structs.fields(cls) if field.required})


def emitted(runtime: Runtime, event: BaseEvent, source: object = None) -> BaseEvent:
    """The event, emitted in a run of its own."""
    runtime.run(lambda run: runtime.event_bus.emit(source, event))
    return event


def emit(runtime: Runtime, *events: BaseEvent) -> None:
    """Emit where the caller stands."""
    for event in events:
        runtime.event_bus.emit(None, event)


def reread(event: BaseEvent) -> BaseEvent:
    """The event as a store gives it back."""
    return event_from_dict(event_to_dict(event))


def envelope_of(event: BaseEvent) -> Envelope:
    assert event.env is not None
    return event.env


def wait_for(event: threading.Event) -> None:
    """Wait for something that must happen."""
    assert event.wait(LONG), "it did not happen"


@contextmanager
def thread(target: Callable[[], object]) -> Iterator[threading.Thread]:
    """A thread for the length of the block; it must end by itself and must not raise."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            target()
        except BaseException as error:
            errors.append(error)

    started = threading.Thread(target=work, daemon=True)
    started.start()
    try:
        yield started
    finally:
        started.join(LONG)
    assert not started.is_alive(), "the thread did not end"
    if errors:
        raise errors[0]


def together(*targets: Callable[[], object]) -> None:
    """Run the calls in a thread each, all let go at the same moment, and wait for them."""
    start = threading.Barrier(len(targets))

    def after_the_others(target: Callable[[], object]) -> Callable[[], object]:
        return lambda: (start.wait(LONG), target())

    errors: list[BaseException] = []

    def guarded(target: Callable[[], object]) -> None:
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(after_the_others(t),), daemon=True) for t in targets]
    for one in threads:
        one.start()
    for one in threads:
        one.join(LONG)
    assert not any(one.is_alive() for one in threads), "a thread did not end"
    if errors:
        raise errors[0]


class Gate:
    """A handler, sync or async, that stands still until the gate opens."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()
        self.done: list[str] = []

    def sync(self, source: object, event: BaseEvent) -> None:
        self.entered.set()
        wait_for(self.go)
        self.done.append(event.type)

    async def awaited(self, source: object, event: BaseEvent) -> None:
        self.entered.set()
        await asyncio.to_thread(wait_for, self.go)
        self.done.append(event.type)

    def assert_waited_for_by(self, call: Callable[[], object]) -> None:
        """`call` must not return before the gate was opened and everything behind it is done."""
        done_when_it_returned: list[list[str]] = []

        def work() -> None:
            call()
            done_when_it_returned.append(list(self.done))

        with thread(work) as waiter:
            wait_for(self.entered)
            waiter.join(0.05)
            early = not waiter.is_alive()
            self.go.set()
        assert not early, "it did not wait"
        assert done_when_it_returned == [self.done]


def register(gate: Gate, kind: str, bus: EventBus) -> None:
    """Let the gate hear numbers as an `async`, `background` or `async background` handler."""
    bus.on(NumberEvent, background="background" in kind)(gate.awaited if "async" in kind else gate.sync)


def holdfast_threads() -> set[threading.Thread]:
    """The threads of ours that are alive."""
    return {t for t in threading.enumerate() if t.name.startswith("holdfast-")}


def python(program: str, *args: str, timeout: float = 30.0) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", "-c", program, *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def in_forked_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a forked child, as plain data. A child that hangs is killed, and fails the test."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 warns of forks beside threads: that is the point
        pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        try:
            answer = {"result": work()}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the child hung"
    answer = json.loads(told)
    assert "error" not in answer, answer
    return answer["result"]
