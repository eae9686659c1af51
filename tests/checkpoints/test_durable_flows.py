"""Flows that are written down, killed, and taken up again."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_serializer
from tests.checkpoints.programs import MOMENTS, RESULT, Busy, Effects, Item

from holdfast import Flow, FlowState, Runtime, is_replaying, listen, or_, router, start
from holdfast.checkpoints import CheckpointConfig, export_checkpoint, restore
from holdfast.errors import (
    GraphChangedError,
    NotStorableError,
    RunBusyError,
    RuntimeClosedError,
    StepFailedError,
    StorageError,
    UsageError,
)
from holdfast.events import MethodExecutionFinishedEvent
from holdfast.ports import Mark, RunInfo
from holdfast.stores import MemoryStore, SqliteStore
from holdfast.testing import ManualClock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "journal.db") as store:
        yield store


def only_run(store: SqliteStore) -> RunInfo:
    [info] = asyncio.run(store.runs())
    return info


def marks(store: SqliteStore) -> list[Mark]:
    return asyncio.run(store.marks())


def play(folder: Path, die_at: str = "", checkpoint: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.checkpoints.programs", str(folder), die_at, checkpoint]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("moment", MOMENTS)
def test_s1_17_killed_at_any_effect_a_flow_goes_on_in_another_process(tmp_path: Path, moment: str) -> None:
    killed = play(tmp_path, moment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with SqliteStore(tmp_path / "journal.db") as store:
        run = only_run(store)
    assert run.status == "running"
    again = play(tmp_path, checkpoint=run.root_run_id)
    assert again.stdout.strip() == str(RESULT), again.stderr
    effects = Counter((tmp_path / "effects").read_text().splitlines())
    assert set(effects) == {"left", "right", "join", "work 1", "work 2", "work 3", "end"}
    # only what was in flight may happen once more: the step that was killed, and one that overlapped it
    repeated = {name for name, times in effects.items() if times > 1}
    assert repeated <= {moment.partition(" ")[2], "left", "right"}
    assert max(effects.values()) <= 2
    if moment.partition(" ")[2] not in ("left", "right"):
        assert not repeated & {"left", "right"}


def busy(store: SqliteStore, tmp_path: Path, runtime: Runtime) -> Busy:
    return Busy(Effects(tmp_path / "effects"), checkpoint=CheckpointConfig(store), runtime=runtime)


def test_a_run_is_stored_with_its_end_and_a_checkpoint_after_each_method(
    store: SqliteStore, tmp_path: Path, runtime: Runtime
) -> None:
    flow = busy(store, tmp_path, runtime)
    assert flow.kickoff() == RESULT
    assert only_run(store).status == "completed"
    assert {mark.trigger for mark in marks(store)} == {"method_execution_finished"}
    assert len(marks(store)) == len(flow.method_outputs)


async def test_the_same_on_a_loop(store: SqliteStore, tmp_path: Path, runtime: Runtime) -> None:
    assert await busy(store, tmp_path, runtime).akickoff() == RESULT


def test_s1_16_an_earlier_checkpoint_resumes_on_a_branch_of_its_own(
    store: SqliteStore, tmp_path: Path, runtime: Runtime
) -> None:
    class Breaks(Busy):
        broken = True

        def end(self) -> list[Any]:
            if self.broken:
                raise LookupError("not yet")
            return super().end()

    flow = Breaks(Effects(tmp_path / "effects"), checkpoint=CheckpointConfig(store), runtime=runtime)
    with pytest.raises(LookupError):
        flow.kickoff()
    assert only_run(store).status == "failed"
    after_join = sorted(marks(store), key=lambda mark: mark.seq)[2]
    Breaks.broken = False
    assert flow.kickoff(from_checkpoint=after_join.id) == RESULT
    effects = Counter((tmp_path / "effects").read_text().splitlines())
    assert effects["left"] == effects["join"] == effects["end"] == 1
    assert effects["work 1"] == 2
    names = [branch.name for branch in asyncio.run(store.branches(only_run(store).root_run_id))]
    assert names[0] == "main"
    assert len(names) == 2


def test_a_failed_run_goes_on_at_its_failed_step(store: SqliteStore, tmp_path: Path, runtime: Runtime) -> None:
    calls: list[str] = []

    class Fragile(Flow[dict[str, Any]]):
        ready = False

        @start()
        def prepare(self) -> str:
            calls.append("prepare")
            self.state["item"] = Item(name="kept").model_dump()
            return "prepared"

        @listen(prepare)
        def use(self, given: str) -> str:
            calls.append("use")
            if not self.ready:
                raise ConnectionError("down")
            return f"{given} {self.state['item']['name']}"

    flow = Fragile(checkpoint=CheckpointConfig(store), runtime=runtime)
    with pytest.raises(ConnectionError):
        flow.kickoff()
    flow.ready = True
    assert flow.kickoff(from_checkpoint=only_run(store).root_run_id) == "prepared kept"
    assert calls == ["prepare", "use", "use"]
    assert only_run(store).incarnation == 2


def test_s0_5_listeners_are_shown_what_completed_before_once_in_order_and_flagged(
    store: SqliteStore, tmp_path: Path, runtime: Runtime
) -> None:
    class Two(Flow[dict[str, Any]]):
        broken = True

        @start()
        def one(self) -> str:
            return "one"

        @listen(one)
        def two(self, given: str) -> str:
            if self.broken:
                raise ValueError("broken")
            return given + " two"

    seen: list[tuple[str, Any, bool]] = []

    @runtime.event_bus.on(MethodExecutionFinishedEvent)
    def note(source: object, event: MethodExecutionFinishedEvent) -> None:
        seen.append((event.method_name, event.result, is_replaying()))

    flow = Two(checkpoint=CheckpointConfig(store), runtime=runtime)
    with pytest.raises(ValueError, match="broken"):
        flow.kickoff()
    assert seen == [("one", "one", False)]
    seen.clear()
    flow.broken = False
    assert flow.kickoff(from_checkpoint=only_run(store).root_run_id) == "one two"
    assert seen == [("one", "one", True), ("two", "one two", False)]


async def test_a_second_live_resumer_is_refused(store: SqliteStore, tmp_path: Path, runtime: Runtime) -> None:
    inside, go = asyncio.Event(), asyncio.Event()

    class Slow(Flow[dict[str, Any]]):
        @start()
        async def wait(self) -> str:
            inside.set()
            await go.wait()
            return "done"

    flow = Slow(checkpoint=CheckpointConfig(store), runtime=runtime)
    running = asyncio.create_task(flow.akickoff())
    await inside.wait()
    [info] = await store.runs()
    with pytest.raises(RunBusyError):
        await flow.akickoff(from_checkpoint=info.root_run_id)
    go.set()
    assert await running == "done"


async def test_a_busy_run_is_left_without_a_new_branch(store: SqliteStore, runtime: Runtime) -> None:
    """The branch was begun before the hold was taken: it stayed, its name was gone, and the run's id stood for it."""
    inside, go = asyncio.Event(), asyncio.Event()

    class Slow(Flow[dict[str, Any]]):
        @start()
        async def one(self) -> str:
            return "one"

        @listen(one)
        async def two(self, given: str) -> str:
            return f"{given} two"

        @listen(two)
        async def wait(self, given: str) -> str:
            inside.set()
            await go.wait()
            return given

    config = CheckpointConfig(store)
    flow = Slow(checkpoint=config, runtime=runtime)
    running = asyncio.create_task(flow.akickoff())
    await inside.wait()
    first = (await store.marks())[-1]
    with pytest.raises(RunBusyError):
        await Slow(checkpoint=config, runtime=runtime).akickoff(from_checkpoint=first.id)
    with pytest.raises(RunBusyError):
        await Slow.fork(first.id, branch="side", checkpoint=config, runtime=runtime).akickoff()
    assert [branch.name for branch in await store.branches(first.root_run_id)] == ["main"]
    go.set()
    assert await running == "one two"


def test_a_fork_that_is_refused_leaves_the_run_free_and_as_it_was(
    store: SqliteStore, tmp_path: Path, runtime: Runtime
) -> None:
    flow = busy(store, tmp_path, runtime)
    flow.kickoff()
    first = min(marks(store), key=lambda mark: mark.seq)
    effects, config = Effects(tmp_path / "effects"), CheckpointConfig(store)
    fork = Busy.fork(first.id, branch="main", checkpoint=config, runtime=runtime, effects=effects)
    with pytest.raises(StorageError, match="has a branch 'main' already"):
        fork.kickoff()
    info = only_run(store)
    assert (info.status, info.held_until_us) == ("completed", 0)


def written(file: Path, document: bytes) -> Path:
    file.write_bytes(document)
    return file


def test_a_file_that_is_looked_at_does_not_move_what_the_id_of_its_run_stands_for(
    store: SqliteStore, tmp_path: Path, runtime: Runtime
) -> None:
    """The file is put on a branch of its own. That was the one begun last, so what had completed since ran again."""
    calls: list[str] = []

    class Three(Flow[dict[str, Any]]):
        fails = True

        @start()
        def one(self) -> None:
            calls.append("one")

        @listen(one)
        def two(self) -> None:
            calls.append("two")

        @listen(two)
        def three(self) -> str:
            if self.fails:
                raise ConnectionError
            return "three"

    config = CheckpointConfig(store)
    flow = Three(checkpoint=config, runtime=runtime)
    with pytest.raises(ConnectionError):
        flow.kickoff()
    first = min(marks(store), key=lambda mark: mark.seq)
    file = written(tmp_path / "first.json", asyncio.run(export_checkpoint(store, first.id)))
    assert Three.from_checkpoint(file, checkpoint=config, runtime=runtime).method_outputs == [None]
    of_its_id = asyncio.run(export_checkpoint(store, first.root_run_id))
    assert Three.from_checkpoint(
        written(tmp_path / "head.json", of_its_id), checkpoint=config, runtime=runtime
    ).method_outputs == [None, None]

    flow.fails = False
    assert flow.kickoff(from_checkpoint=only_run(store).root_run_id) == "three"
    assert calls == ["one", "two"]


def test_a_run_that_another_live_process_holds_is_busy_even_when_its_hold_has_run_out(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.checkpoints.programs", str(tmp_path), "stop before join", ""]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "stopped\n"
        later = ManualClock(time.time_ns() + 3_600_000_000_000)
        with SqliteStore(tmp_path / "journal.db") as store, Runtime(clock=later) as runtime:
            flow = busy(store, tmp_path, runtime)
            with pytest.raises(RunBusyError, match=str(holder.pid)):
                flow.kickoff(from_checkpoint=only_run(store).root_run_id)
            holder.kill()
            holder.wait()
            assert flow.kickoff(from_checkpoint=only_run(store).root_run_id) == RESULT
    finally:
        holder.kill()
        holder.communicate()


def test_what_has_completed_can_only_be_forked(store: SqliteStore, tmp_path: Path, runtime: Runtime) -> None:
    flow = busy(store, tmp_path, runtime)
    flow.kickoff()
    with pytest.raises(StorageError, match="only be forked"):
        flow.kickoff(from_checkpoint=only_run(store).root_run_id)


def test_a_changed_program_is_refused_by_the_names_of_its_steps(
    store: SqliteStore, tmp_path: Path, runtime: Runtime
) -> None:
    class Before(Flow[dict[str, Any]]):
        @start()
        def one(self) -> None:
            raise ValueError("stop here")

    class After(Flow[dict[str, Any]]):
        @start()
        def one(self) -> None: ...

        @listen(one)
        def two(self) -> None: ...

    with pytest.raises(ValueError, match="stop here"):
        Before(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    with pytest.raises(GraphChangedError, match="step two was added"):
        After(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff(from_checkpoint=only_run(store).root_run_id)


def test_a_result_that_cannot_be_stored_fails_the_run_and_names_it_and_its_step(
    store: SqliteStore, tmp_path: Path, runtime: Runtime
) -> None:
    class Opaque(Flow[dict[str, Any]]):
        @start()
        def zero(self) -> None: ...

        @listen(zero)
        def one(self) -> object:
            return {"handle": object()}

    told = r"^\$\.result\.handle: cannot store a object, which step one returned; store plain data"
    with pytest.raises(NotStorableError, match=told) as caught:
        Opaque(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    assert (caught.value.step, caught.value.path) == ("one", "$.result.handle")


@pytest.mark.parametrize("kind", ["alone", "overlapping"])
def test_a_state_that_cannot_be_stored_names_the_step_that_left_it_so(
    store: SqliteStore, runtime: Runtime, kind: str
) -> None:
    class Alone(Flow[dict[str, Any]]):
        @start()
        def zero(self) -> None: ...

        @listen(zero)
        def one(self) -> None:
            self.state["handle"] = object()

    class Overlapping(Flow[dict[str, Any]]):
        @start()
        def one(self) -> None:
            self.state["handle"] = object()

        @start()
        def other(self) -> None: ...

    flow = Alone if kind == "alone" else Overlapping
    with pytest.raises(
        NotStorableError, match=r"^\$\.handle: cannot store a object, which step one left in the state;"
    ):
        flow(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()


def test_an_unknown_checkpoint_and_a_flow_without_a_store_are_told_in_words(
    store: SqliteStore, tmp_path: Path, runtime: Runtime
) -> None:
    with pytest.raises(StorageError, match="nonsense"):
        busy(store, tmp_path, runtime).kickoff(from_checkpoint="nonsense")
    with pytest.raises(UsageError, match="CheckpointConfig"):
        Busy(Effects(tmp_path / "effects"), runtime=runtime).kickoff(from_checkpoint="nonsense")


def test_s0_4_a_flow_that_is_written_down_records_nothing_on_the_bus(
    store: SqliteStore, tmp_path: Path, runtime: Runtime
) -> None:
    busy(store, tmp_path, runtime).kickoff()
    assert runtime.event_bus.runtime_state is None


def test_inputs_given_on_a_resume_are_written_down_too(store: SqliteStore, tmp_path: Path, runtime: Runtime) -> None:
    # regression: the second resume knew nothing of what the first was given
    class Stubborn(Flow[dict[str, Any]]):
        ready = False

        @start()
        def only(self) -> Any:
            if not self.ready:
                raise ValueError("not ready")
            return self.state["x"]

    flow = Stubborn(checkpoint=CheckpointConfig(store), runtime=runtime)
    with pytest.raises(ValueError, match="not ready"):
        flow.kickoff({"x": 1})
    run_id = only_run(store).root_run_id
    with pytest.raises(ValueError, match="not ready"):
        flow.kickoff({"x": 99}, from_checkpoint=run_id)
    flow.ready = True
    assert flow.kickoff(from_checkpoint=run_id) == 99


class Colour(Enum):
    RED = "red"


class Rich(FlowState):
    camel: int = Field(default=0, alias="camelCase")
    when: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    seen: set[str] = set()  # noqa: RUF012 - pydantic copies it
    price: Decimal = Decimal(0)
    item: Item = Item(name="")


@dataclass
class Inner:
    v: int = 0


@dataclass
class Kept:
    id: str = ""
    inner: Inner = field(default_factory=Inner)
    late: int = field(default=0, init=False)


@pytest.mark.parametrize("kind", [Rich, Kept, {"start": 1}], ids=["model", "dataclass", "dict"])
def test_states_and_results_have_their_types_again_after_a_resume(
    store: SqliteStore, runtime: Runtime, kind: Any
) -> None:
    class Typed(Flow[Any]):
        initial_state = kind
        ready = False

        @start()
        def fill(self) -> Item:
            state = self.state
            if isinstance(state, Rich):
                state.camel, state.seen, state.price = 7, {"a"}, Decimal("1.10")
                state.item = Item(name="kept", tags=("x",))
            elif isinstance(state, Kept):
                state.inner, state.late = Inner(3), 5
            else:
                del state["start"]
                state["tuple"] = (1, {"x"})
            return Item(name="result")

        @router(fill)
        def colour(self) -> Colour:
            return Colour.RED

        @listen(Colour.RED)
        def look(self, given: Item) -> tuple[Any, Item]:
            if not self.ready:
                raise ValueError("not ready")
            return self.state, given

    flow = Typed(checkpoint=CheckpointConfig(store, durability="step"), runtime=runtime)
    with pytest.raises(ValueError, match="not ready"):
        flow.kickoff()
    before, Typed.ready = flow.state, True
    flow.kickoff(from_checkpoint=only_run(store).root_run_id)
    assert flow.state == before
    assert type(flow.state) is type(before)
    assert flow.method_outputs[0] == Item(name="result")
    assert flow.method_outputs[1] is Colour.RED


class Computes(BaseModel):
    model_config = ConfigDict(extra="forbid")

    side: int = 2

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.side**2


class Shouts(Computes):
    """Has a form of its own too."""

    name: str = "square"

    @field_serializer("name")
    def shout(self, name: str) -> str:
        return name.upper()


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    colour: Colour = Colour.RED
    when: datetime = datetime(2020, 1, 1, tzinfo=UTC)


class Particular(FlowState):
    model_config = ConfigDict(strict=True)

    computes: Computes = Computes()
    shouts: list[Shouts] = [Shouts()]  # noqa: RUF012 - pydantic copies it
    strict: Strict = Strict()
    colour: Colour = Colour.RED


def test_models_that_refuse_what_they_compute_or_take_no_other_type_come_back(
    store: SqliteStore, runtime: Runtime
) -> None:
    """What is computed was stored, and refused as an extra field; an enum is stored as its value, which a strict model refused."""

    class Draws(Flow[Particular]):
        fails = True

        @start()
        def draw(self) -> Strict:
            self.state.computes.side = 3
            return Strict()

        @listen(draw)
        def look(self, given: Strict) -> tuple[int, int, Colour, Colour]:
            if self.fails:
                raise ConnectionError
            return self.state.computes.area, self.state.shouts[0].area, self.state.strict.colour, given.colour

    flow = Draws(checkpoint=CheckpointConfig(store), runtime=runtime)
    with pytest.raises(ConnectionError):
        flow.kickoff()
    flow.fails = False
    assert flow.kickoff(from_checkpoint=str(flow.run_id)) == (9, 4, Colour.RED, Colour.RED)


def test_a_run_goes_on_with_the_branch_it_took_last(store: SqliteStore, tmp_path: Path, runtime: Runtime) -> None:
    class Twice(Flow[dict[str, Any]]):
        fails = True

        @start()
        def one(self) -> str:
            self.state["path"] = "main" if self.fails else "branch"
            return "one"

        @listen(one)
        def two(self) -> str:
            self.state["path"] += " two"
            return "two"

        @listen(two)
        def three(self) -> str:
            if self.fails:
                raise ValueError("fails")
            return str(self.state["path"])

    flow = Twice(checkpoint=CheckpointConfig(store), runtime=runtime)
    with pytest.raises(ValueError, match="fails"):
        flow.kickoff()
    first = min(marks(store), key=lambda mark: mark.seq)
    with pytest.raises(ValueError, match="fails"):
        flow.kickoff({"path": "edited"}, from_checkpoint=first.id)
    flow.fails = False
    assert flow.kickoff(from_checkpoint=only_run(store).root_run_id) == "edited two"


async def test_a_step_that_takes_longer_than_the_hold_keeps_its_run(store: SqliteStore) -> None:
    clock, inside, go = ManualClock(), asyncio.Event(), asyncio.Event()

    class Slow(Flow[dict[str, Any]]):
        @start()
        async def wait(self) -> str:
            inside.set()
            await go.wait()
            return "done"

    async with Runtime(clock=clock) as runtime:
        running = asyncio.create_task(Slow(checkpoint=CheckpointConfig(store), runtime=runtime).akickoff())
        await inside.wait()
        [before] = await store.runs()
        for _ in range(4):
            await clock.until_sleeping()
            clock.advance(25)
            earlier = before.held_until_us
            while before.held_until_us <= earlier:
                await asyncio.sleep(0)
                [before] = await store.runs()
        assert before.held_until_us > clock.time_ns() // 1000
        go.set()
        assert await running == "done"


async def test_a_step_that_raises_cancelled_error_by_itself_fails_the_flow(runtime: Runtime) -> None:
    class Odd(Flow[dict[str, Any]]):
        @start()
        async def one(self) -> None:
            raise asyncio.CancelledError

        @start()
        async def two(self) -> None: ...

    with pytest.raises(StepFailedError, match="one raised CancelledError"):
        await Odd(runtime=runtime).akickoff()


class Spinning(Flow[dict[str, Any]]):
    """Steps that never wait, until something else on the loop has had a turn."""

    max_method_calls = 100_000
    spins = 0
    others_had_a_turn = False

    @start()
    async def begin(self) -> None: ...

    @router(or_(begin, "again"))
    async def spin(self) -> str:
        self.spins += 1
        if self.spins == 10:
            asyncio.get_running_loop().call_soon(setattr, self, "others_had_a_turn", True)
        return "done" if self.others_had_a_turn else "again"


async def test_others_on_the_loop_have_a_turn_while_steps_are_stored_on_the_spot(runtime: Runtime) -> None:
    flow = Spinning(checkpoint=CheckpointConfig(MemoryStore()), runtime=runtime)
    assert await flow.akickoff() == "done"


def test_a_run_that_could_not_start_leaves_no_heartbeat_behind(store: SqliteStore) -> None:
    clock = ManualClock()
    runtime = Runtime(clock=clock)
    flow = Busy(Effects(Path("unused")), checkpoint=CheckpointConfig(store), runtime=runtime)
    runtime.close()
    try:
        with pytest.raises(RuntimeClosedError):
            flow.kickoff()
        before = only_run(store).held_until_us
        clock.advance(100)
        assert asyncio.run_coroutine_threadsafe(_tasks_left(), runtime.loop_thread.loop).result(10) == []
        assert only_run(store).held_until_us == before
    finally:
        runtime.loop_thread.stop()


async def _tasks_left() -> list[str]:
    for _ in range(5):
        await asyncio.sleep(0)
    return [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_s1_18_what_a_step_changed_is_not_stored_if_its_result_cannot_be(store: SqliteStore, runtime: Runtime) -> None:
    """Where somebody heard of the step, its changes were stored with the next event of the thread: that the flow failed."""

    class Unstorable(Flow[dict[str, Any]]):
        @start()
        def change(self) -> object:
            self.state["changed"] = True
            return object()

    runtime.event_bus.on(MethodExecutionFinishedEvent)(lambda source, event: None)
    with pytest.raises(NotStorableError):
        Unstorable(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    [run] = asyncio.run(store.runs())
    assert "changed" not in asyncio.run(restore(store, run.root_run_id)).state
