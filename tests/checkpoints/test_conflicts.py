"""What overlapping steps changed is not lost when it cannot be merged, nor what a failed step wrote kept."""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

from holdfast import CheckpointConfig, Flow, FlowState, Runtime, and_, listen, or_, start
from holdfast.checkpoints import export_checkpoint, import_checkpoint, restore
from holdfast.checkpoints._fold import Fold
from holdfast.errors import CorruptStoreError, StateConflictError
from holdfast.events import StateConflictEvent
from holdfast.stores import MemoryStore, SqliteStore


class Counted(FlowState):
    total: int = 10
    lines: list[str] = []  # noqa: RUF012 - pydantic copies it


class Reduced(Counted):
    total: Annotated[int, operator.add] = 10


calls: list[str] = []


class Counts(Flow[Counted]):
    @start()
    async def one(self) -> str:
        calls.append("one")
        await asyncio.sleep(0)
        self.state.total += 1
        self.state.lines.append("one")
        return "1"

    @start()
    async def two(self) -> str:
        calls.append("two")
        await asyncio.sleep(0)
        self.state.total += 2
        self.state.lines.append("two")
        return "2"

    @listen(and_(one, two))
    def end(self) -> list[Any]:
        return [self.state.total, sorted(self.state.lines)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    calls.clear()
    with SqliteStore(tmp_path / "journal.db") as store:
        yield store


def broken_run(store: SqliteStore, runtime: Runtime) -> str:
    with pytest.raises(StateConflictError, match="total"):
        Counts(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    [run] = asyncio.run(store.runs())
    return run.root_run_id


def test_s1_18_a_conflict_is_told_and_decided_by_a_reducer_without_running_again(
    store: SqliteStore, runtime: Runtime
) -> None:
    told: list[StateConflictEvent] = []

    @runtime.event_bus.on(StateConflictEvent)
    def note(source: object, event: StateConflictEvent) -> None:
        told.append(event)

    run_id = broken_run(store, runtime)
    [conflict] = told
    assert (conflict.path, sorted(conflict.steps)) == ("$.total", ["one", "two"])
    decided = Counts(initial_state=Reduced, checkpoint=CheckpointConfig(store), runtime=runtime)
    assert decided.kickoff(from_checkpoint=run_id) == [13, ["one", "two"]]
    assert calls == ["one", "two"]


def test_a_conflict_that_nothing_decides_stays_one(store: SqliteStore, runtime: Runtime) -> None:
    run_id = broken_run(store, runtime)
    again = Counts(checkpoint=CheckpointConfig(store), runtime=runtime)
    for _ in range(2):
        with pytest.raises(StateConflictError, match="total"):
            again.kickoff(from_checkpoint=run_id)
    assert calls == ["one", "two"]

    class Last(Counts):
        on_state_conflict = "last"

    assert Last(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff(from_checkpoint=run_id)[0] in (11, 12)


def test_s1_18_what_a_step_wrote_that_failed_is_in_no_later_checkpoint(store: SqliteStore, runtime: Runtime) -> None:
    class Tolerant(Flow[Counted]):
        @start()
        def go(self) -> str:
            return "go"

        @listen(go)
        def fragile(self) -> str:
            self.state.total = 999
            self.state.lines.append("unfinished")
            raise ConnectionError("down")

        @listen(go)
        def slow(self) -> str:
            return "slow"

        @listen(or_(fragile, slow))
        def end(self) -> int:
            self.state.lines.append("end")
            return self.state.total

    flow = Tolerant(checkpoint=CheckpointConfig(store), runtime=runtime)
    assert flow.kickoff() == 10
    assert flow.state.lines == ["end"]


def test_s1_18_a_lone_step_that_fails_leaves_the_state_as_it_was(store: SqliteStore, runtime: Runtime) -> None:
    class Fails(Flow[Counted]):
        @start()
        def first(self) -> None:
            self.state.lines.append("first")

        @listen(first)
        def fails(self) -> None:
            self.state.total, self.state.lines = -1, [object()]  # type: ignore[list-item]
            raise ConnectionError("down")

    flow = Fails(checkpoint=CheckpointConfig(store), runtime=runtime)
    with pytest.raises(ConnectionError):
        flow.kickoff()
    assert (flow.state.total, flow.state.lines) == (10, ["first"])


def odd_base(changes: dict[str, Any]) -> None:
    changes["base"] = 5


def odd_delta(changes: dict[str, Any]) -> None:
    changes["mine"] = "bm9uc2Vuc2U="


def no_base(changes: dict[str, Any]) -> None:
    del changes["base"]


@pytest.mark.parametrize("edit", [odd_base, odd_delta, no_base])
def test_changes_that_cannot_be_read_are_told_in_words(
    edit: Callable[[dict[str, Any]], None], store: SqliteStore, runtime: Runtime
) -> None:
    """A document that was edited by hand gave a bare ValidationError."""
    document = json.loads(asyncio.run(export_checkpoint(store, broken_run(store, runtime))))
    del document["sha256"]
    [row] = [row for row in document["rows"] if row["type"] == "state_conflict"]
    edit(row["payload"]["changes"])
    with MemoryStore() as elsewhere:
        mark = asyncio.run(import_checkpoint(elsewhere, json.dumps(document).encode(), now_us=1))
        again = Counts(initial_state=Reduced, checkpoint=CheckpointConfig(elsewhere), runtime=runtime)
        with pytest.raises(CorruptStoreError, match=f"position {row['seq']} of branch 'main' cannot be read"):
            again.kickoff(from_checkpoint=mark.id)


def test_changes_that_could_not_be_merged_are_in_a_snapshot_too(store: SqliteStore, runtime: Runtime) -> None:
    run_id = broken_run(store, runtime)
    fold = asyncio.run(restore(store, run_id)).fold
    again = Fold.decode(run_id, fold.root.graph, fold.encode())
    assert again.root.conflicts == fold.root.conflicts
    assert len(again.root.conflicts) == 1
