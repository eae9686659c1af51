"""What a flow costs: three steps without durability, and a step that is written down beside a bare commit of the same rows."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from bench._harness import Row
from holdfast import Flow, FlowState, listen, or_, router, start
from holdfast.checkpoints import CheckpointConfig
from holdfast.stores import SqliteStore

STEPS = 120
PAIRS = 15


class Blocking(Flow[dict[str, Any]]):
    """Three blocking steps."""

    @start()
    def one(self) -> int:
        return 1

    @listen(one)
    def two(self, given: int) -> int:
        return given + 1

    @listen(two)
    def three(self, given: int) -> int:
        return given + 1


class Awaiting(Flow[dict[str, Any]]):
    """Three async steps."""

    @start()
    async def one(self) -> int:
        return 1

    @listen(one)
    async def two(self, given: int) -> int:
        return given + 1

    @listen(two)
    async def three(self, given: int) -> int:
        return given + 1


class Count(FlowState):
    n: int = 0
    limit: int = STEPS
    news: list[str] = []  # noqa: RUF012 - pydantic copies it
    size: int = 0


class Loop(Flow[Count]):
    """As many steps as it is told, each adding to the state."""

    max_method_calls = 10**9

    @start()
    def begin(self) -> None: ...

    @router(or_(begin, "again"))
    def work(self) -> Literal["again", "done"]:
        return self.once()

    def once(self) -> Literal["again", "done"]:
        self.state.n += 1
        if self.state.size:
            self.state.news.append("x" * self.state.size)
        return "again" if self.state.n < self.state.limit else "done"


class AsyncLoop(Loop):
    """The same with an async step."""

    async def work(self) -> Literal["again", "done"]:  # type: ignore[override]
        return self.once()


def measure_flow() -> list[Row]:
    """Three steps, without durability."""

    async def on_a_loop(flow: type[Flow[Any]], times: int) -> None:
        for _ in range(times):
            await flow().akickoff()

    def plainly(times: int) -> None:
        for _ in range(times):
            Blocking().kickoff()

    rows = [
        ("3 async steps in a running loop", lambda n: asyncio.run(on_a_loop(Awaiting, n)), 0.5),
        ("3 blocking steps in a running loop", lambda n: asyncio.run(on_a_loop(Blocking, n)), 0.5),
        ("3 blocking steps through kickoff()", plainly, 1.0),
    ]
    return [_flow_row(name, work, bar) for name, work, bar in rows]


def _flow_row(name: str, work: Callable[[int], None], bar: float) -> Row:
    work(50)
    best = min(_seconds(lambda: work(200)) for _ in range(7)) / 200 * 1000
    return Row(f"flow, {name}", "ms", round(best, 4), target=f"≤ {bar} ms", ok=best <= bar)


def measure_durable() -> list[Row]:
    """A step that is written down, in shuffled pairs with a bare commit of the same rows; and what 1,600 of them weigh."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        rows = [_paired(Path(folder), "blocking step", Loop), _paired(Path(folder), "async step", AsyncLoop)]
        return [*rows, *_growing(Path(folder))]


def _paired(folder: Path, name: str, flow: type[Loop]) -> Row:
    ratios, ours, bare = [], [], []
    for number in range(PAIRS):
        file = folder / f"{flow.__name__}{number}.db"
        measures = [lambda file=file: _kickoff(flow, file), lambda file=file: _bare_commits(file.with_suffix(".bare"))]
        taken = {index: measures[index]() for index in random.sample([0, 1], 2)}
        ours.append(taken[0])
        bare.append(taken[1])
        ratios.append(taken[0] / taken[1])
    ratio = statistics.median(ratios)
    return Row(
        f"durable {name}, SQLite: {ratio:.2f} x bare", "ms", round(statistics.median(ours), 4),
        limit=round(statistics.median(bare), 4), target="≤ 1.5 x bare commit", ok=ratio <= 1.5,
    )  # fmt: skip


def _kickoff(flow: type[Loop], file: Path, **inputs: int) -> float:
    """Milliseconds a step."""
    with SqliteStore(file) as store:
        running = flow(checkpoint=CheckpointConfig(store))
        return _seconds(lambda: running.kickoff(inputs)) / inputs.get("limit", STEPS) * 1000


def _bare_commits(file: Path) -> float:
    """Milliseconds for a commit of what a step writes: two events and a mark."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE events (run INTEGER, seq INTEGER, id BLOB, type TEXT, payload BLOB, delta BLOB, ids BLOB)"
    )
    connection.execute("CREATE UNIQUE INDEX place ON events (run, seq)")
    connection.execute("CREATE TABLE marks (id BLOB PRIMARY KEY, run INTEGER, seq INTEGER)")
    event = (b"i" * 16, "method_execution_finished", b"p" * 110, b"d" * 30, b"e" * 90)

    def commits() -> None:
        for number in range(STEPS):
            connection.execute("BEGIN IMMEDIATE")
            for seq in (2 * number, 2 * number + 1):
                connection.execute("INSERT INTO events VALUES (1, ?, ?, ?, ?, ?, ?)", (seq, *event))
            connection.execute("INSERT INTO marks VALUES (?, 1, ?)", (os.urandom(16), 2 * number))
            connection.execute("COMMIT")

    taken = _seconds(commits) / STEPS * 1000
    connection.close()
    return taken


def _growing(folder: Path) -> list[Row]:
    short = statistics.median(_kickoff(Loop, folder / f"short{n}.db", limit=100, size=1024) for n in range(7))
    file = folder / "long.db"
    long = _kickoff(Loop, file, limit=1600, size=1024)
    weight = sum(path.stat().st_size for path in folder.glob("long.db*")) / 1e6
    growth = long / short
    return [
        Row("1,600 durable steps, 1 KB more each", "MB", round(weight, 2), limit=1.64, target="≤ 5 MB", ok=weight <= 5),
        Row("ms per step, n = 1,600 over n = 100", "x", round(growth, 3), target="≤ 1.3", ok=growth <= 1.3),
    ]


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


ROWS = {"flow": measure_flow, "durable": measure_durable}
