"""Parallel methods and the state: what is committed, what is merged, what is a conflict."""

from __future__ import annotations

import asyncio
import operator
import threading
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, SecretStr

from holdfast import Runtime, bind, sensitive
from holdfast.errors import RunCancelledError, RunEndedError, StateConflictError, UsageError
from holdfast.flow import Flow, FlowState, and_, listen, or_, start


class Inner(BaseModel):
    name: str = ""


class Board(FlowState):
    left: str = ""
    right: str = ""
    counter: int = 0
    total: Annotated[int, operator.add] = 0
    lines: list[str] = []  # noqa: RUF012 - pydantic copies it
    inner: Inner = Inner()


class Pair(Flow[Board]):
    """Two methods that certainly overlap, and one that looks at what came of it."""

    def __init__(self) -> None:
        super().__init__()
        self.meet = threading.Barrier(2, timeout=10)
        self.seen: list[Any] = []

    @start()
    def first(self) -> None:
        self.meet.wait()
        self.one()
        self.meet.wait()

    @start()
    def second(self) -> None:
        self.meet.wait()
        self.two()
        self.meet.wait()

    def one(self) -> None: ...
    def two(self) -> None: ...

    @listen(and_(first, second))
    def after(self) -> Board:
        return self.state


def test_s1_18_fields_written_by_different_steps_combine() -> None:
    class Fields(Pair):
        def one(self) -> None:
            self.state.left = "L"
            self.state.inner = Inner(name="set by one")

        def two(self) -> None:
            self.state.right = "R"

    board = Fields().kickoff()
    assert (board.left, board.right) == ("L", "R")
    assert isinstance(board.inner, Inner)
    assert board.inner.name == "set by one"


def test_s1_18_two_parallel_increments_raise_and_name_path_steps_and_fix() -> None:
    class Count(Pair):
        def one(self) -> None:
            self.state.counter += 1

        two = one

    with pytest.raises(StateConflictError) as caught:
        Count().kickoff()
    text = str(caught.value)
    assert "$.counter" in text
    assert "first" in text
    assert "second" in text
    assert "reducer" in text


def test_s1_18_with_a_declared_reducer_two_increments_give_two() -> None:
    class Count(Pair):
        def one(self) -> None:
            self.state.total += 1

        two = one

    assert Count().kickoff().total == 2


def test_the_last_writer_wins_only_if_that_is_asked_for() -> None:
    class Last(Pair):
        on_state_conflict = "last"

        def one(self) -> None:
            self.state.counter += 1

        two = one

    assert Last().kickoff().counter == 1


def test_s1_18_appends_of_both_are_kept() -> None:
    class Append(Pair):
        def one(self) -> None:
            self.state.lines.append("one")

        def two(self) -> None:
            self.state.lines.append("two")

    assert sorted(Append().kickoff().lines) == ["one", "two"]


def test_siblings_do_not_see_each_others_unfinished_writes() -> None:
    class Peek(Pair):
        def one(self) -> None:
            self.state.left = "unfinished"
            self.meet.wait()
            self.meet.wait()

        def two(self) -> None:
            self.meet.wait()
            self.seen.append(self.state.left)
            self.meet.wait()

    flow = Peek()
    flow.kickoff()
    assert flow.seen == [""]
    assert flow.state.left == "unfinished"


def test_a_step_alone_works_on_the_state_itself() -> None:
    class Alone(Flow[Board]):
        @start()
        def only(self) -> bool:
            kept = self.state.lines
            kept.append("x")
            return self.state.lines is kept

        @listen(only)
        def later(self, same: bool) -> bool:
            return same and self.state.lines == ["x"]

    assert Alone().kickoff() is True


async def test_the_write_of_a_loser_is_thrown_away() -> None:
    class Race(Flow[Board]):
        @start()
        async def fast(self) -> None:
            await asyncio.sleep(0)
            self.state.left = "fast"

        @start()
        async def slow(self) -> None:
            self.state.right = "slow"
            await asyncio.Event().wait()

        @listen(or_(fast, slow))
        async def end(self) -> Board:
            return self.state

    board = await Race().akickoff()
    assert (board.left, board.right) == ("fast", "")


def test_a_raw_thread_is_refused_while_several_steps_run_and_works_when_bound() -> None:
    class Threads(Pair):
        def one(self) -> None:
            self._in_thread(self._write)

        def two(self) -> None:
            self._in_thread(bind(self._write))

        def _write(self) -> None:
            try:
                self.state.lines.append("written")
            except UsageError as error:
                self.seen.append(str(error))

        def _in_thread(self, work: Any) -> None:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

    flow = Threads()
    board = flow.kickoff()
    assert board.lines == ["written"]
    assert len(flow.seen) == 1
    assert "bind" in flow.seen[0]


def test_dict_states_merge_key_by_key() -> None:
    class Keys(Flow[dict[str, Any]]):
        @start()
        async def a(self) -> None:
            await asyncio.sleep(0)
            self.state["a"] = {"deep": [1]}

        @start()
        async def b(self) -> None:
            self.state["b"] = 2

        @listen(and_(a, b))
        async def both(self) -> dict[str, Any]:
            return {key: value for key, value in self.state.items() if key != "id"}

    assert Keys().kickoff() == {"a": {"deep": [1]}, "b": 2}


def test_s1_18_what_a_lost_racer_writes_late_is_refused_and_in_nobodys_state() -> None:
    # regression: its view was gone, so it wrote to the state itself, and the next step's delta held it
    won, refused = threading.Event(), threading.Event()

    class Race(Flow[Board]):
        @start()
        def fast(self) -> str:
            return "fast"

        @start()
        def slow(self) -> str:
            won.wait(10)
            try:
                self.state.right = "late"
            except RunEndedError:
                refused.set()
            return "slow"

        @listen(or_(fast, slow))
        def win(self) -> str:
            won.set()
            refused.wait(10)
            self.state.left = "won"
            return self.state.right

    flow = Race()
    assert flow.kickoff() == ""
    assert refused.is_set()
    assert (flow.state.left, flow.state.right) == ("won", "")


async def test_the_state_can_be_read_after_a_parallel_group_was_cancelled() -> None:
    # regression: the views of the cancelled steps stayed, and the state seemed to be in use for ever
    inside = asyncio.Event()

    class Stuck(Flow[Board]):
        @start()
        async def one(self) -> None:
            inside.set()
            await asyncio.Event().wait()

        @start()
        async def two(self) -> None:
            await asyncio.Event().wait()

    flow = Stuck()
    running = asyncio.create_task(flow.akickoff())
    await inside.wait()
    running.cancel()
    await asyncio.wait({running})
    assert flow.state.counter == 0


def test_cancelling_a_flow_that_a_plain_thread_drives_reaches_its_async_steps(runtime: Runtime) -> None:
    # regression: the thread waited for the program's end and did not look at the run's
    ran: list[str] = []

    class Steps(Flow[Board]):
        @start()
        async def first(self) -> None:
            ran.append("first")
            [run] = runtime.runs()
            run.cancel("enough")
            await asyncio.Event().wait()

        @listen(first)
        async def second(self) -> None:
            ran.append("second")

    with pytest.raises(RunCancelledError, match="enough"):
        Steps(runtime=runtime).kickoff()
    assert ran == ["first"]


class Keys(FlowState):
    token: Annotated[str, sensitive] = "old"
    key: SecretStr = SecretStr("old")
    listed: Annotated[list[str], sensitive] = ["old"]  # noqa: RUF012 - pydantic copies it
    other: int = 0


class Renews(Flow[Keys]):
    again = "new"

    @start()
    async def renew(self) -> None:
        self.state.token, self.state.key = "new", SecretStr("new")
        self.state.listed.append("new")

    @start()
    async def beside(self) -> None:
        self.state.other = 1

    @listen(and_(renew, beside))
    def end(self) -> tuple[str, str, list[str], int]:
        return self.state.token, self.state.key.get_secret_value(), self.state.listed, self.state.other


class RenewsTwice(Renews):
    async def beside(self) -> None:
        self.state.token = self.again


def test_s1_18_a_secret_that_a_step_renews_while_another_runs_is_kept() -> None:
    """All that is withheld looked alike, so the change was not seen and the write was lost."""
    assert Renews().kickoff() == ("new", "new", ["old", "new"], 1)


def test_s1_18_two_steps_that_write_different_secrets_are_a_conflict_and_the_same_one_is_none() -> None:
    assert RenewsTwice().kickoff() == ("new", "new", ["old", "new"], 0)

    class Differ(RenewsTwice):
        again = "another"

    with pytest.raises(StateConflictError, match=r"\$\.token") as told:
        Differ().kickoff()
    assert "another" not in str(told.value)


class Account(BaseModel):
    name: str = ""
    token: Annotated[str, sensitive] = "token"


class Collected(FlowState):
    keys: list[SecretStr] = [SecretStr("old")]  # noqa: RUF012 - pydantic copies it
    accounts: list[Account] = []  # noqa: RUF012
    listed: Annotated[list[str], sensitive] = ["old"]  # noqa: RUF012


class Collects(Flow[Any]):
    """Two methods that each add to lists that hold secrets."""

    def add(self, name: str) -> None:
        state = self.state if isinstance(self.state, dict) else vars(self.state)
        state["keys"].append(SecretStr(f"key {name}"))
        state["accounts"].append(Account(name=name, token=f"token {name}"))

    @start()
    async def one(self) -> None:
        self.add("one")

    @start()
    async def two(self) -> None:
        self.add("two")

    @listen(and_(one, two))
    def end(self) -> Any:
        return self.state


def collected(accounts: list[Any]) -> set[tuple[str, str]]:
    return {(account["name"], account["token"].get_secret_value()) for account in accounts}


def test_secrets_that_two_steps_add_to_one_list_are_both_kept() -> None:
    """What was merged had placeholders for them: a typed state refused those, a dict had them in the place of the secrets."""
    typed = Collects(initial_state=Collected).kickoff()
    assert sorted(key.get_secret_value() for key in typed.keys) == ["key one", "key two", "old"]
    assert {(account.name, account.token) for account in typed.accounts} == {
        ("one", "token one"),
        ("two", "token two"),
    }
    untyped = Collects(initial_state={"keys": [SecretStr("old")], "accounts": []}).kickoff()
    assert sorted(key.get_secret_value() for key in untyped["keys"]) == ["key one", "key two", "old"]
    assert collected(untyped["accounts"]) == {("one", "token one"), ("two", "token two")}


def test_the_last_secret_counts_where_that_was_asked_for() -> None:
    """The placeholder of the last one was assigned, or refused."""

    class Last(RenewsTwice):
        on_state_conflict = "last"
        again = "another"

        async def beside(self) -> None:
            self.state.token, self.state.key = self.again, SecretStr(self.again)
            self.state.listed.append(self.again)

    assert Last().kickoff() in (
        ("new", "new", ["old", "new"], 0),
        ("another", "another", ["old", "another"], 0),
    )
