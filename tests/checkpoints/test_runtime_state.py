"""`RuntimeState` writes the run it records into a file, and reads one back."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from holdfast import CheckpointConfig, Flow, FlowState, Runtime, RuntimeState, listen, or_, router, start
from holdfast.errors import NotStorableError, StorageError, UsageError
from holdfast.events import BaseEvent, FlowFinishedEvent, FlowStartedEvent, MethodExecutionFinishedEvent
from holdfast.ports import Row
from holdfast.stores import SqliteStore


class Sum(FlowState):
    total: int = 0


class Adds(Flow[Sum]):
    calls: list[str] = []  # noqa: RUF012 - emptied by each test

    @start()
    def one(self) -> str:
        self.calls.append("one")
        self.state.total += 1
        return "x" * 20_000  # large enough for a blob

    @listen(one)
    async def two(self) -> int:
        self.calls.append("two")
        self.state.total += 2
        return self.state.total

    @listen(two)
    def three(self, given: int) -> int:
        self.calls.append("three")
        self.state.total += 4
        return self.state.total


@pytest.fixture(autouse=True)
def no_calls() -> None:
    Adds.calls.clear()


class Writes:
    """A handler that writes a file when a method of a name is finished."""

    def __init__(self, directory: Path, method: str) -> None:
        self.directory = directory
        self.method = method
        self.files: list[str] = []
        self.entities: list[int] = []

    def __call__(self, source: object, event: MethodExecutionFinishedEvent, state: RuntimeState | None) -> None:
        assert state is not None
        if event.method_name == self.method:
            self.files.append(state.checkpoint(self.directory))
            self.entities.append(len(state.root))


@pytest.mark.parametrize("method", ["one", "two", "three"])
@pytest.mark.parametrize("armed", ["bus", "run"])
def test_s1_2_a_handler_writes_the_run_as_it_is_at_its_event(
    tmp_path: Path, runtime: Runtime, method: str, armed: str
) -> None:
    writes = Writes(tmp_path / "files", method)
    runtime.event_bus.on(MethodExecutionFinishedEvent)(writes)
    with SqliteStore(tmp_path / "journal.db") as store:
        if armed == "bus":
            runtime.event_bus.enable_recording()
            assert Adds(runtime=runtime).kickoff() == 7
        else:
            assert Adds(runtime=runtime, checkpoint=CheckpointConfig(store)).kickoff() == 7
    [file] = writes.files
    assert writes.entities == [1]
    done = {"one": 1, "two": 2, "three": 3}[method]
    Adds.calls.clear()
    with Runtime() as other, SqliteStore(tmp_path / "other.db") as there:
        flow = Adds.from_checkpoint(Path(file), checkpoint=CheckpointConfig(there), runtime=other)
        assert flow.state.total == [1, 3, 7][done - 1]  # as it was then, not later
        assert len(flow.method_outputs) == done
        assert flow.kickoff() == 7
        assert Adds.calls == ["one", "two", "three"][done:]


def test_a_handler_writes_a_run_that_has_just_begun_a_branch(tmp_path: Path, runtime: Runtime) -> None:
    with SqliteStore(tmp_path / "journal.db") as store:
        config = CheckpointConfig(store)
        Adds(checkpoint=config, runtime=runtime).kickoff()
        first = asyncio.run(store.marks())[-1]
        writes = Writes(tmp_path / "files", "one")  # which is shown again before the branch has a row
        runtime.event_bus.on(MethodExecutionFinishedEvent)(writes)
        Adds.fork(first.id, branch="side", checkpoint=config, runtime=runtime).kickoff()
        runtime.event_bus.flush()
        [file] = writes.files
        assert RuntimeState.from_checkpoint(file).branch == "side"


class Stumbles(Adds):
    broken = True

    def three(self, given: int) -> int:
        if self.broken:
            raise ConnectionError
        return super().three(given)


def test_a_handler_writes_a_run_that_is_taken_up_on_an_older_branch(tmp_path: Path, runtime: Runtime) -> None:
    """The newest branch was written, with the mark and the rows of the one that the run was on."""
    with SqliteStore(tmp_path / "journal.db") as store:
        config = CheckpointConfig(store, on_events=("*",))
        with pytest.raises(ConnectionError):
            Stumbles(checkpoint=config, runtime=runtime).kickoff()
        newest, *_, oldest = asyncio.run(store.marks())
        with pytest.raises(ConnectionError):
            Stumbles.fork(oldest.id, branch="side", checkpoint=config, runtime=runtime).kickoff()
        writes = Writes(tmp_path / "files", "three")
        runtime.event_bus.on(MethodExecutionFinishedEvent)(writes)
        flow = Stumbles(checkpoint=config, runtime=runtime)
        flow.broken = False
        assert flow.kickoff(from_checkpoint=newest.id) == 7
        runtime.event_bus.flush()
        [file] = writes.files
        assert RuntimeState.from_checkpoint(file).branch == "main"
        Adds.calls.clear()
        with SqliteStore(tmp_path / "other.db") as other:
            assert Stumbles.from_checkpoint(file, checkpoint=CheckpointConfig(other), runtime=runtime).kickoff() == 7
        assert Adds.calls == []


async def test_s1_2_acheckpoint_is_the_async_twin(tmp_path: Path, runtime: Runtime) -> None:
    files: list[str] = []

    @runtime.event_bus.on(MethodExecutionFinishedEvent)
    async def write(source: object, event: MethodExecutionFinishedEvent, state: RuntimeState) -> None:
        files.append(await state.acheckpoint(tmp_path))

    runtime.event_bus.enable_recording()
    assert await Adds(runtime=runtime).akickoff() == 7
    assert len(files) == 3
    for file in files:
        assert json.loads(await asyncio.to_thread(Path(file).read_bytes))["run"]["name"] == "Adds"


def test_s1_2_a_file_read_back_has_events_entities_branch_and_parent(tmp_path: Path, runtime: Runtime) -> None:
    runtime.event_bus.enable_recording()
    Adds(runtime=runtime).kickoff()
    state = runtime.event_bus.runtime_state
    assert state is not None
    file = state.checkpoint(tmp_path)
    back = RuntimeState.from_checkpoint(file)
    assert list(back.event_record.nodes) == list(state.event_record.nodes)
    assert [entity.entity_id for entity in back.root] == [entity.entity_id for entity in state.root]
    assert back.branch == "main"
    started = [node.event for node in back.event_record if isinstance(node.event, FlowStartedEvent)]
    assert len(started) == 1
    again = back.fork("what-if").checkpoint(tmp_path / "forked")
    assert RuntimeState.from_checkpoint(again).branch == "what-if"
    with pytest.raises(StorageError, match="cannot be read"):
        RuntimeState.from_checkpoint(tmp_path / "no.json")


def test_an_id_in_the_runtimes_store_is_read_too(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "journal.db") as store, Runtime(store=store) as runtime:
        Adds(runtime=runtime, checkpoint=True).kickoff()
        [run] = asyncio.run(store.runs())
        assert len(runtime.read_checkpoint(run.root_run_id).event_record) > 6


def test_a_record_without_a_run_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="enable_recording"):
        RuntimeState().checkpoint(tmp_path)


def test_s0_2_a_recorded_flow_may_hold_what_cannot_be_stored(tmp_path: Path, runtime: Runtime) -> None:
    class Odd(Flow[dict[str, Any]]):
        @start()
        def one(self) -> object:
            return object()

        @listen(one)
        def two(self) -> str:
            self.state["odd"] = object()
            return "done"

    runtime.event_bus.enable_recording()
    assert Odd(runtime=runtime).kickoff() == "done"
    state = runtime.event_bus.runtime_state
    assert state is not None
    with pytest.raises(NotStorableError, match=r"^\$\.odd: cannot store a object, which step two left in the state;"):
        state.checkpoint(tmp_path)


def test_a_result_of_a_recorded_flow_that_cannot_be_stored_is_traced_to_its_step(
    tmp_path: Path, runtime: Runtime
) -> None:
    class Odd(Flow[dict[str, Any]]):
        @start()
        def one(self) -> object:
            return object()

    runtime.event_bus.enable_recording()
    Odd(runtime=runtime).kickoff()
    state = runtime.event_bus.runtime_state
    assert state is not None
    with pytest.raises(NotStorableError, match=r"^\$\.result: cannot store a object, which step one told of;"):
        state.checkpoint(tmp_path)


def test_s1_13_a_run_does_not_fail_for_what_cannot_be_stored_when_recording_was_switched_off_meanwhile(
    runtime: Runtime,
) -> None:
    class Odd(Flow[dict[str, Any]]):
        @start()
        def one(self) -> int:
            runtime.event_bus.disable_recording()
            return 1

        @listen(one)
        def two(self) -> int:
            return 2

        @listen(two)
        def three(self) -> object:
            return object()

        @listen(three)
        def four(self) -> str:
            return "done"

    runtime.event_bus.enable_recording()
    assert Odd(runtime=runtime).kickoff() == "done"


def test_s1_13_the_record_of_a_durable_run_is_bounded(tmp_path: Path, runtime: Runtime) -> None:
    kept: list[int] = []

    class Long(Flow[dict[str, Any]]):
        max_method_calls = 2000

        @start()
        def begin(self) -> None: ...

        @router(or_(begin, "again"))
        def loop(self) -> str:
            self.state["n"] = self.state.get("n", 0) + 1
            return "again" if self.state["n"] < 800 else "done"

    @runtime.event_bus.on(MethodExecutionFinishedEvent)
    def note(source: object, event: MethodExecutionFinishedEvent, state: RuntimeState) -> None:
        kept.append(len(state.event_record))

    with SqliteStore(tmp_path / "journal.db") as store:
        Long(runtime=runtime, checkpoint=CheckpointConfig(store, durability="exit")).kickoff()
    assert len(kept) == 801
    assert max(kept) == 250


def test_s1_13_an_event_that_nobody_hears_is_written_and_recorded_like_one_that_is_heard(
    tmp_path: Path, runtime: Runtime
) -> None:
    seen: list[dict[str, BaseEvent]] = []

    class Chain(Flow[Sum]):
        @start()
        def one(self) -> tuple[str, float]:
            return "a", 1.5

        @listen(one)
        async def two(self, given: tuple[str, float]) -> Path:
            return Path(given[0])

        @listen(two)
        def three(self, given: Path) -> list[Path]:
            self.state.total = 3
            return [given]

    @runtime.event_bus.on(FlowFinishedEvent)
    def look(source: object, event: FlowFinishedEvent, state: RuntimeState) -> None:
        events = [node.event for node in state.event_record]
        seen.append({f"{event.type} {getattr(event, 'method_name', '')}": event for event in events})

    rows = []
    with SqliteStore(tmp_path / "journal.db") as store:
        for is_heard in (False, True):
            if is_heard:
                runtime.event_bus.on(BaseEvent)(lambda source, event: None)
            flow = Chain(runtime=runtime, checkpoint=CheckpointConfig(store))
            assert flow.kickoff({"id": "same"}) == [Path("a")]
            rows.append(asyncio.run(_rows(store, str(flow.run_id))))
    unheard, heard = rows
    for one, other in zip(unheard, heard, strict=True):
        assert (one.type, one.delta, one.seq) == (other.type, other.delta, other.seq)
        assert json.loads(one.payload) == json.loads(other.payload)
        assert (one.origin.source_type, one.origin.source_name) == (other.origin.source_type, other.origin.source_name)
    assert _links(unheard) == _links(heard)
    assert list(seen[0]) == list(seen[1])
    for name in seen[0]:
        mine, theirs = ({**asdict(found[name]), "env": None} for found in seen)
        assert mine == theirs  # the live results, not what is stored of them


class SaidEvent(BaseEvent):
    """What a step tells by itself."""


@pytest.mark.parametrize("interval", [1, 3, 50])
def test_the_ids_of_a_tree_are_in_the_order_of_its_events_whoever_tells_of_them(
    tmp_path: Path, runtime: Runtime, interval: int
) -> None:
    class Inner(Flow[dict[str, Any]]):
        @start()
        def begin(self) -> None: ...

    class Telling(Flow[dict[str, Any]]):
        max_method_calls = 200

        @start()
        def begin(self) -> None: ...

        @router(or_(begin, "again"))
        def loop(self) -> str:
            self.state["n"] = number = self.state.get("n", 0) + 1
            if number % interval == 0:
                runtime.event_bus.emit(self, SaidEvent())
                Inner(runtime=runtime).kickoff()
            return "again" if number < 120 else "done"

    with SqliteStore(tmp_path / "journal.db") as store:
        flow = Telling(runtime=runtime, checkpoint=CheckpointConfig(store))
        flow.kickoff()
        rows = asyncio.run(_rows(store, str(flow.run_id)))
    ids = [row.event_id for row in rows]
    assert len(ids) > 240
    assert ids == sorted(set(ids))


async def _rows(store: SqliteStore, run_id: str) -> list[Row]:
    return [row async for row in store.read(run_id)]


def _links(rows: list[Row]) -> list[tuple[int | None, ...]]:
    """Which rows each one names, by their places."""
    places = {row.event_id: place for place, row in enumerate(rows)}
    named = [(row.parent_event_id, row.triggered_by_event_id, row.started_event_id) for row in rows]
    return [tuple(places.get(str(event_id)) for event_id in ids) for ids in named]


def test_s0_7_what_a_durable_run_records_is_freed_with_it_and_a_plain_one_records_nothing(
    tmp_path: Path, runtime: Runtime
) -> None:
    seen: list[weakref.ref[RuntimeState]] = []
    plain: list[None] = []

    @runtime.event_bus.on(MethodExecutionFinishedEvent)
    def note(source: object, event: MethodExecutionFinishedEvent, state: RuntimeState | None) -> None:
        if state is None:
            plain.append(None)
        else:
            seen.append(weakref.ref(state))

    with SqliteStore(tmp_path / "journal.db") as store:
        for _ in range(5):
            Adds(runtime=runtime, checkpoint=CheckpointConfig(store)).kickoff()
            Adds(runtime=runtime).kickoff()
        assert runtime.event_bus.runtime_state is None
        gc.collect()
        assert (len(seen), len(plain)) == (15, 15)
        assert [ref() for ref in seen] == [None] * 15
