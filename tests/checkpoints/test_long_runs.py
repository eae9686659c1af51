"""Long runs: snapshots bound what a restore reads, large values are stored once, memory and bytes stay linear."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from holdfast import CheckpointConfig, Flow, FlowState, Runtime, append_only, listen, or_, router, start
from holdfast.checkpoints import Fold, definition_of, restore
from holdfast.checkpoints import _snapshots as snapshots
from holdfast.ids import new_id
from holdfast.kickoff import _outputs as outputs
from holdfast.ports import Batch, Row, RunInfo, Snapshot
from holdfast.stores import MemoryStore, SqliteStore
from holdfast.threads import LoopThread


class Grown(FlowState):
    rounds: int = 0
    lines: list[str] = []  # noqa: RUF012 - pydantic copies it


class Grows(Flow[Grown]):
    max_method_calls = 100_000
    upto = 60
    breaks_at = -1

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls = 0

    @start()
    def begin(self) -> int:
        return 0

    @router(or_(begin, "again"))
    def grow(self) -> str:
        self.calls += 1
        if self.state.rounds == self.breaks_at:
            raise ConnectionError
        self.state.rounds += 1
        self.state.lines.append(f"line {self.state.rounds} " + "x" * 200)
        return "again" if self.state.rounds < self.upto else "done"

    @listen("done")
    def end(self) -> list[str]:
        return [line[:7] for line in self.state.lines[-2:]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "journal.db") as store:
        yield store


def snapshot_of(store: SqliteStore, run_id: str) -> Snapshot | None:
    return asyncio.run(store.last_snapshot(run_id))


def test_a_restore_from_a_snapshot_is_a_restore_from_the_rows(
    store: SqliteStore, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LEAST", 4_000)
    flow = Grows(checkpoint=CheckpointConfig(store), runtime=runtime)
    flow.breaks_at = 50
    with pytest.raises(ConnectionError):
        flow.kickoff()
    [run] = asyncio.run(store.runs())
    taken = snapshot_of(store, run.root_run_id)
    assert taken is not None
    assert taken.seq > 20

    async def both() -> tuple[bytes, bytes]:
        graph = definition_of(run).graph
        restored = await restore(store, run.root_run_id)
        by_rows = Fold(run.root_run_id, graph)
        async for row in store.read(run.root_run_id):
            by_rows.take(row)
        return restored.fold.encode(), by_rows.encode()

    with_snapshot, without = asyncio.run(both())
    assert with_snapshot == without
    flow.breaks_at, flow.calls = -1, 0
    flow.upto = 60
    assert flow.kickoff(from_checkpoint=run.root_run_id) == ["line 59", "line 60"]
    assert flow.calls == 10
    assert len(flow.method_outputs) == 62  # all of them, those before the snapshot too


def test_snapshots_are_rarer_than_rows_and_small_runs_have_none(
    store: SqliteStore, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    Grows(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    [small] = asyncio.run(store.runs())
    assert snapshot_of(store, small.root_run_id) is None
    written: list[int] = []
    monkeypatch.setattr(snapshots, "LEAST", 2_000)
    encode = Fold.encode

    def noted(fold: Fold) -> bytes:
        data = encode(fold)
        written.append(len(data))
        return data

    monkeypatch.setattr(Fold, "encode", noted)
    Grows(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    run = asyncio.run(store.runs())[0]
    rows = asyncio.run(store.size(run.root_run_id))
    assert written
    assert sum(written) <= 2 * rows  # each is no larger than the journal since the one before


class Noting(MemoryStore):
    """Keeps the positions of the snapshots that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[int] = []

    async def append(self, batch: Batch) -> None:
        await super().append(batch)
        if batch.snapshot is not None:
            self.taken.append(batch.snapshot.seq)


def test_the_next_snapshot_waits_for_as_many_bytes_again(request: pytest.FixtureRequest) -> None:
    """All bytes since the beginning were counted once, so that each batch after the first snapshot made another."""
    store, thread = Noting(), LoopThread("snapshots")
    request.addfinalizer(thread.stop)
    info = RunInfo(new_id(), "flow", "Long", "running", 0, "f", 0, 0)
    session = store.open_now(info, owner="test", now_us=0, hold_until_us=2**40)

    async def fold_upto(seq: int) -> Fold:
        return Fold(info.root_run_id, Grows().compiled().graph)

    written = snapshots.Snapshots(store, session, thread, fold_upto, least=2_000)
    for seq in range(1, 61):  # 6,000 bytes, a hundred at a time
        row = Row(seq, "told", new_id(), seq, info.root_run_id, b"{}")
        store.append_now(Batch(session, (row,)))
        written.note(Batch(session, (row,)), 100 * seq)
        thread.submit(asyncio.sleep(0)).result()  # a snapshot that is due is written first
    assert store.taken == [20, 40, 60]


def test_a_snapshot_that_comes_after_the_end_of_its_run_is_no_warning(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that ended while a snapshot of it was written told so on the terminal, as if something were wrong."""
    store, thread = Noting(), LoopThread("snapshots")
    request.addfinalizer(thread.stop)
    info = RunInfo(new_id(), "flow", "Long", "running", 0, "f", 0, 0)
    session = store.open_now(info, owner="test", now_us=0, hold_until_us=2**40)

    async def fold_upto(seq: int) -> Fold:
        store.close_session_now(session)
        return Fold(info.root_run_id, Grows().compiled().graph)

    batch = Batch(session, (Row(1, "told", new_id(), 1, info.root_run_id, b"{}"),))
    store.append_now(batch)
    snapshots.Snapshots(store, session, thread, fold_upto, least=1).note(batch, 100)
    thread.submit(asyncio.sleep(0)).result()
    assert (store.taken, caplog.records) == ([], [])


def test_a_large_value_is_stored_once(tmp_path: Path, runtime: Runtime) -> None:
    class Large(Flow[dict[str, Any]]):
        @start()
        def load(self) -> str:
            self.state["text"] = "y" * 300_000
            return str(self.state["text"])

        @listen(load)
        def keep(self, given: str) -> dict[str, Any]:
            self.state["copy"] = given
            return {"given": given, "items": [{"n": number} for number in range(3_000)]}

        @listen(keep)
        def use(self, given: dict[str, Any]) -> list[int]:
            if self.broken:
                raise ConnectionError
            return [len(given["given"]), len(given["items"]), len(self.state["copy"])]

        broken = True

    path = tmp_path / "journal.db"
    with SqliteStore(path) as store:
        flow = Large(checkpoint=CheckpointConfig(store), runtime=runtime)
        with pytest.raises(ConnectionError):
            flow.kickoff()
        [run] = asyncio.run(store.runs())
        flow.broken = False
        assert flow.kickoff(from_checkpoint=run.root_run_id) == [300_000, 3_000, 300_000]
    stored = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert stored < 650_000  # the text once, the items once, the rows, an empty store


class Appends(FlowState):
    log: Annotated[list[dict[str, Any]], append_only] = []  # noqa: RUF012


def test_a_field_that_only_grows_is_not_compared_but_kept_and_undone(store: SqliteStore, runtime: Runtime) -> None:
    class Logs(Flow[Appends]):
        broken = True

        @start()
        def one(self) -> None:
            self.state.log.append({"n": 1})

        @listen(one)
        def two(self) -> list[dict[str, Any]]:
            self.state.log[0]["n"] = 100  # said to be final, so not looked at
            self.state.log.append({"n": 2})
            if self.broken:
                raise ConnectionError
            return self.state.log

    flow = Logs(checkpoint=CheckpointConfig(store), runtime=runtime)
    with pytest.raises(ConnectionError):
        flow.kickoff()
    [run] = asyncio.run(store.runs())
    restored = asyncio.run(restore(store, run.root_run_id))
    assert restored.state["log"] == [{"n": 1}]
    assert len(flow.state.log) == 1
    flow.broken = False
    assert len(flow.kickoff(from_checkpoint=run.root_run_id)) == 2
    assert asyncio.run(restore(store, run.root_run_id)).state["log"] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("durability", ["step", "async", "exit"])
@pytest.mark.parametrize("kept", [3, 2000])
def test_a_step_of_a_resumed_run_sees_all_outputs_whether_they_are_stored_yet_or_not(
    store: MemoryStore | SqliteStore,
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    durability: Literal["step", "async", "exit"],
    kept: int,
) -> None:
    monkeypatch.setattr(outputs, "KEPT", kept)
    seen: list[list[str]] = []

    class Counts(Flow[dict[str, Any]]):
        breaks_at = 6

        @start()
        def begin(self) -> str:
            return "begun"

        @listen(or_(begin, "more"))
        def work(self) -> str:
            self.state["n"] = number = self.state.get("n", 0) + 1
            if number == self.breaks_at:
                raise ConnectionError
            return f"{number} " + "x" * 20_000  # too large for a row

        @router(work)
        def go_on(self) -> str:
            seen.append([str(output)[:5].strip("x ") for output in self.method_outputs])
            return "more" if self.state["n"] < 9 else "done"

    flow = Counts(checkpoint=CheckpointConfig(store, durability=durability), runtime=runtime)
    with pytest.raises(ConnectionError):
        flow.kickoff()
    [run] = asyncio.run(store.runs())
    flow.breaks_at = -1
    flow.kickoff(from_checkpoint=run.root_run_id)
    expected = ["begun"]
    for number, told in enumerate(seen, 1):
        expected.append(str(number))
        assert told == expected
        expected.append("more")
    assert len(seen) == 9
