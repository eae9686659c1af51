"""Any sequence of operations leaves a store as a simple model says, and what was promised can be restored from it.

A snapshot holds the ids of all events up to it, so that restoring any position (the newest snapshot, then the rows after
it) must give the ids of its branch up to there, whatever was pruned.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import FencedError, RunBusyError, StorageError
from holdfast.ids import new_id
from holdfast.ports import Batch, JournalStore, Session, Snapshot
from holdfast.stores import MemoryStore, PostgresStore, SqliteStore
from holdfast.testing._journal_base import NOW, make_info, make_mark, make_rows

Step = tuple[str, int, int, int]
KINDS = ["open", "append", "append", "append", "append", "close", "fork", "prune", "delete", "pass"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), *(st.integers(0, 99) for _ in range(3))), min_size=25, max_size=50)
HOLD = 10


class Run:
    """What the model knows of a run: each branch as the whole list of its event ids."""

    def __init__(self) -> None:
        self.branches: dict[str, list[str]] = {"main": []}
        self.incarnation = 0
        self.fence = 0
        self.owner = ""
        self.held_until = 0
        self.marks: dict[str, tuple[str, int]] = {}
        self.places: set[tuple[str, int]] = set()
        """Fork points. They stay restorable, as heads and kept marks do."""
        self.pruned = False


class Model:
    def __init__(self, store: JournalStore) -> None:
        self.store = store
        self.now = NOW
        self.runs: dict[str, Run] = {}
        self.sessions: list[tuple[str, Session]] = []

    async def take(self, step: Step) -> None:
        kind, *numbers = step
        await getattr(self, kind)(*numbers)

    def pick(self, a: int) -> tuple[str, Run] | None:
        names = list(self.runs)
        return (names[a % len(names)], self.runs[names[a % len(names)]]) if names else None

    async def open(self, a: int, b: int, c: int) -> None:
        name, owner = f"run {a % 2}", f"owner {b % 2}"
        run = self.runs.get(name, Run())
        branch = list(run.branches)[c % len(run.branches)]
        opening = self.store.open(
            make_info(name), branch=branch, owner=owner, now_us=self.now, hold_until_us=self.now + HOLD
        )
        if run.held_until > self.now and run.owner != owner:
            with pytest.raises(RunBusyError):
                await opening
            return
        session = await opening
        self.runs[name] = run
        assert session.fence > max((known.fence for _, known in self.sessions), default=0)
        run.incarnation += 1
        run.fence, run.owner, run.held_until = session.fence, owner, self.now + HOLD
        assert (session.incarnation, session.head) == (run.incarnation, len(run.branches[branch]))
        self.sessions.append((name, session))

    async def append(self, a: int, b: int, c: int) -> None:
        if not self.sessions:
            return
        # Mostly the newest session; now and then an old one.
        name, session = self.sessions[-1 if a % 4 else a % len(self.sessions)]
        run = self.runs.get(name)
        ids = run.branches.get(session.branch, []) if run else []
        rows = make_rows(len(ids) + 1, len(ids) + b % 4)
        after = [*ids, *(row.event_id for row in rows)]
        mark = make_mark(c % (len(after) + 1), id=new_id())
        batch = Batch(
            session,
            rows,
            snapshot=Snapshot(len(after), json.dumps(after).encode()) if c % 3 == 0 else None,
            marks=(mark,) if b % 2 and not (run and run.pruned) else (),
        )
        appending = self.store.append(batch) if c % 2 else asyncio.to_thread(self.store.append_now, batch)
        if run is None or run.fence != session.fence:
            with pytest.raises(FencedError):
                await appending
            return
        await appending
        run.branches[session.branch] = after
        for made in batch.marks:
            run.marks[made.id] = (session.branch, made.seq)

    async def close(self, a: int, b: int, c: int) -> None:
        if self.sessions:
            name, session = self.sessions[a % len(self.sessions)]
            await self.store.close_session(session)
            run = self.runs.get(name)
            if run and run.fence == session.fence:
                run.fence, run.held_until = 0, 0

    async def fork(self, a: int, b: int, c: int) -> None:
        if not (picked := self.pick(a)):
            return
        name, run = picked
        parent = list(run.branches)[b % len(run.branches)]
        ids = run.branches[parent]
        at, branch = c % (len(ids) + 2), f"b{len(run.branches)}"
        forking = self.store.fork(name, branch=branch, parent=parent, at_seq=at, now_us=self.now)
        if at > len(ids):
            with pytest.raises(StorageError):
                await forking
            return
        try:
            await forking
        except StorageError:
            assert run.pruned
            return
        run.branches[branch] = ids[:at]
        run.places.add((parent, at))

    async def prune(self, a: int, b: int, c: int) -> None:
        if picked := self.pick(a):
            name, run = picked
            kept = {mark: place for n, (mark, place) in enumerate(run.marks.items()) if n % 3 == b % 3}
            await self.store.prune(name, keep_marks=kept)
            run.marks, run.pruned = kept, True

    async def delete(self, a: int, b: int, c: int) -> None:
        if c % 4 or not (picked := self.pick(a)):
            return
        name, run = picked
        deleting = self.store.delete(name, now_us=self.now)
        if run.held_until > self.now:
            with pytest.raises(RunBusyError):
                await deleting
            return
        await deleting
        del self.runs[name]

    async def pass_(self, a: int, b: int, c: int) -> None:
        self.now += a % 8

    async def check(self) -> None:
        assert {run.root_run_id for run in await self.store.runs()} == set(self.runs)
        for name, run in self.runs.items():
            info = await self.store.run(name)
            assert info is not None
            assert (info.incarnation, info.held_until_us) == (run.incarnation, run.held_until)
            heads = {branch.name: branch.head for branch in await self.store.branches(name)}
            assert heads == {branch: len(ids) for branch, ids in run.branches.items()}
            assert {mark.id for mark in await self.store.marks(name)} == set(run.marks)
            for branch, seq in {*heads.items(), *run.marks.values(), *run.places}:
                assert await self.restore(name, branch, seq) == run.branches[branch][:seq]

    async def restore(self, name: str, branch: str, seq: int) -> list[str]:
        snapshot = await self.store.last_snapshot(name, branch=branch, upto=seq)
        ids: list[str] = json.loads(snapshot.data) if snapshot else []
        after = snapshot.seq if snapshot else 0
        return ids + [row.event_id async for row in self.store.read(name, branch=branch, after=after, upto=seq)]


setattr(Model, "pass", Model.pass_)


def follow(make: Callable[[], JournalStore], steps: list[Step]) -> None:
    async def all_of_them() -> None:
        store = make()
        try:
            model = Model(store)
            for step in steps:
                await model.take(step)
            await model.check()
        finally:
            await store.aclose()

    asyncio.run(all_of_them())


SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(max_examples=200, deadline=None, suppress_health_check=SLOW)
@given(STEPS)
def test_memory_does_as_the_model_says(steps: list[Step]) -> None:
    follow(MemoryStore, steps)


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(STEPS)
def test_sqlite_does_as_the_model_says(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        follow(lambda: SqliteStore(Path(folder) / "journal.db"), steps)


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(STEPS)
def test_postgres_does_as_the_model_says(postgres: str, steps: list[Step]) -> None:
    follow(lambda: PostgresStore(postgres, schema="model_" + new_id().replace("-", "")), steps)
