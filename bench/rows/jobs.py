"""Jobs: what a step costs when its flow is a file, it is written down, and its process is under a keeper."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench._harness import Row
from holdfast import Runtime
from holdfast.flowfiles import FlowFile, load_flow
from holdfast.ids import new_id
from holdfast.jobs import JobEngine, define
from holdfast.ports import Job, JobRequest, JobStatus
from holdfast.stores import SqliteStore

STEPS = 100
SCRIPTS = 50
ITEMS = 1_000
ROUNDS = 7
SH = ("/bin/sh", "-c", "exit 0")


def no_op(**given: Any) -> dict[str, Any]:
    """What a step does that does nothing."""
    return {}


class _Nobody:
    """Asks nothing of a job, and does not listen."""

    async def next_request(self) -> JobRequest:
        forever: asyncio.Future[JobRequest] = asyncio.get_running_loop().create_future()
        return await forever

    async def settle(self, request: JobRequest) -> None: ...

    async def show(self, asks: Any) -> None: ...

    def log(self, line: Any) -> None: ...


def _chain(folder: Path, name: str, work: str, steps: int) -> FlowFile:
    lines = [f"name: {name}", "steps:"]
    for number in range(steps):
        after = f", after: [s{number - 1}]" if number else ""
        lines.append(f"  s{number}: {{{work}{after}}}")
    return _loaded(folder, name, "\n".join(lines))


def _loaded(folder: Path, name: str, text: str) -> FlowFile:
    path = folder / f"{name}.flow.yaml"
    path.write_text(text, encoding="utf-8")
    return load_flow(path)


async def _seconds(engine: JobEngine, flow: FlowFile, inputs: bytes = b"{}") -> float:
    job = Job(new_id(), flow.name, JobStatus.RUNNING, 0, define(flow), inputs)
    started = time.perf_counter()
    outcome = await engine.run(job, _Nobody())
    took = time.perf_counter() - started
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
    return took


async def _measure() -> list[Row]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as made:
        folder = Path(made)
        store = SqliteStore(folder / "holdfast.db")
        runtime = Runtime(store=store)
        async with JobEngine(runtime, home=folder) as engine:
            rows = [
                await _python_steps(engine, folder),
                await _script_steps(engine, folder),
                await _items(engine, folder),
            ]
        await runtime.aclose()
        await store.aclose()
    return rows


async def _python_steps(engine: JobEngine, folder: Path) -> Row:
    flow = _chain(folder, "python", 'executor: python, call: "bench.rows.jobs:no_op"', STEPS)
    await _seconds(engine, flow)
    median = statistics.median([await _seconds(engine, flow) for _ in range(ROUNDS)])
    name = f"job of {STEPS} no-op python steps, durable"
    return Row(name, "s", round(median, 4), target="<= 0.15", ok=median <= 0.15)


async def _script_steps(engine: JobEngine, folder: Path) -> Row:
    flow = _chain(folder, "scripts", 'run: "exit 0"', SCRIPTS)
    await _seconds(engine, flow)
    ours, bare = [], []
    for _ in range(ROUNDS):
        ours.append(await _seconds(engine, flow) / SCRIPTS * 1000)
        bare.append(_bare() / SCRIPTS * 1000)
    over = statistics.median(mine - theirs for mine, theirs in zip(ours, bare, strict=True))
    return Row(
        "script step, under the keeper and durable",
        "ms",
        round(statistics.median(ours), 3),
        limit=round(statistics.median(bare), 3),
        target=f"<= 4 ms over fork and exec (is {over:.2f} ms)",
        ok=over <= 4,
    )


def _bare() -> float:
    started = time.perf_counter()
    for _ in range(SCRIPTS):
        subprocess.run(SH, check=True)
    return time.perf_counter() - started


async def _items(engine: JobEngine, folder: Path) -> Row:
    text = """
        name: each
        inputs: {items: {type: text}}
        steps:
          each:
            for_each: $job.items
            as: item
            flow:
              steps:
                work: {executor: python, call: "bench.rows.jobs:no_op", inputs: {item: $job.item}}
    """
    flow = _loaded(folder, "each", "\n".join(line[8:] for line in text.strip("\n").splitlines()))
    items = b'{"items": [' + b",".join(str(n).encode() for n in range(ITEMS)) + b"]}"
    took = min([await _seconds(engine, flow, items) for _ in range(2)])
    return Row(f"for_each over {ITEMS:,} items, a durable child run each", "ms an item", round(took / ITEMS * 1000, 3))


def measure() -> list[Row]:
    """Steps of python functions, of scripts, and of flows for each item."""
    return asyncio.run(_measure())


ROWS = {"jobs": measure}
