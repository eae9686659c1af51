"""Where checkpoints are kept, and the ways to take a run up again from one."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import CheckpointConfig, Flow, FlowState, Runtime, listen, or_, router, start
from holdfast.checkpoints import JournalProvider, JsonProvider, SqliteProvider
from holdfast.errors import CorruptStoreError, GraphChangedError, StorageError, UsageError
from holdfast.events import (
    BaseEvent,
    CheckpointCompletedEvent,
    CheckpointFailedEvent,
    CheckpointForkedEvent,
    CheckpointPrunedEvent,
    CheckpointRestoredEvent,
    CheckpointStartedEvent,
    FlowFinishedEvent,
    FlowStartedEvent,
    MethodExecutionStartedEvent,
)
from holdfast.ports import Mark
from holdfast.stores import MemoryStore, SqliteStore


class Sum(FlowState):
    total: int = 0
    parts: list[str] = []  # noqa: RUF012 - pydantic copies it


class Adds(Flow[Sum]):
    broken: str = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[str] = []

    def _add(self, name: str, number: int) -> int:
        if self.broken == name:
            raise ConnectionError(name)
        self.calls.append(name)
        self.state.total += number
        self.state.parts.append(name)
        return self.state.total

    @start()
    def one(self) -> int:
        return self._add("one", 1)

    @listen(one)
    def two(self, given: int) -> int:
        return self._add("two", given + 1)

    @listen(two)
    async def three(self, given: int) -> int:
        return self._add("three", given)


class BreaksAtThree(Adds):
    broken = "three"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "journal.db") as store:
        yield store


@pytest.fixture
def config(store: SqliteStore) -> CheckpointConfig:
    return CheckpointConfig(store)


def marks_of(store: SqliteStore) -> list[Mark]:
    return sorted(asyncio.run(store.marks()), key=lambda mark: mark.seq)


def broken_run(config: CheckpointConfig, runtime: Runtime) -> None:
    with pytest.raises(ConnectionError):
        BreaksAtThree(checkpoint=config, runtime=runtime).kickoff()


# -- from_checkpoint -----------------------------------------------------------------------------------------------------------


def test_s1_4_a_flow_as_it_stood_has_its_state_outputs_and_counts_and_goes_on(
    store: SqliteStore, config: CheckpointConfig, runtime: Runtime
) -> None:
    assert Adds(checkpoint=config, runtime=runtime).kickoff() == 6
    two = marks_of(store)[1]
    flow = Adds.from_checkpoint(two.id, checkpoint=config, runtime=runtime)
    assert type(flow) is Adds
    assert (flow.state.total, flow.state.parts) == (3, ["one", "two"])
    assert flow.method_outputs == [1, 3]
    assert flow.method_counts == {"one": 1, "two": 1, "three": 1}  # the last was triggered, and is to be run
    with pytest.raises(StorageError, match="can only be forked"):
        flow.kickoff()


def test_s1_4_a_run_that_broke_goes_on_in_a_new_object_and_the_kickoff_after_that_starts_afresh(
    store: SqliteStore, config: CheckpointConfig, runtime: Runtime
) -> None:
    broken_run(config, runtime)
    [_, two] = marks_of(store)
    flow = BreaksAtThree.from_checkpoint(two.id, checkpoint=config, runtime=runtime)
    flow.broken = ""
    assert flow.kickoff() == 6
    assert flow.calls == ["three"]
    assert flow.method_outputs == [1, 3, 6]
    assert flow.kickoff() == 6
    assert flow.calls == ["three", "one", "two", "three"]
    assert flow.method_outputs == [1, 3, 6]


def test_s1_4_asked_of_the_base_the_recorded_class_is_made_or_its_module_named(
    config: CheckpointConfig, runtime: Runtime, tmp_path: Path, store: SqliteStore
) -> None:
    broken_run(config, runtime)
    [run] = asyncio.run(store.runs())
    found: Any = Flow.from_checkpoint(run.root_run_id, checkpoint=config, runtime=runtime)
    assert type(found) is BreaksAtThree
    module = tmp_path / "elsewhere.py"
    module.write_text(
        "from holdfast import *\nclass Gone(Flow):\n    @start()\n    def go(self):\n        raise LookupError\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import elsewhere  # type: ignore[import-not-found]

        with pytest.raises(LookupError):
            elsewhere.Gone(checkpoint=config, runtime=runtime).kickoff()
        gone = asyncio.run(store.runs())[0].root_run_id
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["elsewhere"], elsewhere
    import gc

    gc.collect()
    with pytest.raises(StorageError, match="import elsewhere"):
        Flow.from_checkpoint(gone, checkpoint=config, runtime=runtime)


def test_s1_11_after_a_resume_events_hang_where_they_belong_and_numbers_go_on(
    store: SqliteStore, config: CheckpointConfig, runtime: Runtime
) -> None:
    started: list[FlowStartedEvent] = []
    finished: list[FlowFinishedEvent] = []
    methods: list[MethodExecutionStartedEvent] = []
    runtime.event_bus.on(FlowStartedEvent)(lambda source, event: started.append(event))
    runtime.event_bus.on(FlowFinishedEvent)(lambda source, event: finished.append(event))
    broken_run(config, runtime)
    [run] = asyncio.run(store.runs())
    head = max(branch.head for branch in asyncio.run(store.branches(run.root_run_id)))
    runtime.event_bus.on(MethodExecutionStartedEvent)(lambda source, event: methods.append(event))
    flow = BreaksAtThree(checkpoint=config, runtime=runtime)
    flow.broken = ""
    flow.kickoff(from_checkpoint=run.root_run_id)
    runtime.event_bus.flush()
    [opened], [closed] = started, finished  # a run that goes on does not start again
    assert closed.started_event_id == opened.event_id
    last = methods[-1]
    assert last.parent_event_id == opened.event_id
    assert last.emission_sequence > head
    assert last.triggered_by_event_id is not None


# -- branches ------------------------------------------------------------------------------------------------------------------


def test_s1_16_a_completed_run_is_forked_onto_a_named_branch_with_an_edited_state(
    store: SqliteStore, config: CheckpointConfig, runtime: Runtime
) -> None:
    assert Adds(checkpoint=config, runtime=runtime).kickoff() == 6
    [one, *_] = marks_of(store)
    forks: list[CheckpointForkedEvent] = []
    runtime.event_bus.on(CheckpointForkedEvent)(lambda source, event: forks.append(event))
    flow = Adds.fork(one.id, branch="what-if", state={"total": 100}, checkpoint=config, runtime=runtime)
    assert flow.state.total == 100
    assert flow.kickoff() == 204  # 100 + (1 + 1), then twice that
    assert flow.calls == ["two", "three"]
    assert [event.branch for event in forks] == ["what-if"]
    names = {branch.name for branch in asyncio.run(store.branches(one.root_run_id))}
    assert names == {"main", "what-if"}
    main = [mark for mark in marks_of(store) if mark.branch == "main"]
    before = Adds.from_checkpoint(main[-1].id, checkpoint=config, runtime=runtime)
    assert before.state.total == 6  # the recorded run is as it was
    after = [mark for mark in marks_of(store) if mark.branch == "what-if"]
    assert after[0].parent_id == one.id
    with pytest.raises(StorageError, match="what-if"):
        Adds.fork(one.id, branch="what-if", checkpoint=config, runtime=runtime).kickoff()


def test_a_fork_that_was_killed_resumes_with_its_edits(
    store: SqliteStore, config: CheckpointConfig, runtime: Runtime
) -> None:
    assert Adds(checkpoint=config, runtime=runtime).kickoff() == 6
    [one, *_] = marks_of(store)

    class Adds2(Adds):
        broken = "three"

    with pytest.raises(ConnectionError):
        Adds2.fork(one.id, branch="b", state={"total": 100}, checkpoint=config, runtime=runtime).kickoff()
    again = Adds.from_checkpoint(one.root_run_id, checkpoint=config, runtime=runtime)
    assert again.state.total == 102
    assert again.kickoff() == 204


# -- changed programs ----------------------------------------------------------------------------------------------------------


def test_a_changed_program_is_refused_by_name_or_adopted(
    store: SqliteStore, config: CheckpointConfig, runtime: Runtime
) -> None:
    broken_run(config, runtime)
    [run] = asyncio.run(store.runs())

    class Changed(Adds):
        @listen(Adds.two)
        def extra(self) -> str:
            return "extra"

        @router(Adds.three)
        def check(self) -> str:
            return "done"

    with pytest.raises(GraphChangedError, match=r"step extra was added; step check was added.*adopt"):
        Changed(checkpoint=config, runtime=runtime).kickoff(from_checkpoint=run.root_run_id)
    adopting = CheckpointConfig(store, on_change="adopt")
    flow = Changed(checkpoint=adopting, runtime=runtime)
    flow.kickoff(from_checkpoint=run.root_run_id)
    assert flow.calls == ["three"]
    assert flow.state.parts == ["one", "two", "three"]


def test_an_adopted_program_without_a_recorded_step_goes_on_without_it(store: SqliteStore, runtime: Runtime) -> None:
    class Longer(Flow[Sum]):
        @start()
        def one(self) -> int:
            return 1

        @listen(one)
        def gone(self) -> int:
            raise ConnectionError

        @listen(one)
        def kept(self) -> int:
            raise ConnectionError

    class Shorter(Flow[Sum]):
        @start()
        def one(self) -> int:
            raise AssertionError

        @listen(one)
        def kept(self) -> int:
            return 2

    with pytest.raises((ConnectionError, ExceptionGroup)):
        Longer(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    [run] = asyncio.run(store.runs())
    adopting = Shorter(checkpoint=CheckpointConfig(store, on_change="adopt"), runtime=runtime)
    assert adopting.kickoff(from_checkpoint=run.root_run_id) == 2


# -- providers -----------------------------------------------------------------------------------------------------------------


def test_s1_2_with_json_each_checkpoint_is_a_file_that_another_machine_restores(tmp_path: Path) -> None:
    here = CheckpointConfig(JsonProvider(tmp_path / "here"))
    with Runtime() as runtime:
        broken_run(here, runtime)
    files = sorted((tmp_path / "here").rglob("*.json"))
    assert len(files) == 2
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert json.loads(files[-1].read_bytes())["run"]["name"] == "BreaksAtThree"
    moved = tmp_path / "moved.json"
    files[-1].rename(moved)
    with Runtime() as other, SqliteStore(tmp_path / "there.db") as there:
        flow = BreaksAtThree.from_checkpoint(moved, checkpoint=CheckpointConfig(there), runtime=other)
        flow.broken = ""
        assert flow.state.parts == ["one", "two"]
        assert flow.kickoff() == 6
        assert flow.calls == ["three"]


def test_with_json_a_run_goes_on_from_a_file_by_its_id(tmp_path: Path, runtime: Runtime) -> None:
    provider = JsonProvider(tmp_path)
    broken_run(CheckpointConfig(provider), runtime)
    newest = provider.list()[0]
    flow = BreaksAtThree(checkpoint=CheckpointConfig(provider), runtime=runtime)
    flow.broken = ""
    assert flow.kickoff(from_checkpoint=newest.id) == 6
    assert flow.calls == ["three"]
    assert len(provider.list()) == 3


def test_with_json_a_run_goes_on_from_a_file_that_is_somewhere_else(tmp_path: Path, runtime: Runtime) -> None:
    """Only files of the folder where the run is written down now were found."""
    there, here = JsonProvider(tmp_path / "there"), JsonProvider(tmp_path / "here")
    broken_run(CheckpointConfig(there), runtime)
    file = there.list()[0].location
    config = CheckpointConfig(here)
    assert Adds(checkpoint=config, runtime=runtime).kickoff(from_checkpoint=Path(file)) == 6
    flow = Adds.from_checkpoint(file, checkpoint=config, runtime=runtime)
    assert (flow.state.total, flow.kickoff(), flow.calls) == (3, 6, ["three"])
    forked = Adds.fork(file, branch="side", state={"total": 10}, checkpoint=config, runtime=runtime)
    assert forked.kickoff() == 13
    assert len(here.list()) == 3
    torn = tmp_path / "torn.json"
    torn.write_bytes(Path(file).read_bytes()[:-100])
    with pytest.raises(CorruptStoreError, match=str(torn)):
        Adds.from_checkpoint(torn, checkpoint=config, runtime=runtime)


def test_a_provider_of_a_journal_is_where_runs_are_written_down(tmp_path: Path, runtime: Runtime) -> None:
    with SqliteProvider(tmp_path / "p.db") as provider:
        broken_run(CheckpointConfig(provider), runtime)
        newest = provider.list()[0]
        flow = BreaksAtThree.from_checkpoint(newest.id, checkpoint=CheckpointConfig(provider), runtime=runtime)
        flow.broken = ""
        assert flow.kickoff() == 6


def test_true_means_the_projects_own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Runtime() as runtime:
        assert Adds(checkpoint=True, runtime=runtime).kickoff() == 6
    file = tmp_path / ".holdfast" / "holdfast.db"
    assert file.stat().st_mode & 0o777 == 0o600
    with SqliteStore(file) as store:
        assert [mark.trigger for mark in marks_of(store)] == ["method_execution_finished"] * 3
    with SqliteStore(tmp_path / "other.db") as other, Runtime(store=other) as runtime:
        Adds(checkpoint=True, runtime=runtime).kickoff()
        assert len(asyncio.run(other.runs())) == 1


def test_checkpoints_are_told_of_and_bounded(tmp_path: Path, runtime: Runtime) -> None:
    told: list[Any] = []
    kinds = (CheckpointStartedEvent, CheckpointCompletedEvent, CheckpointFailedEvent, CheckpointPrunedEvent)
    runtime.event_bus.on(*kinds)(lambda source, event: told.append(event))
    with SqliteStore(tmp_path / "journal.db") as store:
        Adds(checkpoint=CheckpointConfig(store, max_checkpoints=2), runtime=runtime).kickoff()
        assert len(marks_of(store)) == 2
        runtime.event_bus.flush()
        assert [event.type for event in told] == ["checkpoint_started", "checkpoint_completed"] * 3 + [
            "checkpoint_pruned"
        ]
        assert told[-2].checkpoint_id == marks_of(store)[-1].id
    told.clear()
    files = JsonProvider(tmp_path / "files")
    Adds(checkpoint=CheckpointConfig(files, max_checkpoints=1), runtime=runtime).kickoff()
    assert len(files.list()) == 1


@pytest.mark.parametrize("triggers", [("*",), ("method_execution_finished",)])
def test_handlers_hear_of_checkpoints_in_the_order_of_the_events(
    tmp_path: Path, runtime: Runtime, triggers: tuple[str, ...]
) -> None:
    """The checkpoints that are stored with the end of a run were told of before that end, though numbered after it."""
    heard: list[BaseEvent] = []
    runtime.event_bus.on(BaseEvent)(lambda source, event: heard.append(event))
    with SqliteStore(tmp_path / "journal.db") as store:
        config = CheckpointConfig(store, on_events=triggers, max_checkpoints=2)
        Adds(checkpoint=config, runtime=runtime).kickoff()
        runtime.event_bus.flush()
    numbers = [event.emission_sequence for event in heard]
    assert numbers == sorted(numbers)
    after = [event.type for event in heard][[event.type for event in heard].index("run_completed") :]
    assert {"checkpoint_completed", "checkpoint_pruned"} <= {*after}


def test_max_checkpoints_bounds_the_branch_that_was_run_and_no_other(runtime: Runtime) -> None:
    """What was not among the newest thousand was dropped, whichever branch it was on."""

    class Counts(Flow[dict[str, Any]]):
        max_method_calls = 1_000

        @start()
        def begin(self) -> None:
            self.state["n"] = 0

        @listen(or_(begin, "again"))
        def count(self) -> None:
            self.state["n"] += 1

        @router(count)
        def check(self) -> str:
            return "again" if self.state["n"] < self.state["upto"] else "done"

    with JournalProvider(MemoryStore()) as provider:
        config = CheckpointConfig(provider, on_events=("*",))
        Counts(checkpoint=config, runtime=runtime).kickoff({"upto": 2})
        on_main = provider.list()
        bounded = CheckpointConfig(provider, on_events=("*",), max_checkpoints=3)
        edited = {"upto": 300}
        where = on_main[len(on_main) // 2].id
        Counts.fork(where, branch="long", state=edited, checkpoint=bounded, runtime=runtime).kickoff()
        kept = [info for info in provider.list() if info.branch == "main"]
        assert [info.id for info in kept] == [info.id for info in on_main]
        assert len(provider.list()) == len(kept) + 3


def test_max_checkpoints_keeps_one_that_a_branch_stands_on(runtime: Runtime) -> None:
    """The rows stayed, and the checkpoint where the branch had left was dropped."""
    with JournalProvider(MemoryStore()) as provider:
        config = CheckpointConfig(provider, on_events=("*",))
        broken = BreaksAtThree(checkpoint=config, runtime=runtime)
        with pytest.raises(ConnectionError):
            broken.kickoff()
        head, *_, stood_on, _, _ = provider.list()
        side = BreaksAtThree.fork(stood_on.id, branch="side", checkpoint=config, runtime=runtime)
        with pytest.raises(ConnectionError):
            side.kickoff()
        bounded = CheckpointConfig(provider, max_checkpoints=1)
        Adds(checkpoint=bounded, runtime=runtime).kickoff(from_checkpoint=head.id)
        assert stood_on.id in {info.id for info in provider.list()}


def test_a_branch_that_had_no_checkpoint_yet_still_stands_on_the_one_where_it_left(runtime: Runtime) -> None:
    """When it was gone on with, its first checkpoint followed none, and a prune dropped the one where it had left."""
    with JournalProvider(MemoryStore()) as provider:
        broken_run(CheckpointConfig(provider), runtime)
        stood_on = provider.list()[-1]
        unmarked = CheckpointConfig(provider, on_events=())
        side = BreaksAtThree.fork(stood_on.id, branch="side", checkpoint=unmarked, runtime=runtime)
        with pytest.raises(ConnectionError):
            side.kickoff()
        Adds(checkpoint=CheckpointConfig(provider), runtime=runtime).kickoff(from_checkpoint=stood_on.root_run_id)
        first = provider.list()[0]
        assert (first.branch, first.parent_id) == ("side", stood_on.id)
        assert provider.prune(keep=1) == 0  # main keeps its newest, and the one that side stands on


def test_a_file_that_cannot_be_written_is_told_of_and_the_run_goes_on(tmp_path: Path, runtime: Runtime) -> None:
    told: list[CheckpointFailedEvent] = []
    runtime.event_bus.on(CheckpointFailedEvent)(lambda source, event: told.append(event))
    (tmp_path / "taken").write_text("not a folder")
    assert Adds(checkpoint=CheckpointConfig(JsonProvider(tmp_path / "taken")), runtime=runtime).kickoff() == 6
    runtime.event_bus.flush()
    assert len(told) == 3


def test_a_resume_is_told_of(store: SqliteStore, config: CheckpointConfig, runtime: Runtime) -> None:
    told: list[CheckpointRestoredEvent] = []
    runtime.event_bus.on(CheckpointRestoredEvent)(lambda source, event: told.append(event))
    broken_run(config, runtime)
    [run] = asyncio.run(store.runs())
    broken = BreaksAtThree(checkpoint=config, runtime=runtime)
    with pytest.raises(ConnectionError):
        broken.kickoff(from_checkpoint=run.root_run_id)
    runtime.event_bus.flush()
    assert [event.branch for event in told] == ["main"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CheckpointConfig("runs.db"), "SqliteProvider"),
        (lambda: CheckpointConfig(durability=cast(Any, "sync")), "none of step, async, exit"),
        (lambda: CheckpointConfig(on_events=("method_execution_finishd",)), "did you mean 'method_execution_finished'"),
        (lambda: CheckpointConfig(on_events=cast(Any, "flow_started")), "several event types"),
        (lambda: Adds(checkpoint=cast(Any, "runs.db")), "checkpoint=True"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused_in_words(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
    CheckpointConfig(on_events=("defined_by_somebody_later",))


def test_a_flow_knows_the_id_of_its_latest_run(store: SqliteStore, config: CheckpointConfig, runtime: Runtime) -> None:
    flow = BreaksAtThree(checkpoint=config, runtime=runtime)
    before = flow.run_id
    with pytest.raises(ConnectionError):
        flow.kickoff()
    flow.broken = ""
    assert (before, flow.run_id is None) == (None, False)
    assert flow.kickoff(from_checkpoint=flow.run_id) == 6
