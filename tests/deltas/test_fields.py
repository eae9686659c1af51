from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import pydantic
import pytest
from tests.deltas.support import Message, Point, Socket

from holdfast.deltas import fields_of
from holdfast.errors import UsageError


class State(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    items: list[int] = [1]
    client: Any = pydantic.Field(default=None, exclude=True)
    _private: int = 1


@dataclass
class Data:
    items: list[int]
    late: int = field(init=False)


def test_a_model_gives_fields_and_extras_but_neither_private_nor_excluded_ones() -> None:
    state = State(extra=2)  # type: ignore[call-arg]
    fields = fields_of(state)
    assert fields == {"items": [1], "extra": 2}
    assert fields["items"] is state.items


def test_dataclasses_structs_and_dicts_give_what_they_hold() -> None:
    data = Data([1])
    assert fields_of(data) == {"items": [1]}
    data.late = 2
    assert fields_of(data) == {"items": [1], "late": 2}
    assert fields_of(Point(1)) == {"x_axis": 1}
    assert fields_of(Point(1, msgspec.UNSET)) == {"x_axis": 1}
    state = {"a": [1]}
    assert fields_of(state) == state
    assert fields_of(state) is not state


class Plain(pydantic.BaseModel):
    first: int = 1
    second: list[int] = [2]

    @cached_property
    def size(self) -> int:
        return len(self.second)


@dataclass
class Sized:
    first: int = 1
    second: list[int] = field(default_factory=lambda: [2])

    @cached_property
    def size(self) -> int:
        return len(self.second)


@pytest.mark.parametrize("kind", [Plain, Sized])
def test_what_was_looked_up_once_is_no_field_and_a_field_that_is_gone_is_none_either(kind: Any) -> None:
    state = kind()
    assert fields_of(state) == {"first": 1, "second": [2]}
    assert state.size == 1
    assert fields_of(state) == {"first": 1, "second": [2]}
    del state.__dict__["second"]  # as many names as there are fields, but not theirs
    assert fields_of(state) == {"first": 1}


@pytest.mark.parametrize("state", [Plain(), Sized(), {"first": 1}, defaultdict(int, first=1)], ids=repr)
def test_the_fields_are_in_a_dict_of_their_own(state: Any) -> None:
    fields = fields_of(state)
    assert type(fields) is dict
    fields["first"] = fields["more"] = 9
    assert fields_of(state)["first"] == 1
    assert "more" not in fields_of(state)


class Doubled:
    """A descriptor that keeps a value under its own name, and gives another."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> int:
        return 1 if instance is None else instance.__dict__[self._name] * 2

    def __set__(self, instance: Any, value: int) -> None:
        instance.__dict__[self._name] = value


@dataclass
class Described:
    number: Doubled = Doubled()


@dataclass
class Telling:
    number: int = 1

    def __getattribute__(self, name: str) -> Any:
        return 2 if name == "number" else super().__getattribute__(name)


@pytest.mark.parametrize("state", [Described(), Telling()], ids=repr)
def test_a_dataclass_that_decides_what_a_field_gives_is_asked(state: object) -> None:
    assert fields_of(state) == {"number": 2}


@pytest.mark.parametrize("state", [Socket(), 1, [1], Data, Message, {1: 2}])
def test_anything_else_is_a_usage_error(state: object) -> None:
    with pytest.raises(UsageError):
        fields_of(state)
