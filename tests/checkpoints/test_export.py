"""From a journal to a document: what travels, and what cannot."""

from __future__ import annotations

import json

import pytest

from holdfast.checkpoints import export_checkpoint
from holdfast.checkpoints._document import decode_document, digest_of
from holdfast.errors import CorruptStoreError, StorageError
from holdfast.ports import Batch, BranchInfo
from holdfast.stores import MemoryStore
from holdfast.testing._checkpoint_base import Story
from holdfast.testing._journal_base import NOW, make_info, make_mark, make_row, open_run, written


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


async def test_values_that_are_named_travel_and_other_hashes_do_not() -> None:
    text, plain, other = b"a text", b"[1]", b"of another run"
    payload = {"a": {"$blob": digest_of(text)}, "b": [{"$blob+json": digest_of(plain)}], "c": digest_of(other)}
    payload["d"] = json.dumps({"$blob": digest_of(other)})  # somebody's text
    session = await open_run(store := MemoryStore())
    stored = tuple((digest_of(each), each) for each in (text, plain, other))
    await store.append(Batch(session, (make_row(1, payload=json.dumps(payload).encode()),), stored))
    found = decode_document(await export_checkpoint(store, session.root_run_id)).blobs
    assert found == {digest_of(text): text, digest_of(plain): plain}


async def test_a_checkpoint_whose_value_is_gone_cannot_be_exported() -> None:
    session = await open_run(store := MemoryStore())
    await store.append(Batch(session, (make_row(1, payload=b'{"$blob":"%b"}' % (b"a" * 64)),)))
    with pytest.raises(StorageError, match="a" * 64):
        await export_checkpoint(store, session.root_run_id)


async def test_a_stored_value_with_other_content_than_its_hash_says_is_not_passed_on() -> None:
    session = await open_run(store := MemoryStore())
    digest = "a" * 64
    await store.append(
        Batch(session, (make_row(1, payload=json.dumps({"$blob": digest}).encode()),), ((digest, b"x"),))
    )
    with pytest.raises(CorruptStoreError, match=digest):
        await export_checkpoint(store, session.root_run_id)
