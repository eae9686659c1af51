"""`durability="async"`: the journal is written beside the run, in order, and a run whose journal fails does not go on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, Literal

import pytest

from holdfast import Flow, FlowState, Runtime, listen, or_, router, start
from holdfast.checkpoints import CheckpointConfig
from holdfast.checkpoints._behind import WriteBehind
from holdfast.errors import ClosedError, RunUnrecordedError
from holdfast.ports import Batch
from holdfast.stores import MemoryStore, SqliteStore
from holdfast.threads import LoopThread


class Count(FlowState):
    n: int = 0
    limit: int = 100


class Loop(Flow[Count]):
    """Counts to its limit. `store` is where it is written down, for steps that do something to it."""

    max_method_calls = 10**6
    store: SqliteStore

    @start()
    def begin(self) -> None: ...

    @router(or_(begin, "again"))
    def work(self) -> Literal["again", "done"]:
        self.state.n += 1
        self.meddle(self.state.n)
        return "again" if self.state.n < self.state.limit else "done"

    @listen("done")
    def finish(self) -> int:
        return self.state.n

    def meddle(self, n: int) -> None: ...


def written_to(flow: type[Loop], store: SqliteStore) -> Loop:
    made = flow(checkpoint=CheckpointConfig(store, durability="async"))
    made.store = store
    return made


async def rows_of(store: SqliteStore) -> list[int]:
    (run,) = await store.runs()
    return [row.seq async for row in store.read(run.root_run_id)]


async def test_everything_is_stored_in_order_when_the_run_ends(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "a.db") as store:
        assert await written_to(Loop, store).akickoff() == 100
        (run,) = await store.runs()
        assert (run.status, run.held_until_us) == ("completed", 0)
        seqs = await rows_of(store)
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(await store.marks(run.root_run_id)) == 102


def test_steps_go_on_while_nothing_can_be_written(tmp_path: Path) -> None:
    class Slow(Loop):
        def meddle(self, n: int) -> None:
            turn = self.store._engine.writer.turn
            if n == 2:
                turn.acquire()  # from here on no commit gets through
            elif n == 50:
                turn.release()

    with SqliteStore(tmp_path / "a.db") as store:
        assert written_to(Slow, store).kickoff() == 100


def test_what_a_writing_met_is_raised_at_every_later_wake_and_nothing_is_written_any_more() -> None:
    calls: list[int] = []

    async def fail() -> None:
        calls.append(1)
        raise ClosedError("the store was closed")

    async def nothing() -> None: ...

    loop_thread = LoopThread()
    try:
        behind = WriteBehind(loop_thread, fail)
        behind.wake()
        loop_thread.submit(nothing()).result(5)  # the loop takes one after the other
        for _ in range(2):
            with pytest.raises(ClosedError):
                behind.wake()
        assert calls == [1]
    finally:
        loop_thread.stop()


def test_a_journal_that_fails_ends_the_run_at_a_later_step(tmp_path: Path) -> None:
    reached: list[int] = []

    class Failing(Loop):
        def meddle(self, n: int) -> None:
            reached[:] = [n]
            if n == 3:
                self.store.close()

    with pytest.raises((ClosedError, RunUnrecordedError)):
        written_to(Failing, SqliteStore(tmp_path / "a.db")).kickoff({"limit": 10**6})
    assert reached[0] < 10**6


def test_a_journal_that_fails_fails_the_run_at_its_end_at_the_latest(tmp_path: Path) -> None:
    class Failing(Loop):
        def meddle(self, n: int) -> None:
            self.store.close()

    with pytest.raises((ClosedError, RunUnrecordedError)):
        written_to(Failing, SqliteStore(tmp_path / "a.db")).kickoff({"limit": 1})


class GatedStore(MemoryStore):
    """Stores while its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.stored = threading.Event()

    def append_at_once(self, batch: Batch) -> bool:
        return False

    async def append(self, batch: Batch) -> None:
        await asyncio.to_thread(self.gate.wait)
        await super().append(batch)
        self.stored.set()


def test_what_a_run_inside_began_to_write_is_written_when_that_is_over(runtime: Runtime) -> None:
    # regression: the writer stood in the run that had woken it, and was refused once that had ended
    store = GatedStore()

    class Inner(Flow[dict[str, Any]]):
        @start()
        def only(self) -> str:
            return "inner"

    class Outer(Flow[dict[str, Any]]):
        @start()
        def first(self) -> str:
            store.stored.wait()
            store.gate.clear()
            return str(Inner().kickoff())

        @listen(first)
        def second(self, given: str) -> str:
            store.gate.set()
            return given

    for _ in range(5):  # who wakes the writer is a matter of timing
        config = CheckpointConfig(store, durability="async")
        store.stored.clear()
        assert Outer(checkpoint=config, runtime=runtime).kickoff() == "inner"
