from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from tests.deltas.support import LEAVES, Colour, plain_values

from holdfast.deltas import decode_plain, encode_plain
from holdfast.deltas._compare import same_plain
from holdfast.errors import StorageError


@given(plain_values)
@settings(max_examples=400, deadline=None)
def test_plain_values_come_back_exactly(value: Any) -> None:
    data = encode_plain(value)
    assert same_plain(decode_plain(data), value)
    assert encode_plain(decode_plain(data)) == data
    msgspec.json.decode(data)


@pytest.mark.parametrize("value", LEAVES, ids=repr)
def test_leaves_come_back_exactly_as_values_and_as_keys(value: Any) -> None:
    assert same_plain(decode_plain(encode_plain([value])), [value])
    if value == value:
        assert same_plain(decode_plain(encode_plain({value: value})), {value: value})


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": [1, None, "x"]}, b'{"a":[1,null,"x"]}'),
        ({"$set": 1}, b'{"$dict":[["$set",1]]}'),
        ({"$set": 1, "b": 2}, b'{"$set":1,"b":2}'),
        ({2, 1}, b'{"$set":[1,2]}'),
        ({1: "a", "1": "b"}, b'{"$dict":[[1,"a"],["1","b"]]}'),
        ((1, -0.0), b'{"$tuple":[1,-0.0]}'),
        (float("nan"), b'{"$float":"nan"}'),
    ],
)
def test_the_form_on_disk(value: Any, data: bytes) -> None:
    assert encode_plain(value) == data


@pytest.mark.parametrize(
    "data",
    [b"{", b"\xff", b'{"$later":1}', b'{"$date":"x"}', b'{"$set":[[1]]}', b'{"$bytes":"*"}', b'{"$decimal":"x"}'],
)
def test_damaged_data_is_a_storage_error(data: bytes) -> None:
    with pytest.raises(StorageError):
        decode_plain(data)


def test_a_value_that_is_not_plain_is_the_callers_mistake() -> None:
    with pytest.raises(TypeError, match=r"Colour is not plain.*holdfast\.deltas\.plain"):
        encode_plain([Colour.RED])
