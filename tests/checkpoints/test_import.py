"""From a document into a journal: one that never saw the run, and one that knows it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Flow, Runtime, listen, start
from holdfast.checkpoints import CheckpointConfig, export_checkpoint, import_checkpoint
from holdfast.errors import CorruptStoreError, RunBusyError, StorageError
from holdfast.ports import Batch, BranchInfo, JournalStore, RunInfo, Snapshot
from holdfast.stores import MemoryStore, SqliteStore
from holdfast.testing._checkpoint_base import Story, short_story, told
from holdfast.testing._journal_base import NOW, SECOND, make_info, make_mark, open_run, positions, written

LATER = NOW + 3600 * SECOND  # when holds from NOW have run out


async def run_of(store: JournalStore, root_run_id: str) -> RunInfo:
    info = await store.run(root_run_id)
    assert info is not None
    return info


async def branch_names(store: JournalStore, root_run_id: str) -> list[str]:
    return [branch.name for branch in await store.branches(root_run_id)]


# -- import into a store that does not know the run ----------------------------------------------------------------------------


async def test_a_new_run_is_as_it_was_recorded_and_held_by_nobody() -> None:
    story = Story()
    await story.fork("b", await story.go())
    mark = await story.go(branch="b")
    store = MemoryStore()
    assert await import_checkpoint(store, await story.document(mark), now_us=LATER) == mark
    info, recorded = await run_of(store, story.root), await run_of(story.store, story.root)
    assert (info.status, info.held_until_us, info.created_us) == ("running", 0, recorded.created_us)
    assert await store.branches(story.root) == [
        BranchInfo("main", None, 0, 3, NOW),
        BranchInfo("b", "main", 3, 6, NOW + 3),
    ]
    await open_run(store, make_info(story.root), branch="b", owner="anybody", now_us=NOW)


@pytest.mark.parametrize("status", ["completed", "failed", "waiting"])
async def test_an_end_is_kept(status: str) -> None:
    story = Story()
    mark = await story.go()
    await story.store.append(Batch(await open_run(story.store, make_info(story.root)), status=status))
    await import_checkpoint(store := MemoryStore(), await story.document(mark), now_us=LATER)
    assert (await run_of(store, story.root)).status == status


async def test_a_pruned_journal_travels_as_its_snapshot_and_what_follows() -> None:
    story = Story()
    await story.go(5)
    await story.go(5, snapshot=b'{"so far":10}')
    mark = await story.go(2)
    await story.store.prune(story.root, keep_marks=[mark.id])
    store = MemoryStore()
    await import_checkpoint(store, document := await story.document(mark), now_us=LATER)
    assert await positions(store, story.root) == [11, 12]
    assert await store.last_snapshot(story.root) == Snapshot(10, b'{"so far":10}')
    assert told(await export_checkpoint(store, mark.id)) == told(document)
    session = await open_run(store, make_info(story.root))
    await store.append(written(session, 13, 13))
    await store.fork(story.root, branch="b", parent="main", at_seq=11, now_us=LATER)


async def test_a_pruned_branch_with_a_state_of_its_own_leaves_no_stand_ins() -> None:
    story = Story()
    base = await story.go(5, snapshot=b'{"as":"it was"}')
    await story.fork("b", base, b'{"as":"edited"}')
    mark = await story.go(2, branch="b")
    await story.store.prune(story.root, keep_marks=[mark.id])
    await import_checkpoint(store := MemoryStore(), await story.document(mark), now_us=LATER)
    assert await positions(store, story.root, branch="b") == [6, 7]
    assert told(await export_checkpoint(store, mark.id)) == told(await story.document(mark))


async def test_a_run_of_more_rows_than_one_batch_arrives_whole() -> None:
    mark, document = await short_story(4_500)
    await import_checkpoint(store := MemoryStore(), document, now_us=LATER)
    assert len(await positions(store, mark.root_run_id)) == 4_500
    assert await export_checkpoint(store, mark.id) == document


# -- import into a store that knows it -----------------------------------------------------------------------------------------


async def test_an_earlier_checkpoint_becomes_a_mark_and_nothing_else() -> None:
    story = Story()
    early, late = await story.go(), await story.go()
    await story.store.append(Batch(await open_run(story.store, make_info(story.root)), status="completed"))
    await import_checkpoint(store := MemoryStore(), await story.document(late), now_us=LATER)
    before = await run_of(store, story.root)
    await import_checkpoint(store, await story.document(early), now_us=LATER)
    assert await store.mark(early.id) == early
    after = await run_of(store, story.root)
    assert (after.status, after.definition) == (before.status, before.definition) == ("completed", before.definition)
    assert await positions(store, story.root) == [1, 2, 3, 4, 5, 6]
    assert await branch_names(store, story.root) == ["main"]


async def test_a_later_checkpoint_brings_the_rows_that_are_lacking_and_the_status() -> None:
    story = Story()
    early, late = await story.go(), await story.go()
    await import_checkpoint(store := MemoryStore(), await story.document(early), now_us=LATER)
    await story.store.append(Batch(await open_run(story.store, make_info(story.root)), status="failed"))
    await import_checkpoint(store, await story.document(late), now_us=LATER)
    assert await positions(store, story.root) == [1, 2, 3, 4, 5, 6]
    assert (await run_of(store, story.root)).status == "failed"


async def test_importing_twice_changes_nothing_even_while_the_run_is_held() -> None:
    mark, document = await short_story()
    await import_checkpoint(store := MemoryStore(), document, now_us=LATER)
    session = await open_run(store, make_info(mark.root_run_id), now_us=LATER)
    assert await import_checkpoint(store, document, now_us=LATER) == mark
    await store.append(written(session, 4, 4))  # still the holder
    assert await import_checkpoint(store, document, now_us=LATER) == mark


async def test_nothing_is_added_to_a_run_that_somebody_holds() -> None:
    story = Story()
    early, late = await story.go(), await story.go()
    await import_checkpoint(store := MemoryStore(), await story.document(late), now_us=LATER)
    session = await open_run(store, make_info(story.root), now_us=LATER)
    with pytest.raises(RunBusyError):
        await import_checkpoint(store, await story.document(early), now_us=LATER)
    with pytest.raises(RunBusyError):
        await import_checkpoint(store, await story.document(late), now_us=LATER, branch="mine")
    assert await branch_names(store, story.root) == ["main"]
    await store.append(written(session, 7, 7))


async def test_rows_that_differ_are_refused_in_words() -> None:
    one, other = Story("same"), Story("same")
    mark, theirs = await one.go(4), await other.go(6)
    store = MemoryStore()
    await import_checkpoint(store, await one.document(mark), now_us=LATER)
    with pytest.raises(
        StorageError, match=r"row 1 of branch 'main' is another one\. Nothing was changed\. Import it into another"
    ):
        await import_checkpoint(store, await other.document(theirs), now_us=LATER)
    assert [each.id for each in await store.marks()] == [mark.id]
    assert await positions(store, "same") == [1, 2, 3, 4]


async def test_a_branch_that_went_another_way_is_refused() -> None:
    story = Story()
    shared = await story.go()
    await import_checkpoint(store := MemoryStore(), await story.document(shared), now_us=LATER)
    mark = await story.go()
    session = await open_run(store, make_info(story.root), now_us=LATER)
    await store.append(written(session, 4, 4))
    await store.close_session(session)
    with pytest.raises(StorageError, match="row 4"):
        await import_checkpoint(store, await story.document(mark), now_us=LATER)
    with pytest.raises(StorageError, match="row 4"):
        await import_checkpoint(store, await story.document(mark), now_us=LATER, branch="mine")


async def test_s1_16_branches_that_began_with_different_states_are_not_taken_for_one() -> None:
    documents, root = [], ""
    story = Story()
    base = await story.go()
    for state in (b'{"a":1}', b'{"a":2}', None):
        other = MemoryStore()
        await import_checkpoint(other, await story.document(base), now_us=LATER)
        await other.fork(story.root, branch="b", parent="main", at_seq=base.seq, now_us=LATER)
        session = await open_run(other, make_info(story.root), branch="b", now_us=LATER)
        snapshot = Snapshot(base.seq, state) if state else None
        await other.append(Batch(session, snapshot=snapshot, marks=(mark := make_mark(base.seq),)))
        documents.append(await export_checkpoint(other, mark.id))
        root = story.root
    for first in documents[1:]:
        await import_checkpoint(store := MemoryStore(), first, now_us=LATER)
        with pytest.raises(StorageError, match="branch 'b' began with another state"):
            await import_checkpoint(store, documents[0], now_us=LATER)
        assert len(await store.marks(root)) == 1


async def test_what_has_no_row_in_common_is_refused() -> None:
    story = Story()
    early = await story.go(5)
    await story.go(5, snapshot=b"{}")
    late = await story.go(2)
    before = await story.document(early)
    await story.store.prune(story.root, keep_marks=[late.id])
    await import_checkpoint(store := MemoryStore(), before, now_us=LATER)
    with pytest.raises(StorageError, match="no row in common"):
        await import_checkpoint(store, await story.document(late), now_us=LATER)
    await import_checkpoint(store := MemoryStore(), await story.document(late), now_us=LATER)
    with pytest.raises(StorageError, match="does not fit"):
        await import_checkpoint(store, before, now_us=LATER)
    assert [mark.id for mark in await store.marks()] == [late.id]


async def test_a_mark_is_not_put_where_its_rows_were_pruned() -> None:
    story = Story()
    marks = [await story.go(5), await story.go(2), await story.go(3, snapshot=b"{}"), await story.go(2)]
    kept, between, at_snapshot, last = [await story.document(mark) for mark in marks]
    await import_checkpoint(store := MemoryStore(), last, now_us=LATER)
    await import_checkpoint(store, kept, now_us=LATER)
    await store.prune(story.root, keep_marks=[marks[0].id, marks[3].id])
    with pytest.raises(StorageError, match="were pruned here"):
        await import_checkpoint(store, between, now_us=LATER)  # of its rows 1 to 5 are there, 6 and 7 are not
    await import_checkpoint(store, at_snapshot, now_us=LATER)
    assert [mark.id for mark in await store.marks()] == [marks[3].id, marks[2].id, marks[0].id]


async def test_a_document_can_be_imported_to_the_beginning_of_a_branch() -> None:
    story = Story()
    mark, later = await story.go(), await story.go()
    store = MemoryStore()
    for _ in range(2):
        found = await import_checkpoint(store, await story.document(mark), now_us=LATER, branch="mine")
        assert found == msgspec.structs.replace(mark, branch="mine")
    assert [(each.name, each.fork_seq) for each in await store.branches(story.root)] == [("main", 0), ("mine", 3)]
    session = await open_run(store, make_info(story.root), branch="mine", now_us=LATER)
    await store.append(written(session, 4, 9))
    await store.close_session(session)
    await import_checkpoint(store, await story.document(later), now_us=LATER)
    assert await positions(store, story.root) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(StorageError, match="stands on branch 'main'"):
        await import_checkpoint(store, await story.document(mark), now_us=LATER, branch="main")


# -- dying in the middle -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", range(8))
async def test_an_import_killed_at_any_write_is_completed_by_the_next(tmp_path: Path, moment: int) -> None:
    story = Story()
    await story.fork("b", await story.go(3_000))
    mark = await story.go(3_000, branch="b")
    (tmp_path / "document.json").write_bytes(document := await story.document(mark))
    command = [sys.executable, "-m", "tests.checkpoints.crash", "import_until", str(tmp_path), str(moment)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=50)
    async with SqliteStore(tmp_path / "journal.db") as store:
        if done.returncode == 0:
            assert moment == 7, "the import has more moments than this test kills it at"
        else:
            assert done.returncode == -signal.SIGKILL, done.stderr
            assert await store.mark(mark.id) is None
            assert {info.status for info in await store.runs()} <= {"cancelled"}  # nothing that recovery would take up
            await import_checkpoint(store, document, now_us=LATER)
        assert told(await export_checkpoint(store, mark.id)) == told(document)
        assert (await run_of(store, story.root)).status == "running"


# -- a real flow ---------------------------------------------------------------------------------------------------------------


async def test_s1_2_a_flow_goes_on_from_a_document_in_a_store_that_never_saw_it(
    tmp_path: Path, runtime: Runtime
) -> None:
    calls: list[str] = []

    class Fragile(Flow[dict[str, Any]]):
        ready = False

        @start()
        def prepare(self) -> str:
            calls.append("prepare")
            self.state["kept"] = "kept"
            return "prepared"

        @listen(prepare)
        def use(self, given: str) -> str:
            calls.append("use")
            if not self.ready:
                raise ConnectionError("down")
            return f"{given} {self.state['kept']}"

    async with SqliteStore(tmp_path / "here.db") as here, SqliteStore(tmp_path / "there.db") as there:
        with pytest.raises(ConnectionError):
            await Fragile(checkpoint=CheckpointConfig(here), runtime=runtime).akickoff()
        [mark] = await here.marks()
        found = await import_checkpoint(there, await export_checkpoint(here, mark.id), now_us=LATER, branch="there")
        flow = Fragile(checkpoint=CheckpointConfig(there), runtime=runtime)
        flow.ready = True
        assert await flow.akickoff(from_checkpoint=found.id) == "prepared kept"
        assert calls == ["prepare", "use", "use"]
        info = await run_of(there, mark.root_run_id)
        assert info.status == "completed"
        assert [(each.name, each.head > mark.seq) for each in await there.branches(mark.root_run_id)] == [
            ("main", False),
            ("there", True),
        ]


class Calls(Flow[dict[str, Any]]):
    """A flow around another, which is stopped inside it."""

    class Inner(Flow[dict[str, Any]]):
        @start()
        def fail(self) -> None:
            raise ConnectionError

    @start()
    def prepare(self) -> list[int]:
        self.state["list"] = [1]
        return self.state["list"]  # type: ignore[no-any-return]

    @listen(prepare)
    def inside(self) -> Any:
        return self.Inner().kickoff()


def edit_inner_graph(document: dict[str, Any]) -> None:
    [row] = [row for row in document["rows"] if row["payload"].get("called_as")]
    row["payload"]["graph"]["nodes"] = {}


def edit_delta(document: dict[str, Any]) -> None:
    [*_, row] = [row for row in document["rows"] if row.get("delta")]
    row["delta"] = [["nonsense"]]


def edit_snapshot(document: dict[str, Any]) -> None:
    root = document["run"]["root_run_id"]
    data = {"format": 1, "seq": 2, "last_event_id": "", "runs": {root: {"graph": 5}}}
    document["snapshot"] = {"branch": "main", "seq": 2, "data": data}


@pytest.mark.parametrize("edit", [edit_inner_graph, edit_delta, edit_snapshot])
def test_what_cannot_be_read_is_told_with_its_place(edit: Callable[[dict[str, Any]], None], runtime: Runtime) -> None:
    """What came of odd content was whatever met it first: a ValidationError, a KeyError, "not a stored state" of who knows what."""
    with MemoryStore() as store, MemoryStore() as elsewhere:
        flow = Calls(checkpoint=CheckpointConfig(store), runtime=runtime)
        with pytest.raises(ConnectionError):
            flow.kickoff()
        document = json.loads(asyncio.run(export_checkpoint(store, str(flow.run_id))))
        del document["sha256"]
        edit(document)
        mark = asyncio.run(import_checkpoint(elsewhere, json.dumps(document).encode(), now_us=LATER))
        again = Calls(checkpoint=CheckpointConfig(elsewhere), runtime=runtime)
        with pytest.raises(
            CorruptStoreError, match=r"position \d+ of branch 'main' cannot be read .* An earlier checkpoint"
        ):
            again.kickoff(from_checkpoint=mark.id)


def test_a_status_that_is_not_known_keeps_nobody_from_going_on(runtime: Runtime) -> None:
    with MemoryStore() as store, MemoryStore() as elsewhere:
        flow = Calls(checkpoint=CheckpointConfig(store), runtime=runtime)
        with pytest.raises(ConnectionError):
            flow.kickoff()
        document = json.loads(asyncio.run(export_checkpoint(store, str(flow.run_id))))
        del document["sha256"]
        document["run"]["status"] = "of a later version"
        mark = asyncio.run(import_checkpoint(elsewhere, json.dumps(document).encode(), now_us=LATER))
        with pytest.raises(ConnectionError):
            Calls(checkpoint=CheckpointConfig(elsewhere), runtime=runtime).kickoff(from_checkpoint=mark.id)
