"""The state that steps share, and what is found when one of them leaves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pydantic
import pytest

from holdfast.deltas import Append, Delete, Delta, Set, Shadow, fields_of
from holdfast.errors import NotStorableError, UsageError
from holdfast.graph._cell import SharedState


class Model(pydantic.BaseModel):
    n: int = 0
    news: list[Any] = []


@dataclass
class Data:
    n: int = 0
    news: list[Any] = field(default_factory=list)


def kept(state: Any) -> SharedState:
    """A state of which each step's changes are asked for."""
    return SharedState(state, shadow=Shadow(fields_of(state)))


@pytest.mark.parametrize("kind", [Model, Data])
def test_leaving_tells_what_the_step_changed(kind: Any) -> None:
    state = kind()
    cell = kept(state)
    for number in (1, 2):
        cell.alone = f"step#{number}"
        state.n = number
        state.news.append("x")
        assert cell.leave(f"step#{number}") == Delta((Set(("n",), number), Append(("news",), ["x"])))
    assert cell.leave("step#3") == Delta()


def test_a_state_of_which_nobody_keeps_track_has_no_changes() -> None:
    cell = SharedState(Model())
    cell.alone = "step#1"
    assert cell.leave("step#1") is None


def test_a_state_of_another_kind_in_its_place_is_read_as_what_it_is() -> None:
    cell = kept(Model(n=1))
    assert cell.changes() == Delta()
    cell.replace(Data(2, ["x"]))
    assert cell.changes() == Delta((Set(("n",), 2), Append(("news",), ["x"])))
    cell.replace({"n": 3})
    assert cell.changes() == Delta((Set(("n",), 3), Delete(("news",))))
    cell.replace([3])
    with pytest.raises(UsageError, match="not a list"):
        cell.changes()
    cell.replace(Model(n=3, news=[4]))
    assert cell.changes() == Delta((Set(("news",), [4]),))


def test_what_cannot_be_stored_fails_the_step_or_ends_keeping_track() -> None:
    state, told = Model(), list[NotStorableError]()
    cell = SharedState(state, shadow=Shadow(fields_of(state)))
    loose = SharedState(state, shadow=Shadow(fields_of(state)), give_up=told.append)
    state.news.append(object())
    with pytest.raises(NotStorableError):
        cell.leave("step#1")
    assert loose.leave("step#1") is None
    assert [error.path for error in told] == ["$.news[0]"]
    state.news[:] = [1]
    assert cell.leave("step#2") == Delta((Append(("news",), [1]),))
    assert loose.leave("step#2") is None


def test_what_comes_into_being_in_a_state_while_it_is_compared_is_no_field_of_it() -> None:
    class Part(pydantic.BaseModel):
        n: int = 0
        _whole: Any = pydantic.PrivateAttr(None)

        @pydantic.field_serializer("n")
        def shown(self, n: int) -> int:
            return n if self._whole is None else n + 0 * self._whole.total

    class Whole(pydantic.BaseModel):
        part: Part = Part()
        m: int = 0

        @cached_property
        def total(self) -> int:
            return self.part.n + 1

    whole = Whole(part=Part())
    cell = SharedState(whole, shadow=Shadow(fields_of(whole)))
    whole.part._whole = whole
    whole.part.n, whole.m = 3, 1
    assert cell.changes() == Delta((Set(("part", "n"), 3), Set(("m",), 1)))
    assert "total" in vars(whole)
