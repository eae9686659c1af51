"""What a flow costs: three steps without durability, and a step that is written down beside a bare commit of the same rows."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from bench._harness import Row, say
from bench.rows.stores import Bare, Commit, commit_of, fill_wal
from holdfast import Flow, FlowState, listen, or_, router, start
from holdfast.checkpoints import CheckpointConfig
from holdfast.ports import Batch
from holdfast.stores import SqliteStore

STEPS = 120
PAIRS = 61


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
    news: list[Any] = []  # noqa: RUF012 - pydantic copies it
    size: int = 0
    as_dicts: bool = False


class Loop(Flow[Count]):
    """As many steps as it is told, each adding to the state."""

    max_method_calls = 10**9

    @start()
    def begin(self) -> None: ...

    @router(or_(begin, "again"))
    def work(self) -> Literal["again", "done"]:
        return self.once()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.times: list[float] = []

    def once(self) -> Literal["again", "done"]:
        self.times.append(time.perf_counter())
        state = self.state
        state.n += 1
        if state.size:
            text = "x" * state.size
            state.news.append({"role": "user", "content": text} if state.as_dicts else text)
        return "again" if state.n < state.limit else "done"


class AsyncLoop(Loop):
    """The same with an async step."""

    async def work(self) -> Literal["again", "done"]:  # type: ignore[override]
        return self.once()


class Committing(Loop):
    """The same, not written down, but each step commits the rows that ours would, by itself: a commit in the same rhythm."""

    def __init__(self, bare: Bare, commits: list[Commit]) -> None:
        super().__init__()
        self._bare = bare
        self._commits = commits

    def once(self) -> Literal["again", "done"]:
        self._bare.commit_all([self._commits[self.state.n % len(self._commits)]])
        return super().once()


class AsyncCommitting(Committing):
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
        kinds: list[tuple[str, type[Loop]]] = [("blocking step", Loop), ("async step", AsyncLoop)]
        rows = [_fresh(Path(folder), name, flow) for name, flow in kinds]
        rows += [_reused(Path(folder), name, flow) for name, flow in kinds]
        rows += [_in_rhythm(Path(folder), name, flow) for name, flow in kinds]
        return [*rows, _behind(Path(folder)), *_growing(Path(folder))]


def _fresh(folder: Path, name: str, flow: type[Loop]) -> Row:
    """Each block in a new file, whose WAL grows as it goes."""

    def pair(number: int) -> tuple[Callable[[], float], Callable[[], float]]:
        file = folder / f"{flow.__name__}{number}.db"

        def ours() -> float:
            with SqliteStore(file) as store:
                return _step_ms(flow, store)

        def theirs() -> float:
            with Bare(file.with_suffix(".bare")) as bare:
                return _bare_ms(bare, rows)

        return ours, theirs

    rows = _rows_of_a_run(folder / f"{flow.__name__}.db", flow)
    return _paired(f"durable {name}, SQLite, fresh WAL", pair)


def _reused(folder: Path, name: str, flow: type[Loop]) -> Row:
    """All blocks in one file, whose WAL has been through a checkpoint and is written over."""
    file = folder / f"{flow.__name__}-reused.db"
    rows = _rows_of_a_run(file.with_suffix(".one"), flow)
    with SqliteStore(file) as store, Bare(file.with_suffix(".bare")) as bare:
        fill_wal(store)
        bare.fill_wal()
        return _paired(
            f"durable {name}, SQLite, reused WAL",
            lambda number: (lambda: _step_ms(flow, store), lambda: _bare_ms(bare, rows)),
        )


def _in_rhythm(folder: Path, name: str, flow: type[Loop]) -> Row:
    """Beside the same flow, not written down, whose steps commit the same rows by hand.

    A commit right after another is cheaper than one after a tenth of a millisecond of anything else: caches and the disk's
    queue are warm. No program commits without doing something in between, so this is the limit that one can reach.
    """
    file = folder / f"{flow.__name__}-rhythm.db"
    rows = _rows_of_a_run(file.with_suffix(".one"), flow)
    by_hand = AsyncCommitting if flow is AsyncLoop else Committing
    with SqliteStore(file) as store, Bare(file.with_suffix(".bare")) as bare:
        fill_wal(store)
        bare.fill_wal()
        return _paired(
            f"durable {name} beside one that commits by hand",
            lambda number: (lambda: _step_ms(flow, store), lambda: _timed(by_hand(bare, rows), {})),
        )


def _paired(name: str, pair: Callable[[int], tuple[Callable[[], float], Callable[[], float]]]) -> Row:
    ratios, ours, bare = [], [], []
    for number in range(PAIRS):
        measures = pair(number)
        taken = {index: measures[index]() for index in random.sample([0, 1], 2)}
        ours.append(taken[0])
        bare.append(taken[1])
        ratios.append(taken[0] / taken[1])
    low, ratio, high = statistics.quantiles(ratios, n=4)
    say(f"{name}: {ratio:.2f} x bare, half of the pairs between {low:.2f} and {high:.2f}")
    return Row(
        name, "ms", round(statistics.median(ours), 4),
        limit=round(statistics.median(bare), 4), target=f"≤ 1.5 x bare commit (is {ratio:.2f} x)", ok=ratio <= 1.5,
    )  # fmt: skip


def _step_ms(flow: type[Loop], store: SqliteStore, **inputs: int) -> float:
    """Milliseconds from step to step of a run that is written down."""
    return _timed(flow(checkpoint=CheckpointConfig(store)), inputs)


def _timed(running: Loop, inputs: dict[str, int]) -> float:
    """Milliseconds from step to step: without opening and ending the run, which a bare commit does not do either."""
    running.kickoff({"limit": STEPS, **inputs})
    return (running.times[-1] - running.times[0]) / (len(running.times) - 1) * 1000


def _behind(folder: Path) -> Row:
    """What being written down asynchronously adds to a step, in shuffled pairs with a step that is not written down."""
    inputs = {"limit": 10 * STEPS}
    with SqliteStore(folder / "behind.db") as store:
        config = CheckpointConfig(store, durability="async")
        measures = [lambda: _timed(Loop(checkpoint=config), inputs), lambda: _timed(Loop(), inputs)]
        pairs = [{n: measures[n]() for n in random.sample([0, 1], 2)} for _ in range(PAIRS)]
    added = statistics.median(taken[0] - taken[1] for taken in pairs)
    plain = statistics.median(taken[1] for taken in pairs)
    return Row(
        'durability="async" adds to a step',
        "ms",
        round(added, 4),
        limit=round(plain, 4),
        target="≤ 0.1",
        ok=added <= 0.1,
    )


def _bare_ms(bare: Bare, commits: list[Commit]) -> float:
    return _seconds(lambda: bare.commit_all(commits)) / len(commits) * 1000


def _rows_of_a_run(file: Path, flow: type[Loop]) -> list[Commit]:
    """What the steps of one block write, commit by commit."""
    with Noting(file) as store:
        _step_ms(flow, store)
        steps = [batch for batch in store.noted if batch.rows[-1].type == "method_execution_started"]
        return [commit_of(batch) for batch in steps[2:]]  # not what comes before the first step of the loop


class Noting(SqliteStore):
    """A store that keeps what it is given."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.noted: list[Batch] = []

    def append_at_once(self, batch: Batch) -> bool:
        if stored := super().append_at_once(batch):
            self.noted.append(batch)
        return stored

    async def append(self, batch: Batch) -> None:
        self.noted.append(batch)
        await super().append(batch)

    def append_now(self, batch: Batch) -> None:
        self.noted.append(batch)
        super().append_now(batch)


def _growing(folder: Path) -> list[Row]:
    """Short and long runs in turn, so that both see the same machine."""
    short, long, dicts = [], [], []
    for n in range(5):
        short += [_grow(folder / f"short{n}{half}.db", 100) for half in "ab"]
        long.append(_grow(folder / f"long{n}.db", 1600))
        dicts.append(_grow(folder / f"dicts{n}.db", 1600, as_dicts=True))
    weight = sum(path.stat().st_size for path in folder.glob("long0.db*")) / 1e6
    growth = statistics.median(long) / statistics.median(short)
    more = statistics.median(b - a for a, b in zip(long, dicts, strict=True))
    return [
        Row("1,600 durable steps, 1 KB more each", "MB", round(weight, 2), limit=1.64, target="≤ 5 MB", ok=weight <= 5),
        Row("ms per step, n = 1,600 over n = 100", "x", round(growth, 3), target="≤ 1.3", ok=growth <= 1.3),
        Row("1,600 dicts instead of texts add to a step", "ms", round(more, 4), target="≤ 0.15", ok=more <= 0.15),
    ]


def _grow(file: Path, limit: int, **inputs: int) -> float:
    with SqliteStore(file) as store:
        return _step_ms(Loop, store, limit=limit, size=1024, **inputs)


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


ROWS = {"flow": measure_flow, "durable": measure_durable}
