"""Lives of `orders.py`, one process each: played, killed, played again, and compared with those of a run that nobody killed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from tests.checkpoints.orders import ONCE, RACERS, Life

from holdfast.checkpoints import restore
from holdfast.ports import JournalStore
from holdfast.stores import PostgresStore, SqliteStore

T = TypeVar("T")
R = TypeVar("R")
KILLED = -signal.SIGKILL


class Zygote:
    """A process that forks one for each life."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.checkpoints.orders"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def live(self, life: Life) -> int:
        """How the life ended: 0, or -9 if it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(life) + b"\n")
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=10)


class Nursery:
    """A zygote for each core; stories are told on all of them at once."""

    def __init__(self, count: int = 2) -> None:
        self._zygotes = [Zygote() for _ in range(count)]
        self._idle: SimpleQueue[Zygote] = SimpleQueue()
        for zygote in self._zygotes:
            self._idle.put(zygote)

    def tell_all(self, tell: Callable[[Zygote, T], R], items: Iterable[T]) -> list[R]:
        """Tell a story for each item."""

        def told(item: T) -> R:
            zygote = self._idle.get()
            try:
                return tell(zygote, item)
            finally:
                self._idle.put(zygote)

        with ThreadPoolExecutor(len(self._zygotes)) as threads:
            return list(threads.map(told, items))

    def close(self) -> None:
        for zygote in self._zygotes:
            zygote.close()


class Story:
    """The lives of one run, and what must be true of it."""

    def __init__(self, zygote: Zygote, life: Life) -> None:
        self.folder = Path(life.folder)
        self.allowed: Counter[str] = Counter()
        """How often each step may have happened more than once, by its key."""
        self._zygote = zygote
        self._life = life

    @classmethod
    def begin(cls, zygote: Zygote, folder: Path, **options: Any) -> Story:
        folder.mkdir()
        return cls(zygote, Life(str(folder), **options))

    @property
    def is_over(self) -> bool:
        return (self.folder / "outcome").exists()

    def live(self, **changes: Any) -> bool:
        """One more life. Says whether it was killed."""
        code = self._zygote.live(replace(self._life, **changes))
        assert code in (0, KILLED), f"a life of {self.folder} ended with {code}: see what it said"
        if code == KILLED:
            self.allowed += Counter(self._in_flight())
        return code == KILLED

    def live_to_the_end(self) -> None:
        assert not self.live()
        assert self.is_over

    def _in_flight(self) -> list[str]:
        """The keys of the steps that the journal says had begun and not ended."""
        with self._store() as store:
            return asyncio.run(_in_flight(store))

    def has_snapshots(self) -> bool:
        with self._store() as store:
            [run] = asyncio.run(store.runs())
            return asyncio.run(store.last_snapshot(run.root_run_id)) is not None

    def _store(self) -> Any:
        if self._life.dsn:
            return PostgresStore(self._life.dsn, schema=self._life.schema)
        return SqliteStore(self.folder / "journal.db")

    # -- what must be true -----------------------------------------------------------------------------------------

    def writes(self) -> int:
        """How many writes the last life took."""
        return int((self.folder / "writes").read_text())

    def outcome(self) -> dict[str, Any]:
        """The state and the outputs, without what may differ between two runs that nobody killed."""
        told: dict[str, Any] = json.loads((self.folder / "outcome").read_text())
        winner = told["state"].pop("winner")
        assert winner in RACERS
        outputs = sorted(map(json.dumps, told["outputs"]))
        for name in {output.strip('"') for output in outputs} & set(
            RACERS
        ):  # both may have ended before one was chosen
            outputs = [output for output in outputs if output != json.dumps(name)]
        return {"state": told["state"], "outputs": outputs}

    def effects(self) -> Counter[tuple[str, str]]:
        lines = (self.folder / "effects").read_text().splitlines()
        return Counter((name, key) for name, _, key in (line.partition("\t") for line in lines))

    def check(self, whole: Story) -> None:
        """That it ended as a run that nobody killed, and did no more than it had to."""
        assert self.outcome() == whole.outcome()
        if self._life.durability == "step":  # else a crash loses the last few steps, and they are run again
            self._check_effects(whole)

    def _check_effects(self, whole: Story) -> None:
        usual = Counter({name: times for (name, _), times in whole.effects().items()})
        happened = self.effects()
        keys = [name for name, _ in happened if name not in RACERS]
        assert sorted(keys) == sorted(ONCE), "an effect is missing, or its key is not the same each time"
        for (name, key), times in happened.items():
            assert times <= max(1, usual[name]) + self.allowed[key], f"{name} happened {times} times"
        self.check_questions()

    def check_questions(self) -> None:
        """Nothing is asked again that a step was given an answer to."""
        answered: set[str] = set()
        for line in (self.folder / "questions").read_text().splitlines():
            verb, _, message = line.partition(" ")
            if verb == "answered":
                answered.add(message)
            assert verb == "answered" or message not in answered, f"{message} was asked again"


async def _in_flight(store: JournalStore) -> list[str]:
    runs = await store.runs()
    if not runs or runs[0].status == "completed":
        return []
    fold = (await restore(store, runs[0].root_run_id)).fold
    return [f"{run_id}/{key}" for run_id, run in fold.runs.items() for key in run.standing.in_flight]
