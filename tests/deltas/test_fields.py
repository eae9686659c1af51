from __future__ import annotations

from dataclasses import dataclass, field
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


@pytest.mark.parametrize("state", [Socket(), 1, [1], Data, Message, {1: 2}])
def test_anything_else_is_a_usage_error(state: object) -> None:
    with pytest.raises(UsageError):
        fields_of(state)
