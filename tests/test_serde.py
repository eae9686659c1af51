from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import NotStorableError, StorageError
from holdfast.serde import decode, encode, from_plain, to_plain


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    client: Any = None


@dataclass
class Pair:
    left: int
    right: object


class Model:
    """Looks like a pydantic model; its plain form is asked for in JSON's terms."""

    def __repr__(self) -> str:
        return "Model()"

    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"mode": mode}


class Socket:
    """Has no stored form."""


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        ("ö", "ö"),
        ([1, [2]], [1, [2]]),
        ({"a": {1: 2}}, {"a": {"1": 2}}),
        (frozenset({1}), [1]),
        (Colour.RED, "red"),
        (Point(1), {"x": 1, "client": None}),
        (Pair(1, [2]), {"left": 1, "right": [2]}),
        (Path("/tmp/x"), "/tmp/x"),
        (PurePosixPath("y"), "y"),
        (ValueError("no"), {"error_type": "ValueError", "error": "no"}),
        (Model(), {"mode": "json"}),
        ({"m": [Model()]}, {"m": [{"mode": "json"}]}),
    ],
    ids=repr,
)
def test_values_as_plain_data(value: object, plain: object) -> None:
    assert to_plain(value) == plain
    assert decode(encode(value)) == plain


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Socket(), "$"),
        ([1, Socket()], "$[1]"),
        ({"items": [0, {"client": Socket()}]}, "$.items[1].client"),
        (Point(1, Socket()), "$.client"),
        ({"points": (Point(1), Point(2, [Socket()]))}, "$.points[1].client[0]"),
        ({"a": 1, "b": {"c": lambda: None}}, "$.b.c"),
    ],
    ids=["alone", "in a list", "deep", "in a struct", "in a tuple of structs", "a function"],
)
def test_what_cannot_be_stored_is_refused_with_its_path(value: object, path: str) -> None:
    with pytest.raises(NotStorableError) as caught:
        to_plain(value)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: cannot store a ")
    assert "plain data" in str(caught.value)


def test_encode_refuses_as_to_plain_does() -> None:
    with pytest.raises(NotStorableError, match=r"\$\[0\]: cannot store a Socket"):
        encode([Socket()])


def test_a_dict_with_keys_that_are_no_text_is_refused() -> None:
    with pytest.raises(NotStorableError, match="keys"):
        to_plain({(1, 2): 3})


def test_a_list_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(NotStorableError):
        to_plain(endless)


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(NotStorableError):
        encode({"name": "\ud800"})


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", "nonsense", b"[1,]"])
def test_what_is_not_json_is_a_storage_error(data: bytes | str) -> None:
    with pytest.raises(StorageError, match="not stored data"):
        decode(data)


def test_from_plain_is_strict_and_names_the_path() -> None:
    assert from_plain({"x": 1}, Point) == Point(1)
    assert from_plain({"1": "one"}, dict[int, str]) == {1: "one"}
    with pytest.raises(msgspec.ValidationError, match=r"\$\.x"):
        from_plain({"x": "1"}, Point)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_json_values_come_back_as_they_were(value: object) -> None:
    assert to_plain(value) == value
    assert decode(encode(value)) == value
