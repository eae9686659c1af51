"""A flow with everything in it that a crash could break, as a program that dies where it is told to.

`python -m tests.checkpoints.orders` imports it once and then forks a process for each line of its input, so that a hundred
crashes cost a hundred forks and not a hundred interpreters.
"""

from __future__ import annotations

import asyncio
import json
import operator
import os
import signal
import sys
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

import holdfast.checkpoints._open as opening
from holdfast import (
    CheckpointConfig,
    Flow,
    FlowState,
    HumanFeedbackResult,
    Runtime,
    and_,
    current_step_key,
    human_feedback,
    listen,
    or_,
    router,
    start,
)
from holdfast.checkpoints import SqliteProvider as SqliteProvider  # so that a fork need not import it
from holdfast.checkpoints._snapshots import Snapshots
from holdfast.human import LaterProvider
from holdfast.ports import HumanRequest, RunInfo
from holdfast.stores import PostgresStore, SqliteStore
from holdfast.testing import CrashingStore, CrashPoint

LARGE = "0123456789" * 4_000  # goes to a blob
ANSWERS = {"Inside?": "in", "Who?": "Ann", "How old?": "30", "Good?": "approved"}


class Life(Struct, frozen=True):
    """What one process is to do: go on with the run in a folder, and die at a write or at an effect."""

    folder: str
    point: CrashPoint | None = None
    effect: str = ""
    """`before NAME` or `after NAME`"""
    dsn: str = ""
    schema: str = ""
    durability: Literal["step", "async", "exit"] = "step"
    snapshots: bool = False
    """write a snapshot after nearly every commit"""


class World:
    """What the flow does to the world outside: a line for each effect, with the key of its step."""

    def __init__(self, folder: Path, die_at: str = "") -> None:
        self._effects, self._questions = folder / "effects", folder / "questions"
        self._die_at = die_at

    def happen(self, name: str) -> None:
        self._die(f"before {name}")
        _add_line(self._effects, f"{name}\t{current_step_key()}")
        self._die(f"after {name}")

    def asked(self, request: HumanRequest) -> None:
        _add_line(self._questions, f"asked {request.message}")

    def answered(self, message: str) -> None:
        _add_line(self._questions, f"answered {message}")

    def _die(self, moment: str) -> None:
        if moment == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)


def _add_line(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


class Inner(Flow[dict[str, Any]]):
    def __init__(self, world: World, **options: Any) -> None:
        super().__init__(human=LaterProvider(world.asked), **options)
        self.world = world

    @start()
    def first(self) -> str:
        self.world.happen(f"first {self.state['tag']}")
        self.state["seen"] = ["first"]
        return "f"

    @listen(first)
    async def second(self, given: str) -> str:
        said = ""
        if self.state["tag"] == "blocking":
            said = str(await self.aask("Inside?"))
            self.world.answered("Inside?")
        self.state["seen"].append("second")
        self.world.happen(f"second {self.state['tag']}")
        return f"{given}s{said}"

    @listen(second)
    def third(self, given: str) -> str:
        self.world.happen(f"third {self.state['tag']}")
        return f"{given} {self.state['seen']}"


class OrderState(FlowState):
    total: Annotated[int, operator.add] = 0
    lines: list[str] = []  # noqa: RUF012 - pydantic copies it
    large: str = ""
    winner: str = ""
    inner: dict[str, str] = {}  # noqa: RUF012
    rounds: int = 0
    who: tuple[str, str] = ("", "")


class Order(Flow[OrderState]):
    """Parallel starts and a join, a race, flows inside flows, a loop, questions, a gate."""

    def __init__(self, world: World, **options: Any) -> None:
        super().__init__(human=LaterProvider(world.asked), **options)
        self.world = world

    @start()
    def left(self) -> str:
        self.state.total += 1
        self.state.lines.append("left")
        self.world.happen("left")
        return "L"

    @start()
    async def right(self) -> tuple[str, int]:
        self.state.total += 10
        self.world.happen("right")
        return "R", 1

    @listen(and_(left, right))
    def join(self) -> dict[str, Any]:
        self.state.large = LARGE
        self.state.lines.append("join")
        self.world.happen("join")
        return {"large": LARGE[::-1]}

    @listen(join)
    async def fast(self) -> str:
        self.world.happen("fast")
        return "fast"

    @listen(join)
    async def slow(self) -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        self.world.happen("slow")
        return "slow"

    @listen(or_(fast, slow))
    def settle(self, winner: str) -> str:
        self.state.winner = winner
        self.world.happen("settle")
        return winner

    @listen(settle)
    def blocking(self) -> str:
        self.world.happen("blocking")
        result = Inner(self.world).kickoff({"tag": "blocking"})
        self.state.inner["blocking"] = result
        self.state.total += 100
        return str(result)

    @listen(settle)
    async def awaiting(self) -> str:
        self.world.happen("awaiting")
        result = await Inner(self.world).akickoff({"tag": "awaiting"})
        self.state.inner["awaiting"] = result
        self.state.total += 1000
        return str(result)

    @router(and_(blocking, awaiting))
    def check_first(self) -> Literal["again", "question"]:
        return "again"

    @listen("again")
    def work(self) -> int:
        self.state.rounds += 1
        self.world.happen(f"work {self.state.rounds}")
        return self.state.rounds

    @router(work)
    async def check(self) -> Literal["again", "question"]:
        self.world.happen(f"check {self.state.rounds}")
        return "again" if self.state.rounds < 3 else "question"

    @listen("question")
    def ask_both(self) -> tuple[str, str]:
        name = self._ask("Who?")
        self.world.happen("name")
        age = self._ask("How old?")
        self.state.who = (name, age)
        self.world.happen("age")
        return name, age

    def _ask(self, message: str) -> str:
        answer = str(self.ask(message))
        self.world.answered(message)
        return answer

    @listen(ask_both)
    @human_feedback("Good?", emit=["approved", "rejected"])
    def draft(self) -> str:
        self.world.happen("draft")
        return "text"

    @listen("approved")
    def publish(self, said: HumanFeedbackResult) -> list[Any]:
        self.world.answered("Good?")
        self.world.happen("publish")
        return [said.output, said.feedback, self.state.total, self.state.rounds]


ONCE = (
    "left", "right", "join", "settle", "blocking", "first blocking", "second blocking", "third blocking",
    "awaiting", "first awaiting", "second awaiting", "third awaiting", "work 1", "check 1", "work 2", "check 2", "work 3",
    "check 3", "name", "age", "draft", "publish",
)  # fmt: skip
RACERS = ("fast", "slow")


# -- one life ----------------------------------------------------------------------------------------------------------


def live(life: Life) -> None:
    """Go on with the run in the folder to its end, and tell of it."""
    folder = Path(life.folder)
    if life.snapshots:
        setattr(opening, "Snapshots", EagerSnapshots)  # noqa: B010 - it is not exported
    with _store(life) as real, Runtime(grace=5.0) as runtime:
        store = CrashingStore(real, life.point)
        flow = finish_order(store, World(folder, life.effect), runtime, life.durability)
        (folder / "writes").write_text(str(len(store.writes)))
        _tell(folder, flow)


def finish_order(store: Any, world: World, runtime: Runtime, durability: Any = "step") -> Order:
    """Start the order of a store, or take it up, and answer its questions until it is over. The flow as it is then."""
    config = CheckpointConfig(store, durability=durability)
    options: dict[str, Any] = {"checkpoint": config, "runtime": runtime, "world": world}
    while (run := _known(store)) is None or run.status != "completed":
        _go_on(run, options)
    return Order.from_checkpoint(run.root_run_id, **options)


def _known(store: Any) -> RunInfo | None:
    """The run that is in the store, if one is."""
    return next(iter(asyncio.run(store.runs())), None)


def _go_on(run: RunInfo | None, options: dict[str, Any]) -> None:
    flow = Order(**options) if run is None else Order.from_checkpoint(run.root_run_id, **options)
    question = next(iter(flow.pending), None)
    if question is not None:
        options["world"].asked(question)  # whoever answers has been asked
        flow.resume(ANSWERS[question.message], request_id=question.id)
    else:
        flow.kickoff()


def _tell(folder: Path, flow: Order) -> None:
    outputs = [output for output in flow.method_outputs if not isinstance(output, HumanFeedbackResult)]
    told = {"state": flow.state.model_dump(exclude={"id"}), "outputs": outputs}
    (folder / "outcome").write_text(json.dumps(told, sort_keys=True))


class EagerSnapshots(Snapshots):
    """Thinks that every commit was large enough."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, 0 if name == "due_at" else value)


def _store(life: Life) -> AbstractContextManager[Any]:
    if life.dsn:
        return PostgresStore(life.dsn, schema=life.schema)
    return SqliteStore(Path(life.folder) / "journal.db")


def serve() -> None:
    """Live each life that is told on standard input in a process of its own, and say how it ended."""
    Order.compiled(), Inner.compiled()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _be_child(line)
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


def _be_child(line: str) -> None:
    code = 1
    try:
        live(msgspec.json.decode(line, type=Life))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
