from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.deltas.support import diff_plain, plain_keys, plain_leaves, plain_states, plain_values

import holdfast.deltas
from holdfast.deltas import Add, Append, Delete, Delta, Discard, Set, Splice, encode_plain, locate
from holdfast.deltas._codec import tag
from holdfast.errors import StorageError

names = st.text(st.characters(), max_size=3)  # also such as are not valid Unicode
paths = st.builds(lambda name, below: (name, *below), names, st.lists(plain_keys, max_size=2))
members = st.lists(plain_keys, max_size=3)
simple = st.builds(Set, st.tuples(names) | paths, plain_leaves)
operations = st.one_of(
    simple,
    st.builds(Set, paths, plain_values),
    st.builds(Delete, paths),
    st.builds(Append, paths, st.lists(plain_values, max_size=3) | names),
    st.builds(Splice, paths, st.integers(0, 9), st.integers(0, 9), st.lists(plain_values, max_size=3)),
    st.builds(Add, paths, members),
    st.builds(Discard, paths, members),
)
CODES: dict[Any, str] = {Set: "=", Delete: "x", Append: "a", Splice: "s", Add: "+", Discard: "-"}


@given(st.lists(simple, max_size=3) | st.lists(operations, max_size=3))
@settings(max_examples=400, deadline=None)
def test_any_operation_is_stored_as_its_code_its_path_and_the_rest_each_part_tagged(found: list[Any]) -> None:
    rows = []
    for operation in found:
        path, *rest = msgspec.structs.astuple(operation)
        rows.append([CODES[type(operation)], [tag(part) for part in path], *map(tag, rest)])
    assert Delta(tuple(found)).encode() == msgspec.json.encode(rows)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (2**64 - 1, b"18446744073709551615"),
        (2**64, b'{"$int":"0x10000000000000000"}'),
        (1 - 2**64, b"-18446744073709551615"),
        (-(2**64), b'{"$int":"-0x10000000000000000"}'),
        (True, b"true"),
        (None, b"null"),
        (-0.0, b"-0.0"),
        (float("nan"), b'{"$float":"nan"}'),
        (float("-inf"), b'{"$float":"-inf"}'),
        ("\xe4\n", '"\xe4\\n"'.encode()),
        ("\ud800", b'{"$str":"7aCA"}'),
        (b"a", b'{"$bytes":"YQ=="}'),
        (datetime(2024, 1, 2, tzinfo=UTC), b'{"$datetime":"2024-01-02T00:00:00+00:00"}'),
        ([1], b"[1]"),
        ((1,), b'{"$tuple":[1]}'),
        ({"a": 1}, b'{"a":1}'),
    ],
    ids=repr,
)
def test_a_field_that_was_set_is_stored_in_the_form_of_its_value(value: Any, stored: bytes) -> None:
    assert Delta((Set(("x",), value),)).encode() == b'[["=",["x"],' + stored + b"]]"
    assert Delta((Set(("n",), 1), Set(("x",), value))).encode() == b'[["=",["n"],1],["=",["x"],' + stored + b"]]"


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


@pytest.mark.parametrize(
    ("part", "stored"),
    [("b", b'"b"'), ("\ud800", b'{"$str":"7aCA"}'), (0, b"0"), (2**70, b'{"$int":"0x400000000000000000"}'),
     (None, b"null"), (2.5, b"2.5"), ((1,), b'{"$tuple":[1]}'), (b"a", b'{"$bytes":"YQ=="}')],
    ids=repr,
)  # fmt: skip
def test_a_path_is_stored_in_the_form_of_its_parts(part: Any, stored: bytes) -> None:
    assert Delta((Set(("a", part), 1),)).encode() == b'[["=",["a",' + stored + b"],1]]"


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
     b'[["s",["a"],"0",1,[]]]', b'[["x",[[1]]]]', b"[[]]", b'[["x",[]]]', b'[["s",["a"],-1,1,[]]]',
     b'[["=",["a"],1,2]]', b'[["x",["a"],1]]'],
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
