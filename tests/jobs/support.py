"""Flows made by hand, a control that a test can talk through, and an engine with everything real behind it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec

from holdfast.flowfiles import (
    Executor,
    ExitRule,
    Expression,
    FlowFile,
    Input,
    JobSource,
    Limits,
    OutputField,
    Position,
    PythonCall,
    Script,
    Source,
    StepSource,
    StepSpec,
    Template,
    Variable,
    WhenExpression,
    load_flow,
)
from holdfast.jobs import JobEngine, define, uses_of
from holdfast.ports import Ask, Job, JobOutcome, JobRequest, JobStatus, LogLine
from holdfast.runtime import Runtime
from holdfast.stores import SqliteStore
from holdfast.testing import ManualClock

HERE = Position("test.flow.yaml")
_ids = itertools.count(1)


def expression(text: str) -> Expression:
    return Expression(text, HERE)


def template(text: str) -> Template:
    return Template(text, HERE)


def script(text: str) -> Script:
    return Script(text=text)


def python(name: str) -> PythonCall:
    return PythonCall(module="tests.jobs.work", function=name)


def source(text: str, loop: str | None = None) -> Source:
    head, *path = text.split(".")
    if head == "$job":
        return JobSource(path[0], tuple(path[1:]))
    return StepSource(head, tuple(path), loop)


def given(name: str, *sources: str, optional: bool = False, loop: str | None = None) -> Input:
    """An input; `loop` names the head of the loop that brings back the last of its sources."""
    found = [source(text) for text in sources]
    if loop is not None:
        found[-1] = source(sources[-1], loop)
    return Input(name=name, at=HERE, sources=tuple(found), optional=optional)


def rule(action: Any, when: str | None = None, **more: Any) -> ExitRule:
    names = ("error", "error_category", "attempt")
    on_failure = when is None or when in ("True", "False") or any(name in when for name in names)
    more.setdefault("name", f"{action}-{when or 'always'}")
    return ExitRule(action=action, at=HERE, when=expression(when) if when else None, on_failure=on_failure, **more)


def out(name: str, type: Any = "any", **more: Any) -> OutputField:
    return OutputField(name=name, at=HERE, type=type, **more)


def step(name: str, executor: Executor, *inputs: Input, when: str | None = None, **more: Any) -> StepSpec:
    condition = WhenExpression(expression(when)) if when else None
    return StepSpec(name=name, at=HERE, executor=executor, inputs=inputs, when=condition, **more)


def flow(*steps: StepSpec, name: str = "test", directory: str = "", **more: Any) -> FlowFile:
    more.setdefault("limits", Limits())
    return FlowFile(name=name, at=HERE, directory=directory, steps=steps, digest=f"digest of {name}", **more)


def variable(name: str, **more: Any) -> Variable:
    return Variable(name=name, at=HERE, **more)


def job_of(made: FlowFile, inputs: Mapping[str, Any] | None = None, job_id: str = "") -> Job:
    return Job(
        job_id or f"job-{next(_ids)}",
        made.name,
        JobStatus.RUNNING,
        0,
        define(made),
        msgspec.json.encode(inputs or {}),
        uses=uses_of(made),
    )


class Control:
    """What a service would be to a running job."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[JobRequest] = asyncio.Queue()
        self.settled: list[str] = []
        self.asks: list[tuple[Ask, ...]] = []
        self.lines: list[LogLine] = []

    async def next_request(self) -> JobRequest:
        return await self.queue.get()

    async def settle(self, request: JobRequest) -> None:
        self.settled.append(request.id)

    async def show(self, asks: Sequence[Ask]) -> None:
        self.asks.append(tuple(asks))

    def log(self, line: LogLine) -> None:
        self.lines.append(line)

    def ask(self, kind: Any, **data: Any) -> JobRequest:
        """Someone asks something of the job."""
        asked = JobRequest(f"request-{next(_ids)}", "", kind, 0, msgspec.json.encode(data))
        self.queue.put_nowait(asked)
        return asked

    async def turn(self) -> None:
        """Let the job go on for a moment."""
        await asyncio.sleep(0.001)

    async def until_taken(self) -> None:
        """Wait until the job has heard everything it was asked."""
        while not self.queue.empty():
            await self.turn()
        await self.turn()

    async def until_shown(self) -> tuple[Ask, ...]:
        """What the job's steps wait for, once they do."""
        while not self.asks:
            await self.turn()
        return self.asks[-1]

    def said(self, step: str, channel: str = "stderr") -> str:
        return "".join(line.text for line in self.lines if line.step == step and line.channel == channel)


class Bench:
    """An engine and its runtime, in a directory of their own."""

    def __init__(self, directory: Path, *, still: bool = False, **options: Any) -> None:
        """`still`: its clock moves only when the test moves it."""
        self.directory = directory
        self.store = SqliteStore(directory / "jobs.db")
        self.clock = ManualClock()
        self.runtime = Runtime(store=self.store, grace=5.0, clock=self.clock if still else None)
        self.engine = JobEngine(self.runtime, home=directory, **options)

    @property
    def now_us(self) -> int:
        return self.clock.time_ns() // 1000

    async def run(
        self, made: FlowFile, inputs: Mapping[str, Any] | None = None, control: Control | None = None
    ) -> JobOutcome:
        return await self.engine.run(job_of(made, inputs), control or Control())

    def start(self, job: Job, control: Control) -> asyncio.Task[JobOutcome]:
        return asyncio.ensure_future(self.engine.run(job, control))

    async def outputs(self, made: FlowFile, inputs: Mapping[str, Any] | None = None) -> Any:
        outcome = await self.run(made, inputs)
        assert outcome.status is JobStatus.COMPLETED, outcome.reason
        return msgspec.json.decode(outcome.outputs or b"null")

    async def statuses(self, job: Job) -> dict[str, str]:
        return {info.path: info.status for info in await self.engine.steps(job)}

    async def aclose(self) -> None:
        await self.engine.aclose()
        await self.runtime.aclose()
        await self.store.aclose()


def read(directory: Path, text: str, name: str = "test") -> FlowFile:
    """A flow from YAML."""
    path = directory / f"{name}.flow.yaml"
    path.write_text(f"name: {name}\n{dedent(text)}", encoding="utf-8")
    return load_flow(path)
