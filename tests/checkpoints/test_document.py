"""The format: what a document looks like, which formats are read, and which documents are refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoints import import_checkpoint
from holdfast.checkpoints._document import FORMAT, decode_document, digest_of, encode_document
from holdfast.errors import StorageError
from holdfast.ports import JournalStore, Mark, RunInfo, Snapshot
from holdfast.stores import MemoryStore
from holdfast.testing._checkpoint_base import short_story
from holdfast.testing._journal_base import NOW, SECOND

GOLDEN = Path(__file__).with_name("golden")
LATER = NOW + 3600 * SECOND  # when holds from NOW have run out


def golden(number: int) -> bytes:
    return (GOLDEN / f"checkpoint_format_{number}.json").read_bytes()


async def run_of(store: JournalStore, root_run_id: str) -> RunInfo:
    info = await store.run(root_run_id)
    assert info is not None
    return info


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
async def test_documents_of_every_format_are_read(number: int) -> None:
    mark = await import_checkpoint(store := MemoryStore(), golden(number), now_us=LATER)
    assert mark == Mark("golden-mark", 5, NOW + 5, "task_completed", "b", "golden-run", "golden-parent", 321)
    rows = [row async for row in store.read("golden-run", branch="b")]
    assert [row.seq for row in rows] == [1, 2, 3, 4, 5]
    assert rows[4].delta == b'["set","x",1]'
    origin = rows[4].origin
    assert (origin.source_name, origin.task_name, origin.agent_role) == ("greet", "größe", None)
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
    "a snapshot before its branch": (
        edited(snapshot={"branch": "b", "seq": 2, "data": 1}),
        "snapshot is not on the way",
    ),
    "a snapshot after its branch": (
        edited(snapshot={"branch": "main", "seq": 4, "data": 1}),
        "snapshot is not on the way",
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
