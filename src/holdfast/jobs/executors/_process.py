"""A command of a step: its tree under a keeper, its output bounded and live, nothing of it left."""

from __future__ import annotations

import asyncio
import codecs
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from holdfast.context import at, position
from holdfast.errors import JobStepError
from holdfast.events.families.step import StepOutputChunkEvent
from holdfast.jobs._calls import Call
from holdfast.jobs._environment import environment_of, write_inputs
from holdfast.jobs._masking import StreamMask
from holdfast.resources import Command, KeptProcess

TAIL = 4_000
"""Characters of standard error that a failure's message keeps."""
QUIET_SECONDS = 0.05
"""After the first process ended: how long its pipes must be silent before what it left behind is ended."""


class Ran(Struct, frozen=True):
    """How a command ended."""

    code: int
    stdout: str
    stderr: str
    """the end of it"""


async def run_command(call: Call, argv: tuple[str, ...]) -> Ran:
    """Run a command in the job's workspace until its first process ends, then end what it left behind.

    Raises SpawnError if it cannot be started, JobStepError if it writes more than its outputs may be.
    """
    place = call.scope.shared.workspace
    inputs_file = place / f".inputs-{call.execution.step}-{call.execution.number}-{call.run.id[-8:]}.json"
    write_inputs(call, inputs_file)
    try:
        return await _run(
            call, Command(argv, environment_of(call, inputs_file), str(place), stdin="nothing", stderr="pipe")
        )
    finally:
        inputs_file.unlink(missing_ok=True)


async def _run(call: Call, command: Command) -> Ran:
    process = await call.scope.engine.keeper.spawn(command)
    try:
        lease = call.run.hold("process", f"{call.step.name} ({process.pid})", process.end)
    except BaseException:  # too late: the run is ending
        await asyncio.shield(process.end(0))
        raise
    try:
        return await _until_end(call, process)
    finally:
        await asyncio.shield(call.run.release(lease))


async def _until_end(call: Call, process: KeptProcess) -> Ran:
    out, err = Collector(call.scope.engine.output_cap), _Log(call)
    code = await read_to_end(process, out, err)
    return Ran(code, out.text(), err.tail())


class Sink(Protocol):
    """Takes what a process writes."""

    size: int
    """how much it took"""

    def feed(self, data: bytes) -> None: ...


async def read_to_end(process: KeptProcess, out: Sink, err: Sink) -> int:
    """Take what a process writes until its first process ends, and say how it ended. Raises what a sink raises."""
    poured = process.pour(out.feed, err.feed)
    exited = asyncio.ensure_future(process.wait())
    either: set[asyncio.Future[Any]] = {exited, poured}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not exited.done():
            poured.result()  # raises if too much came out; else it has closed its pipes and goes on
            await asyncio.wait({exited})
        await _silence(poured, out, err)
        return exited.result()
    finally:
        exited.cancel()
        poured.cancel()


async def _silence(poured: asyncio.Future[None], out: Sink, err: Sink) -> None:
    """Read what the first process wrote; whoever it left behind may hold the pipes open for ever."""
    while not poured.done():
        before = out.size + err.size
        await asyncio.wait({poured}, timeout=QUIET_SECONDS)
        if out.size + err.size == before:
            return
    poured.result()


class Collector:
    """Standard output, as far as it may go."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._parts: list[bytes] = []
        self.size = 0

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._cap:
            raise JobStepError(
                f"it wrote more than {self._cap:,} bytes to standard output: write a file and give its path",
                category="output",
            )
        self._parts.append(data)

    def text(self) -> str:
        return b"".join(self._parts).decode("utf-8", "replace")


class _Log:
    """Standard error: told as it comes, its end kept."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._place = position.get()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._mask = StreamMask(call.scope.shared.secrets)
        self._tail = ""
        self.size = 0

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        self._tell(self._mask.feed(self._decoder.decode(data)))

    def _tell(self, text: str) -> None:
        if not text:
            return
        self._tail = (self._tail + text)[-TAIL:]
        with at(self._place):
            self._call.run.tell(StepOutputChunkEvent, name=self._call.step.name, chunk=text, attempt=self._call.attempt)

    def tail(self) -> str:
        """The end of it, when there is no more."""
        self._tell(self._mask.close())
        return self._tail.strip()


def why(ran: Ran) -> str:
    """How a command failed, with the end of what it said."""
    how = f"it was killed by signal {-ran.code}" if ran.code < 0 else f"it ended with exit code {ran.code}"
    return f"{how}: {ran.stderr}" if ran.stderr else how


def script_argv(text: str, file: str | None, directory: str) -> tuple[str, ...]:
    """How a script is started: a file that can be executed as it is, any other text by the shell."""
    if file is None:
        return ("/bin/sh", "-c", text)
    path = Path(directory, file)
    rest = tuple(text.split()[1:]) if text.split()[:1] == [file] else ()
    if path.stat().st_mode & 0o111:
        return (str(path), *rest)
    interpreter = {".py": "python3", ".sh": "/bin/sh", ".bash": "bash", ".js": "node", ".rb": "ruby", ".pl": "perl"}
    return (interpreter.get(path.suffix, "/bin/sh"), str(path), *rest)
