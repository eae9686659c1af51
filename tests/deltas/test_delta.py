from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from tests.deltas.support import diff_plain, plain_states

import holdfast.deltas
from holdfast.deltas import Add, Append, Delete, Delta, Discard, Set, Splice, encode_plain, locate
from holdfast.errors import StorageError


@given(plain_states, plain_states)
@settings(deadline=None)
def test_deltas_come_back_exactly(before: dict[str, Any], after: dict[str, Any]) -> None:
    delta = diff_plain(before, after)
    again = Delta.decode(delta.encode())
    assert again.encode() == delta.encode()
    assert [type(operation) for operation in again.operations] == [type(operation) for operation in delta.operations]
    assert [encode_plain(operation.path) for operation in again.operations] == [
        encode_plain(operation.path) for operation in delta.operations
    ]


def test_the_form_on_disk_is_compact_json() -> None:
    delta = Delta(
        (
            Set(("a", 0, "b"), {1}),
            Delete(("a", None)),
            Append(("log",), ["x"]),
            Append(("text",), "y"),
            Splice(("log",), 0, 2, []),
            Add(("s",), [1]),
            Discard(("s",), [(1,)]),
        )
    )
    assert delta.encode() == (
        b'[["=",["a",0,"b"],{"$set":[1]}],["x",["a",null]],["a",["log"],["x"]],["a",["text"],"y"],'
        b'["s",["log"],0,2,[]],["+",["s"],[1]],["-",["s"],[{"$tuple":[1]}]]]'
    )
    assert Delta.decode(delta.encode()) == delta


def test_an_empty_delta_is_false() -> None:
    assert not Delta()
    assert not Delta.decode(Delta().encode())
    assert Delta((Delete(("a",)),))


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"{}", b"[1]", b'[["?",["a"]]]', b'[["="]]', b'[["=",["a"]]]', b'[["=","a",1]]', b'[["a",["a"],1]]',
     b'[["s",["a"],"0",1,[]]]', b'[["x",[[1]]]]', b"[[]]", b'[["x",[]]]', b'[["s",["a"],-1,1,[]]]'],
)  # fmt: skip
def test_what_is_not_a_delta_is_a_storage_error(data: bytes) -> None:
    with pytest.raises(StorageError):
        Delta.decode(data)


def test_a_path_reads_as_people_write_it() -> None:
    assert locate(("items", 1, "client", None, (1, "a"))) == "$.items[1].client[None][(1, 'a')]"


def test_the_facade_exports_what_it_says() -> None:
    public = {
        name for name, value in vars(holdfast.deltas).items() if not name.startswith("_") and name != "annotations"
    }
    assert public == set(holdfast.deltas.__all__)
