"""A flow that notes its effects in a file and can be killed at any of them. Run as a program by the crash tests."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from holdfast import Flow, FlowState, and_, listen, router, start
from holdfast.checkpoints import CheckpointConfig
from holdfast.stores import SqliteStore


class Item(BaseModel):
    name: str
    tags: tuple[str, ...] = ()


class Work(FlowState):
    rounds: int = 0
    lines: list[str] = []  # noqa: RUF012 - pydantic copies it
    items: dict[str, Item] = {}  # noqa: RUF012


class Effects:
    """Appends a line for each effect, and dies before or after the one it was told to."""

    def __init__(self, file: Path, die_at: str = "") -> None:
        self._file = file
        self._die_at = die_at

    def happen(self, name: str) -> None:
        self._die(f"before {name}")
        with self._file.open("a") as file:
            file.write(name + "\n")
        self._die(f"after {name}")

    def _die(self, moment: str) -> None:
        if moment == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if f"stop {moment}" == self._die_at:
            os.write(1, b"stopped\n")
            threading.Event().wait()


class Busy(Flow[Work]):
    """Parallel starts, a join, a loop through a router, typed state."""

    def __init__(self, effects: Effects, **options: Any) -> None:
        super().__init__(**options)
        self.effects = effects

    @start()
    def left(self) -> str:
        self.state.lines.append("left")
        self.effects.happen("left")
        return "L"

    @start()
    async def right(self) -> tuple[str, int]:
        self.state.items["r"] = Item(name="right", tags=("x", "y"))
        self.effects.happen("right")
        return "R", 1

    @listen(and_(left, right))
    def join(self) -> int:
        self.effects.happen("join")
        return len(self.state.lines)

    @router(join)
    def first_check(self) -> Literal["again", "done"]:
        return "again"

    @listen("again")
    async def work(self) -> int:
        self.state.rounds += 1
        self.effects.happen(f"work {self.state.rounds}")
        return self.state.rounds

    @router(work)
    def check(self) -> Literal["again", "done"]:
        return "again" if self.state.rounds < 3 else "done"

    @listen("done")
    def end(self) -> list[Any]:
        self.effects.happen("end")
        return [self.state.rounds, self.state.lines, self.state.items["r"].name, list(self.state.items["r"].tags)]


MOMENTS = [
    f"{when} {what}"
    for what in ("left", "right", "join", "work 1", "work 2", "work 3", "end")
    for when in ("before", "after")
]
RESULT = [3, ["left"], "right", ["x", "y"]]


def main(folder: str, die_at: str, checkpoint: str) -> None:
    with SqliteStore(Path(folder) / "journal.db") as store:
        flow = Busy(Effects(Path(folder) / "effects", die_at), checkpoint=CheckpointConfig(store))
        print(flow.kickoff(from_checkpoint=checkpoint or None))  # noqa: T201 - its answer


if __name__ == "__main__":
    main(*sys.argv[1:])
