"""`@persist`: what is saved, when, where; what a kickoff with an id begins with; what happens when saving fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from tests.runs.support import run_script

from holdfast import Flow, FlowState, Runtime, and_, event_bus, listen, or_, persist, router, start
from holdfast.checkpoints import CheckpointConfig
from holdfast.errors import FlowDefinitionError, FlowInputError, NotStorableError, StorageError
from holdfast.events import BaseEvent, FlowFailedEvent
from holdfast.stores import MemoryPersistence, MemoryStore, SqlitePersistence
from holdfast.testing import isolated_runtime


class Noting(MemoryPersistence):
    """Notes what it is asked to save."""

    def __init__(self) -> None:
        super().__init__()
        self.saves: list[tuple[str, dict[str, Any]]] = []

    def save_state(self, state_id: str, method: str, state: dict[str, Any]) -> None:
        super().save_state(state_id, method, state)
        self.saves.append((method, super().load_state(state_id) or {}))

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.saves]


class Item(BaseModel):
    name: str
    tags: set[str] = set()


class Work(FlowState):
    n: int = 0
    lines: list[str] = []  # noqa: RUF012 - pydantic copies it
    items: dict[str, Item] = {}  # noqa: RUF012


class Chain(Flow[Work]):
    @start()
    def first(self) -> None:
        self.state.n += 1
        self.state.lines.append("first")

    @listen(first)
    async def second(self) -> None:
        self.state.n += 1
        self.state.items["a"] = Item(name="a", tags={"x"})

    @listen(second)
    def third(self) -> str:
        self.state.n += 1
        return self.state.id


def persisted(backend: Any, base: type[Flow[Any]] = Chain) -> type[Flow[Any]]:
    made: type[Flow[Any]] = persist(backend)(type("Persisted", (base,), {}))
    return made


# -- saving --------------------------------------------------------------------------------------------------------


def test_on_a_class_the_state_is_saved_after_each_method_that_completed_in_that_order() -> None:
    backend = Noting()
    flow = persisted(backend)()
    state_id = flow.kickoff()
    assert [(method, state["n"]) for method, state in backend.saves] == [("first", 1), ("second", 2), ("third", 3)]
    assert backend.saves[0][1] == {"id": state_id, "n": 1, "lines": ["first"], "items": {}}
    assert backend.load_state(state_id) == backend.saves[-1][1]


async def test_so_it_is_on_an_event_loop() -> None:
    backend = Noting()
    await persisted(backend)().akickoff()
    assert backend.methods == ["first", "second", "third"]


def test_on_a_method_the_state_is_saved_after_that_one_in_either_order_of_decorators() -> None:
    backend = Noting()

    class Two(Flow[Work]):
        @start()
        @persist(backend)
        def first(self) -> None:
            self.state.n = 1

        @listen(first)
        def second(self) -> None:
            self.state.n = 2

        @persist(persistence=backend)
        @listen(second)
        def third(self) -> None:
            self.state.n = 3

        @listen(third)
        def fourth(self) -> None:
            self.state.n = 4

    Two().kickoff()
    assert [(method, state["n"]) for method, state in backend.saves] == [("first", 1), ("third", 3)]


def test_a_method_that_runs_again_and_again_is_saved_each_time() -> None:
    backend = Noting()

    @persist(backend)
    class Loop(Flow[Work]):
        @start()
        def begin(self) -> None: ...

        @router(or_(begin, "again"))
        def work(self) -> Literal["again", "done"]:
            self.state.n += 1
            return "again" if self.state.n < 4 else "done"

    Loop().kickoff()
    assert [(method, state["n"]) for method, state in backend.saves] == [
        ("begin", 0),
        *(("work", n) for n in (1, 2, 3, 4)),
    ]


def test_a_subclass_is_persisted_as_its_base_is_also_where_it_overrides_a_method() -> None:
    backend = Noting()

    class More(persisted(backend)):  # type: ignore[misc]
        def third(self) -> None:
            self.state.n = 30

    class Single(Flow[Work]):
        @persist(backend)
        @start()
        def first(self) -> None: ...

    class Overriding(Single):
        def first(self) -> None:
            self.state.n = 7

    More().kickoff()
    Overriding().kickoff()
    assert [(method, state["n"]) for method, state in backend.saves[2:]] == [("third", 30), ("first", 7)]


def test_a_method_that_failed_saves_nothing() -> None:
    backend = Noting()

    @persist(backend)
    class Failing(Flow[Work]):
        @start()
        def first(self) -> None:
            self.state.n = 1

        @listen(first)
        def second(self) -> None:
            self.state.n = 2
            raise LookupError("no")

    with pytest.raises(LookupError):
        Failing().kickoff()
    assert [(method, state["n"]) for method, state in backend.saves] == [("first", 1)]


def test_s1_18_methods_that_overlap_save_what_is_committed_and_never_a_write_that_is_unfinished() -> None:
    backend = Noting()

    @persist(backend)
    class Pair(Flow[Work]):
        def __init__(self) -> None:
            super().__init__()
            self.both_wrote, self.quick_was_saved = threading.Barrier(2, timeout=10), threading.Event()

        @start()
        def slow(self) -> None:
            self.state.n = 1
            self.state.lines.append("slow")
            self.both_wrote.wait()
            assert self.quick_was_saved.wait(10)

        @start()
        def quick(self) -> None:
            self.state.lines.append("quick")
            self.both_wrote.wait()

        @listen(quick)
        async def after(self) -> None:
            self.quick_was_saved.set()

        @listen(and_(slow, after))
        def joined(self) -> None: ...

    flow = Pair()
    flow.kickoff()
    saved = {method: (state["n"], state["lines"]) for method, state in backend.saves}
    assert saved["quick"] == (0, ["quick"])
    assert saved["slow"] == (1, ["quick", "slow"])
    assert backend.methods.index("quick") < backend.methods.index("slow") < backend.methods.index("joined")


def test_nested_flows_persist_on_their_own() -> None:
    outer_backend, inner_backend = Noting(), Noting()
    inner = persisted(inner_backend)

    @persist(outer_backend)
    class Outer(Flow[dict[str, Any]]):
        @start()
        def one(self) -> None:
            self.state["inner"] = inner().kickoff()

        @listen(one)
        async def two(self) -> None:
            self.state["again"] = await inner().akickoff({"id": self.state["inner"]})

    flow = Outer()
    flow.kickoff()
    assert outer_backend.methods == ["one", "two"]
    assert inner_backend.methods == ["first", "second", "third"] * 2
    assert flow.state["inner"] == flow.state["again"]
    assert inner_backend.saves[-1][1]["n"] == 6


# -- reloading -----------------------------------------------------------------------------------------------------


def test_an_id_that_is_known_begins_with_its_latest_state_and_runs_from_the_start() -> None:
    backend = Noting()
    flow = persisted(backend)
    first = flow()
    first.kickoff({"id": "mine"})
    second = flow()
    assert second.kickoff({"id": "mine"}) == "mine"
    assert backend.methods == ["first", "second", "third"] * 2
    assert second.state.n == 6
    assert second.state.lines == ["first", "first"]
    assert second.state.items == {"a": Item(name="a", tags={"x"})}
    assert type(second.state) is type(first.state)
    assert first.state.n == 3


async def test_other_inputs_are_set_on_top_of_what_was_saved() -> None:
    flow = persisted(MemoryPersistence())
    await flow().akickoff({"id": "mine"})
    again = flow()
    await again.akickoff({"id": "mine", "n": 100})
    assert (again.state.n, again.state.lines) == (103, ["first", "first"])
    with pytest.raises(FlowInputError):
        await flow().akickoff({"id": "mine", "n": "many"})


class Numbered(FlowState):
    n: int = 0


class Model(BaseModel):
    id: str = ""
    n: int = 0


@dataclass
class Data:
    id: str = ""
    n: int = 0


@pytest.mark.parametrize("kind", [dict, Numbered, Model, Data])
def test_a_state_that_is_exchanged_keeps_its_id_unless_it_has_one(kind: Any, runtime: Runtime) -> None:
    """It was given a new one, so that it was saved where nobody would look for it."""
    kept = MemoryPersistence()

    @persist(kept)
    class Exchanges(Flow[Any]):
        initial_state = kind(n=0)

        @start()
        def exchange(self) -> None:
            self.state = kind(n=1)

        @listen(exchange)
        def choose(self) -> None:
            self.state = kind(id="chosen", n=2)

    Exchanges(runtime=runtime).kickoff({"id": "known"})
    assert kept.load_state("known") == {"id": "known", "n": 1}
    assert kept.load_state("chosen") == {"id": "chosen", "n": 2}


def test_an_id_that_is_not_known_begins_a_new_state_with_that_id() -> None:
    backend = Noting()
    flow = persisted(backend)(initial_state=Work(id="example", n=10))
    flow.kickoff({"id": "new"})
    assert (flow.state.id, flow.state.n) == ("new", 13)
    assert (backend.load_state("new") or {})["n"] == 13
    assert backend.load_state("example") is None


def test_without_an_id_each_kickoff_has_a_state_of_its_own() -> None:
    backend = Noting()
    flow = persisted(backend)()
    assert flow.kickoff() != flow.kickoff()
    assert [state["n"] for _, state in backend.saves] == [1, 2, 3, 1, 2, 3]


def test_without_persist_an_id_is_just_an_input() -> None:
    flow = Chain()
    assert [flow.kickoff({"id": "mine"}), flow.kickoff({"id": "mine"}), flow.state.n] == ["mine", "mine", 3]


@dataclass
class Dated:
    id: str = ""
    path: tuple[int, ...] = ()
    seen: set[str] = field(default_factory=set)


@pytest.mark.parametrize("state_type", [Dated, dict])
def test_dataclasses_and_dicts_come_back_with_their_types(state_type: Any) -> None:
    class Typed(Flow[state_type]):
        @start()
        def work(self) -> Any:
            state: Any = self.state
            if isinstance(state, dict):
                state["path"] = (*state.get("path", ()), len(state))
            else:
                state.path = (*state.path, len(state.path))
                state.seen.add("x")
            return self.state

    flow = persisted(MemoryPersistence(), Typed)
    flow().kickoff({"id": "mine"})
    again = flow().kickoff({"id": "mine"})
    if isinstance(again, dict):
        assert again == {"id": "mine", "path": (1, 2)}
    else:
        assert again == Dated("mine", (0, 1), {"x"})


def test_a_stored_state_that_does_not_fit_any_more_is_said_to_be_so() -> None:
    backend = MemoryPersistence()
    backend.save_state("mine", "method", {"id": "mine", "n": "many"})
    with pytest.raises(FlowInputError, match="does not fit Work any more"):
        persisted(backend)().kickoff({"id": "mine"})


def test_a_checkpoint_that_is_resumed_goes_on_from_the_journal_and_not_from_the_saved_state() -> None:
    backend = Noting()

    class Stopping(Flow[Work]):
        broken = True

        @start()
        def first(self) -> None:
            self.state.n += 1

        @listen(first)
        def second(self) -> int:
            if self.broken:
                raise LookupError("no")
            self.state.n += 1
            return self.state.n

    kind = persisted(backend, Stopping)
    with MemoryStore() as store:
        flow = kind(checkpoint=CheckpointConfig(store))
        with pytest.raises(LookupError):
            flow.kickoff({"id": "mine"})
        backend.save_state("mine", "by hand", {"id": "mine", "n": 50})
        Stopping.broken = False
        [run] = asyncio.run(store.runs())
        assert flow.kickoff({"id": "mine"}, from_checkpoint=run.root_run_id) == 2
        assert kind(checkpoint=CheckpointConfig(store)).kickoff({"id": "mine"}) == 4


# -- what it does not do -------------------------------------------------------------------------------------------


def test_s0_4_persist_flows_record_nothing() -> None:
    with isolated_runtime():
        for n in range(5):
            persisted(MemoryPersistence())().kickoff({"lines": ["x" * 1024], "id": str(n % 2)})
        assert event_bus.runtime_state is None


# -- failing -------------------------------------------------------------------------------------------------------


class Full(MemoryPersistence):
    """Fails at the second save, or at every load."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at

    def __repr__(self) -> str:
        return "Full()"

    def save_state(self, state_id: str, method: str, state: dict[str, Any]) -> None:
        if method == self.at:
            raise OSError(28, "No space left on device")
        super().save_state(state_id, method, state)

    def load_state(self, state_id: str) -> dict[str, Any] | None:
        if self.at == "load":
            raise OSError(5, "Input/output error")
        return super().load_state(state_id)


@pytest.mark.parametrize("at", ["first", "second", "third"])
@pytest.mark.parametrize("kickoff", ["kickoff", "akickoff"])
def test_a_save_that_fails_fails_the_run_and_names_the_backend(runtime: Runtime, at: str, kickoff: str) -> None:
    told: list[BaseEvent] = []
    runtime.event_bus.on(FlowFailedEvent)(lambda source, event: told.append(event))
    flow = persisted(Full(at))(runtime=runtime)
    expected = rf"Persisted: {at} completed, but state mine could not be saved by Full\(\): OSError: .*No space left"
    kick_off: Callable[[dict[str, str]], Any] = {
        "kickoff": flow.kickoff,
        "akickoff": lambda inputs: asyncio.run(flow.akickoff(inputs)),
    }[kickoff]
    with pytest.raises(StorageError, match=expected) as caught:
        kick_off({"id": "mine"})
    assert isinstance(caught.value.__cause__, OSError)
    assert len(told) == 1


def test_a_racer_whose_save_fails_fails_the_run_though_another_could_win(runtime: Runtime) -> None:
    @persist(Full("quick"))
    class Race(Flow[Work]):
        @start()
        async def quick(self) -> None: ...

        @start()
        async def slow(self) -> None:
            await asyncio.Event().wait()

        @listen(or_(quick, slow))
        def after(self) -> None: ...

    with pytest.raises(StorageError, match="quick completed, but"):
        Race(runtime=runtime).kickoff()


def test_a_load_that_fails_fails_the_run_and_names_the_backend(runtime: Runtime) -> None:
    flow = persisted(Full("load"))(runtime=runtime)
    with pytest.raises(StorageError, match=r"state mine could not be loaded from Full\(\): OSError"):
        flow.kickoff({"id": "mine"})
    flow.kickoff()


def test_a_state_that_cannot_be_stored_fails_the_run_with_its_path_and_step(runtime: Runtime) -> None:
    class Opaque(Flow[dict[str, Any]]):
        @start()
        def work(self) -> None:
            self.state["clients"] = [1, {"socket": threading.Lock()}]

    flow = persisted(MemoryPersistence(), Opaque)(runtime=runtime)
    with pytest.raises(
        NotStorableError, match=r"\$\.clients\[1\]\.socket: cannot store a lock, which step work left in the state;"
    ):
        flow.kickoff()


def test_a_state_that_lost_its_id_is_not_saved_under_none(runtime: Runtime) -> None:
    class Losing(Flow[dict[str, Any]]):
        @start()
        def work(self) -> None:
            del self.state["id"]

    with pytest.raises(StorageError, match="work left the state without its id"):
        persisted(MemoryPersistence(), Losing)(runtime=runtime).kickoff()


# -- where ---------------------------------------------------------------------------------------------------------


def test_by_default_states_go_to_the_projects_own_file_and_other_processes_find_them(tmp_path: Path) -> None:
    program = """
    import os, sys
    from holdfast import Flow, persist, start

    @persist
    class Counting(Flow[dict]):
        @start()
        def count(self):
            self.state["n"] = self.state.get("n", 0) + 1
            return self.state["n"]

    class Single(Flow[dict]):
        @persist()
        @start()
        def count(self):
            self.state["m"] = self.state.get("n")
            return self.state["m"]

    os.makedirs("deep/er", exist_ok=True)
    print(Counting().kickoff({"id": "mine"}))
    os.chdir("deep/er")
    print(Counting().kickoff({"id": "mine"}), Single().kickoff({"id": "mine"}))
    """
    program = f"import os\nos.chdir({str(tmp_path)!r})\n" + "\n".join(line[4:] for line in program.splitlines())
    assert [run_script(program).stdout for _ in range(2)] == ["1\n2 2\n", "3\n4 4\n"]
    assert sorted(found.name for found in (tmp_path / ".holdfast").iterdir()) == [".gitignore", "states.db"]
    assert not (tmp_path / "deep" / "er" / ".holdfast").exists()


def test_runs_share_the_default_file_and_the_last_of_them_closes_it(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = threading.Barrier(3, timeout=10)

    @persist
    class Meeting(Flow[dict[str, Any]]):
        @start()
        def meet(self) -> None:
            inside.wait()
            held = [holding for holding in runtime.inventory() if holding.kind == "file"]
            self.state["held"] = len(held)
            inside.wait()

    async def together() -> None:
        await asyncio.gather(*(Meeting(runtime=runtime).akickoff({"id": str(n)}) for n in range(3)))

    asyncio.run(together())
    assert not (tmp_path / ".holdfast" / "states.db-wal").exists()
    with SqlitePersistence(tmp_path / ".holdfast" / "states.db") as states:
        assert [(states.load_state(str(n)) or {})["held"] for n in range(3)] == [3, 3, 3]


def test_a_flow_that_is_killed_between_methods_left_what_it_had_saved(tmp_path: Path) -> None:
    path = tmp_path / "states.db"
    program = f"""
    import os, signal
    from holdfast import Flow, listen, persist, start
    from holdfast.stores import SqlitePersistence

    @persist(SqlitePersistence({str(path)!r}))
    class Dying(Flow[dict]):
        @start()
        def first(self):
            self.state["n"] = 1

        @listen(first)
        def second(self):
            self.state["n"] = 2
            os.kill(os.getpid(), signal.SIGKILL)

    Dying().kickoff({{"id": "mine"}})
    """
    assert run_script(program).returncode == -9
    with SqlitePersistence(path) as states:
        assert states.load_state("mine") == {"id": "mine", "n": 1}


# -- written wrongly -----------------------------------------------------------------------------------------------


def test_what_persist_cannot_mean_is_refused() -> None:
    for wrong in ("states.db", MemoryPersistence, 3):
        with pytest.raises(FlowDefinitionError, match="@persist belongs on a Flow class or on one of its methods"):
            persist(wrong)  # type: ignore[type-var]
    with pytest.raises(FlowDefinitionError, match="not on <class 'dict'>"):
        persist()(dict)


def test_a_persisted_method_that_nothing_triggers_is_refused() -> None:
    class Forgotten(Flow[dict[str, Any]]):
        @start()
        def first(self) -> None: ...

        @persist
        def second(self) -> None: ...

    with pytest.raises(FlowDefinitionError, match=r"Forgotten\.second has @persist, but nothing triggers it"):
        Forgotten().kickoff()


def test_a_flow_has_one_backend() -> None:
    one = MemoryPersistence()

    @persist(one)
    class Both(Flow[dict[str, Any]]):
        @persist(MemoryPersistence())
        @start()
        def first(self) -> None: ...

    with pytest.raises(FlowDefinitionError, match="Both names several backends"):
        Both().kickoff()

    @persist(one)
    class Same(Flow[dict[str, Any]]):
        @persist
        @start()
        def first(self) -> None: ...

    flow = Same()
    flow.kickoff({"id": "mine"})
    assert one.load_state("mine") == {"id": "mine"}


def test_importing_flows_does_not_load_sqlite() -> None:
    done = run_script("import sys, holdfast.flow\nprint('holdfast.stores._sqlite_states' in sys.modules)")
    assert done.stdout == "False\n"
