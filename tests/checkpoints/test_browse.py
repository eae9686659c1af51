"""Looking at checkpoints: finding, listing, telling what one holds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Flow, Runtime, listen, start
from holdfast.checkpoints import (
    CheckpointConfig,
    Definition,
    compare_checkpoints,
    describe,
    find,
    find_run,
    list_checkpoints,
    list_trees,
    made_by,
    restore,
    short_ids,
    status_of,
)
from holdfast.checkpoints._owner import Owner, _start_time
from holdfast.errors import UsageError
from holdfast.ports import Batch, Snapshot
from holdfast.stores import MemoryStore, SqliteStore
from holdfast.testing._journal_base import NOW, make_info, make_mark, make_row, make_rows, open_run


class Growing(Flow[dict[str, Any]]):
    """Two steps, the second with a large result and a large state."""

    @start()
    def first(self) -> int:
        self.state["n"] = 1
        return 1

    @listen(first)
    def second(self) -> str:
        self.state["text"] = "s" * 100_000
        return "r" * 100_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "journal.db") as store:
        yield store


@pytest.fixture
def grown(store: SqliteStore, runtime: Runtime) -> SqliteStore:
    Growing(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    return store


async def test_a_checkpoint_is_found_by_its_id_its_beginning_or_its_end() -> None:
    async with MemoryStore() as store:
        session = await open_run(store, make_info("run-0001"))
        marks = (make_mark(0, id="abc-1x"), make_mark(0, id="abd-2x"))
        await store.append(Batch(session, marks=marks))
        for text in ("abc-1x", "abc", "1x"):
            found = await find(store, text)
            assert (found.id, found.run.root_run_id) == ("abc-1x", "run-0001")
        head = await find(store, "run-0")
        assert (head.id, head.mark) == ("run-0001", None)
        assert (await find_run(store, "abd")).root_run_id == "run-0001"
        with pytest.raises(UsageError, match="'ab' fits several: abd-2x, abc-1x; give more of the id"):
            await find(store, "ab")
        for text in ("", "bc-1", "zz"):  # nothing, a middle, a stranger
            with pytest.raises(UsageError, match="there are: abd-2x, abc-1x, run-0001"):
                await find(store, text)


async def test_in_an_empty_store_it_says_so() -> None:
    async with MemoryStore() as store:
        with pytest.raises(UsageError, match="the store is empty"):
            await find(store, "x")


@given(st.sets(st.text("ab", min_size=1, max_size=16), max_size=40))
def test_short_ids_are_ends_that_find_would_take(ids: set[str]) -> None:
    short = short_ids(ids)
    assert short.keys() == ids
    for name, end in short.items():
        others = [other for other in ids if other != name and other.endswith(end)]
        assert name.endswith(end)
        assert not others or end == name  # the whole id always does


def test_large_values_are_told_in_full(grown: SqliteStore) -> None:
    last = asyncio.run(grown.marks())[0]
    details = asyncio.run(describe(grown, asyncio.run(find(grown, last.id))))
    assert [(step.key, step.result) for step in details.steps] == [("first#1", 1), ("second#1", "r" * 100_000)]
    assert details.state["text"] == "s" * 100_000
    assert details.made_by.endswith("test_browse:Growing")


def test_a_checkpoint_that_is_not_the_last_knows_nothing_of_what_came_later(grown: SqliteStore) -> None:
    last, first = asyncio.run(grown.marks())
    details = asyncio.run(describe(grown, asyncio.run(find(grown, first.id))))
    assert [step.key for step in details.steps if step.status == "completed"] == ["first#1"]
    assert "text" not in details.state
    assert details.seq == first.seq < last.seq < details.head


async def test_what_pruned_rows_told_is_there_as_far_as_a_snapshot_has_it(store: SqliteStore, runtime: Runtime) -> None:
    await Growing(checkpoint=CheckpointConfig(store), runtime=runtime).akickoff()
    [info] = await store.runs()
    first = (await store.marks())[1]
    before = await restore(store, first.id)
    session = await open_run(store, info, now_us=info.updated_us)
    await store.append(Batch(session, snapshot=Snapshot(first.seq, before.fold.encode())))
    await store.close_session(session)
    await store.prune(info.root_run_id, keep_marks=[first.id])
    assert next(iter([row.seq async for row in store.read(info.root_run_id)])) == first.seq + 1
    found = await find(store, first.id)
    [step] = (await describe(store, found)).steps
    assert (step.key, step.status, step.attempts, step.result) == ("first#1", "completed", None, 1)
    [listed] = await list_checkpoints(store)
    assert listed.subject == ""  # the row that told is gone
    difference = await compare_checkpoints(store, found, await find(store, info.root_run_id))
    assert (difference.only_a, difference.only_b) == ((), ("second#1",))


async def test_usage_is_the_sum_of_all_model_calls(store: SqliteStore, runtime: Runtime) -> None:
    await Growing(checkpoint=CheckpointConfig(store), runtime=runtime).akickoff()
    [info] = await store.runs()
    session = await open_run(store, info, now_us=info.updated_us)
    rows = make_rows(
        session.head + 1, session.head + 2, type="llm_call_completed", payload=b'{"usage":{"input":3,"output":4}}'
    )
    await store.append(Batch(session, rows))
    assert (await describe(store, await find(store, info.root_run_id))).usage == {"input": 6, "output": 8}


async def test_trees_have_every_branch_and_runs_without_a_checkpoint() -> None:
    async with MemoryStore() as store:
        bare = await open_run(store, make_info("bare"))
        await store.append(Batch(bare, (make_row(1),)))
        session = await open_run(store, make_info("run"), now_us=NOW + 50)
        await store.append(Batch(session, make_rows(1, 3), marks=(make_mark(2, id="m2"), make_mark(3, id="m3"))))
        await store.fork("run", branch="b", parent="main", at_seq=2, now_us=NOW)
        newest, oldest = await list_trees(store)
        assert [branch.name for branch in newest.branches] == ["main", "b"]
        assert [one.mark.id for one in newest.checkpoints] == ["m2", "m3"]
        assert (oldest.run.root_run_id, oldest.checkpoints) == ("bare", [])
        assert [tree.run.root_run_id for tree in await list_trees(store, "bare")] == ["bare"]
        assert len(await list_trees(store, limit=1)) == 1


def test_a_definition_that_is_not_ours_names_no_program() -> None:
    assert made_by(make_info("run")) == ""


ELSEWHERE = Owner("another boot", 1, "1")
GONE = msgspec.structs.replace(Owner.this_process(), started="1")


@pytest.mark.parametrize(
    ("owner", "held_until_us", "told"),
    [
        (Owner.this_process(), NOW + 1, "running"),
        (Owner.this_process(), 0, "interrupted"),  # it left, and lives on
        (GONE, NOW + 1, "interrupted"),  # it was killed, and its hold has not run out
        (ELSEWHERE, NOW + 1, "running"),
        (ELSEWHERE, NOW, "interrupted"),  # on another machine, or before this one was started again
        (None, NOW + 1, "running"),
        (None, NOW, "interrupted"),
    ],
)
def test_a_run_that_nobody_runs_any_more_is_interrupted(owner: Owner | None, held_until_us: int, told: str) -> None:
    definition = b"{}" if owner is None else msgspec.json.encode(Definition(owner, Growing.graph()))
    info = msgspec.structs.replace(make_info("run"), held_until_us=held_until_us, definition=definition)
    assert status_of(info, NOW) == told
    assert status_of(msgspec.structs.replace(info, status="waiting"), NOW) == "waiting"


def test_a_process_that_is_only_stopped_keeps_its_run_whatever_its_hold_says() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        owner = Owner(Owner.this_process().boot, child.pid, _start_time(child.pid) or "")
        definition = msgspec.json.encode(Definition(owner, Growing.graph()))
        info = msgspec.structs.replace(make_info("run"), held_until_us=1, definition=definition)
        assert status_of(info, NOW) == "running"
        child.communicate(b"\n")
    assert status_of(info, NOW) == "interrupted"
