"""Documents: what they hold, what becomes of them in another journal, and which ones are refused."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Flow, Runtime, listen, start
from holdfast.checkpoints import CheckpointConfig, export_checkpoint, import_checkpoint
from holdfast.checkpoints._document import FORMAT, decode_document, digest_of, encode_document
from holdfast.errors import CorruptStoreError, RunBusyError, StorageError
from holdfast.ports import Batch, BranchInfo, JournalStore, Mark, RunInfo, Snapshot
from holdfast.stores import MemoryStore, SqliteStore
from holdfast.testing._checkpoint_base import Story, short_story, told
from holdfast.testing._journal_base import NOW, SECOND, make_info, make_mark, make_row, open_run, positions, written

GOLDEN = Path(__file__).with_name("golden")
LATER = NOW + 3600 * SECOND  # when holds from NOW have run out


def golden(number: int) -> bytes:
    return (GOLDEN / f"checkpoint_format_{number}.json").read_bytes()


async def run_of(store: JournalStore, root_run_id: str) -> RunInfo:
    info = await store.run(root_run_id)
    assert info is not None
    return info


async def branch_names(store: JournalStore, root_run_id: str) -> list[str]:
    return [branch.name for branch in await store.branches(root_run_id)]


# -- the format ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
async def test_documents_of_every_format_are_read(number: int) -> None:
    mark = await import_checkpoint(store := MemoryStore(), golden(number), now_us=LATER)
    assert mark == Mark("golden-mark", 5, NOW + 5, "task_completed", "b", "golden-run", "golden-parent", 321)
    rows = [row async for row in store.read("golden-run", branch="b")]
    assert [row.seq for row in rows] == [1, 2, 3, 4, 5]
    assert rows[4].delta == b'["set","x",1]'
    assert (rows[4].source_name, rows[4].task_name, rows[4].agent_role) == ("greet", "größe", None)
    assert await store.last_snapshot("golden-run", branch="b") == Snapshot(3, b'{"state":{"edited":true}}')
    assert await store.last_snapshot("golden-run") is None
    assert await store.blob(digest_of(b"a large value")) == b"a large value"
    info = await run_of(store, "golden-run")
    assert (info.kind, info.name, info.status, info.fingerprint) == ("flow", "Greeting", "running", "f1")
    assert info.definition == b'{"graph":{},"made_by":"golden:Greeting"}'


def test_this_format_is_written_as_its_golden_file_says() -> None:
    assert encode_document(decode_document(golden(FORMAT))) == golden(FORMAT)


async def test_a_document_is_text_with_its_head_first_and_a_line_for_each_row() -> None:
    _, document = await short_story(3)
    lines = document.decode().splitlines()
    assert lines[1] == f'"holdfast_checkpoint": {FORMAT},'
    assert [line.split('"')[1] for line in lines[2:8]] == [
        "checkpoint",
        "run",
        "branches",
        "definition",
        "snapshot",
        "rows",
    ]
    assert [json.loads(line.rstrip(","))["seq"] for line in lines[8:11]] == [1, 2, 3]
    assert json.loads(document)["rows"][0]["payload"].keys() == {"large"}


# -- export --------------------------------------------------------------------------------------------------------------------


async def test_a_runs_id_stands_for_the_head_of_the_branch_it_took_last() -> None:
    story = Story()
    await story.fork("b", await story.go())
    session = await open_run(story.store, make_info(story.root), branch="b")
    await story.store.append(written(session, 4, 5))
    head = decode_document(await export_checkpoint(story.store, story.root)).mark
    assert (head.seq, head.branch, head.trigger) == (5, "b", "manual")
    assert decode_document(await export_checkpoint(story.store, story.root)).mark.id == head.id
    mark = make_mark(5)
    await story.store.append(Batch(session, marks=(mark,)))
    assert decode_document(await export_checkpoint(story.store, story.root)).mark.id == mark.id


async def test_a_checkpoint_that_is_not_there_is_named() -> None:
    with pytest.raises(StorageError, match="no checkpoint and no run is called 'nothing'"):
        await export_checkpoint(MemoryStore(), "nothing")


async def test_a_position_in_the_middle_is_of_a_run_that_was_running() -> None:
    story = Story()
    middle, end = await story.go(), await story.go()
    session = await open_run(story.store, make_info(story.root))
    await story.store.append(Batch(session, status="completed"))
    await story.store.close_session(session)
    assert decode_document(await story.document(middle)).info.status == "running"
    assert decode_document(await story.document(end)).info.status == "completed"


async def test_a_document_says_nothing_of_the_process_that_held_the_run() -> None:
    definition = b'{"owner":{"boot":"this","pid":1,"started":"now"},"graph":{"name":"g"},"made_by":"m:C"}'
    session = await open_run(store := MemoryStore(), make_info(definition=definition))
    found = decode_document(await export_checkpoint(store, session.root_run_id))
    assert json.loads(found.info.definition) == json.loads(definition) | {
        "owner": {"boot": "", "pid": 0, "started": ""}
    }
    assert found.info.held_until_us == 0


@pytest.mark.parametrize("payload", [b"no JSON", b'{}},{"seq":9', b'"\xff"', b""])
async def test_a_payload_that_is_no_json_cannot_pass_for_more(payload: bytes) -> None:
    session = await open_run(store := MemoryStore())
    await store.append(Batch(session, (make_row(1, payload=payload),)))
    with pytest.raises(StorageError, match="the payload of row 1 is not JSON"):
        await export_checkpoint(store, session.root_run_id)


async def test_a_checkpoint_whose_rows_were_pruned_cannot_be_exported() -> None:
    story = Story()
    early, late = await story.go(), await story.go(snapshot=b"{}")
    await story.store.prune(story.root, keep_marks=[early.id, late.id])
    session = await open_run(story.store, make_info(story.root))
    await story.store.append(Batch(session, marks=(make_mark(5, id="too late"),)))
    assert [row.seq for row in decode_document(await story.document(early)).rows] == [1, 2, 3]
    assert decode_document(await story.document(late)).rows == ()
    with pytest.raises(StorageError, match="cannot be restored any more"):
        await export_checkpoint(story.store, "too late")


async def test_branches_that_began_after_the_position_are_left_out() -> None:
    story = Story()
    main = await story.go(10)
    await story.fork("b", main)
    on_b = await story.go(branch="b")
    await story.store.fork(story.root, branch="d", parent="b", at_seq=4, now_us=NOW + 1)
    session = await open_run(story.store, make_info(story.root), branch="d")
    await story.store.append(written(session, 5, 5, marks=(mark := make_mark(5),)))
    found = decode_document(await story.document(mark))
    assert found.branches == (BranchInfo("main", None, 0, 4, NOW), BranchInfo("d", "main", 4, 5, NOW + 1))
    assert [branch.name for branch in decode_document(await story.document(on_b)).branches] == ["main", "b"]


async def test_values_that_rows_mention_travel_and_other_hashes_are_no_trouble() -> None:
    value, other = b"mine", b"of another run"
    text = f"{digest_of(value)} {'0' * 64} f{digest_of(other)}"  # the last one is part of something longer
    session = await open_run(store := MemoryStore())
    stored = tuple((digest_of(each), each) for each in (value, other))
    await store.append(Batch(session, (make_row(1, payload=json.dumps(text).encode()),), stored))
    assert decode_document(await export_checkpoint(store, session.root_run_id)).blobs == {digest_of(value): value}


async def test_a_stored_value_with_other_content_than_its_hash_says_is_not_passed_on() -> None:
    session = await open_run(store := MemoryStore())
    digest = "a" * 64
    await store.append(Batch(session, (make_row(1, payload=json.dumps(digest).encode()),), ((digest, b"x"),)))
    with pytest.raises(CorruptStoreError, match=digest):
        await export_checkpoint(store, session.root_run_id)


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
    early, middle = await story.go(5), await story.go(5, snapshot=b"{}")
    late = await story.go(2)
    documents = [await story.document(mark) for mark in (early, middle, late)]
    await import_checkpoint(store := MemoryStore(), documents[2], now_us=LATER)
    await import_checkpoint(store, documents[0], now_us=LATER)
    await store.prune(story.root, keep_marks=[late.id])
    with pytest.raises(StorageError):
        await import_checkpoint(store, documents[0], now_us=LATER)
    assert [mark.id for mark in await store.marks()] == [late.id]
    await import_checkpoint(store, documents[1], now_us=LATER)  # its snapshot is there


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


# -- what is refused -----------------------------------------------------------------------------------------------------------

GOOD = golden(FORMAT)


def edited(**changes: Any) -> bytes:
    """The golden document, changed on purpose: without its checksum."""
    plain = json.loads(GOOD) | changes
    del plain["sha256"]
    return json.dumps(plain).encode()


def without(field: str) -> bytes:
    plain = json.loads(edited())
    del plain[field]
    return json.dumps(plain).encode()


def within(part: str, **changes: Any) -> bytes:
    return edited(**{part: json.loads(GOOD)[part] | changes})


REFUSED = {
    "empty": (b"", "no checkpoint document: it is not JSON"),
    "not text": (b"\xff\xfe\x00", "no checkpoint document: it is not JSON"),
    "other JSON": (b'{"name": "package"}', "no checkpoint document: it has no format number"),
    "a list": (b"[]", "no checkpoint document"),
    "a format that is no number": (edited(holdfast_checkpoint="1"), "no checkpoint document"),
    "format 0": (edited(holdfast_checkpoint=0), "there never was a format 0"),
    "a newer format": (edited(holdfast_checkpoint=FORMAT + 1), "use a newer Holdfast"),
    "truncated": (GOOD[:-3], "ends early"),
    "half": (GOOD[: len(GOOD) // 2], "ends early"),
    "a byte is another": (GOOD.replace(b"edited", b"adited"), "does not match its checksum"),
    "a field is missing": (without("rows"), "damaged.*rows"),
    "a field is of another kind": (edited(rows={}), "damaged.*rows"),
    "a row is missing": (edited(rows=json.loads(GOOD)["rows"][:-1]), "rows are missing"),
    "a row in the middle is missing": (edited(rows=json.loads(GOOD)["rows"][::2]), "rows are missing"),
    "its first rows are missing": (edited(rows=json.loads(GOOD)["rows"][4:]), "rows are missing at its beginning"),
    "another content than its hash": (edited(blobs={"a" * 64: "AAAA"}), "does not have the content that its hash says"),
    "a value is no base64": (edited(blobs={"a" * 64: "%"}), "damaged.*blobs"),
    "a checkpoint of another run": (within("checkpoint", root_run_id="other"), "another run or branch"),
    "a checkpoint on another branch": (within("checkpoint", branch="other"), "another run or branch"),
    "a position beyond its rows": (within("checkpoint", seq=9), "rows are missing"),
    "a number that is too large": (within("checkpoint", at_us=2**60), "no store can hold"),
    "a negative number": (within("run", created_us=-1), "no store can hold"),
    "a text that no database takes": (within("run", name="a\0b"), "no store can hold"),
    "no run": (within("run", root_run_id=""), "no store can hold"),
    "no branches": (edited(branches=[]), "another run or branch"),
    "branches out of nowhere": (edited(branches=json.loads(GOOD)["branches"][1:]), "do not follow"),
    "a branch that leaves after the checkpoint": (
        edited(branches=[json.loads(GOOD)["branches"][0], json.loads(GOOD)["branches"][1] | {"fork_seq": 6}]),
        "leave one another where they cannot",
    ),
    "a snapshot of nothing": (edited(snapshot={"branch": "b", "seq": 3}), "its snapshot is empty"),
    "a snapshot from elsewhere": (edited(snapshot={"branch": "x", "seq": 3, "data": 1}), "snapshot is not on the way"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_bad_document_is_refused_with_what_is_wrong(name: str) -> None:
    document, words = REFUSED[name]
    store = MemoryStore()
    with pytest.raises(StorageError, match=f"(?s){words}"):
        await import_checkpoint(store, document, now_us=LATER)
    assert await store.runs() == []


@given(st.integers(0, len(GOOD) - 2))
def test_every_truncation_is_refused(length: int) -> None:
    with pytest.raises(StorageError):
        decode_document(GOOD[:length])


@given(st.integers(0, GOOD.rfind(b'"sha256"') - 1), st.integers(1, 255))
def test_every_changed_byte_is_noticed(at: int, by: int) -> None:
    with pytest.raises(StorageError):
        decode_document(GOOD[:at] + bytes([GOOD[at] ^ by]) + GOOD[at + 1 :])


async def test_a_document_may_be_edited_on_purpose() -> None:
    changed = within("run", name="Renamed")
    assert decode_document(changed).info.name == "Renamed"
    await import_checkpoint(store := MemoryStore(), changed, now_us=LATER)
    assert (await run_of(store, "golden-run")).name == "Renamed"


async def test_stand_ins_are_not_made_without_end() -> None:
    far = 10_000_000
    row = json.loads(GOOD)["rows"][4] | {"seq": far}
    changes = {"checkpoint": json.loads(GOOD)["checkpoint"] | {"seq": far}, "rows": [row]}
    changes |= {"snapshot": {"branch": "b", "seq": far - 1, "data": 1}}
    with pytest.raises(StorageError, match="too far on"):
        await import_checkpoint(MemoryStore(), edited(**changes), now_us=LATER)


async def test_nothing_is_imported_because_a_document_names_it() -> None:
    definition = {"made_by": "antigravity:Flow", "graph": {}, "__class__": "antigravity.Flow"}
    rows = [row | {"type": "antigravity", "source_type": "antigravity.Source"} for row in json.loads(GOOD)["rows"]]
    await import_checkpoint(MemoryStore(), edited(definition=definition, rows=rows), now_us=LATER)
    assert "antigravity" not in sys.modules


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
