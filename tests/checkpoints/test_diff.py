"""What differs between two plain states and two sets of results."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoints._diff import Change, compare, compare_plain
from holdfast.deltas._paths import value_at

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=12,
)


def test_a_field_is_added_removed_or_changed() -> None:
    assert list(compare_plain({"a": 1, "b": 2}, {"b": 3, "c": 4})) == [
        Change("removed", ("a",), before=1),
        Change("changed", ("b",), 2, 3),
        Change("added", ("c",), after=4),
    ]


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ([1, 2, 3], [1, 9, 2, 3], [Change("added", (1,), after=9)]),
        ([1, 2, 3], [1, 3], [Change("removed", (1,), before=2)]),
        ([{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 3}], [Change("changed", (1, "x"), 2, 3)]),
        ([1], [2, 3], [Change("changed", (0,), 1, 2), Change("added", (1,), after=3)]),
        ((1, 2), (1,), [Change("removed", (1,), before=2)]),
        ({"a", "b"}, {"b", "c"}, [Change("removed", ("a",), before="a"), Change("added", ("c",), after="c")]),
        ([1], (1,), [Change("changed", (), [1], (1,))]),
    ],
)
def test_what_is_inside_containers_is_told_by_path(before: Any, after: Any, changes: list[Change]) -> None:
    assert list(compare_plain(before, after)) == changes


@pytest.mark.parametrize(
    ("before", "after"), [(1, True), (1, 1.0), (0.0, -0.0), ("1", 1), (None, False), ({1}, {True})]
)
def test_values_that_only_look_equal_differ(before: Any, after: Any) -> None:
    assert any(compare_plain(before, after))


@pytest.mark.parametrize("value", [float("nan"), datetime(2026, 1, 1, tzinfo=UTC), {"a": [set(), b"x", None]}])
def test_a_value_is_the_same_as_itself(value: Any) -> None:
    assert not list(compare_plain({"v": value}, {"v": value}))


def test_the_order_of_fields_is_no_difference() -> None:
    assert not list(compare_plain({"a": 1, "b": [{"c": 1, "d": 2}]}, {"b": [{"d": 2, "c": 1}], "a": 1}))
    assert not compare({}, {}, {"s#1": {"a": 1, "b": 2}}, {"s#1": {"b": 2, "a": 1}})


def test_steps_and_results_are_told_apart() -> None:
    found = compare({}, {}, {"a#1": 1, "b#1": 2, "c#1": 3}, {"b#1": 2, "c#1": 4, "d#1": 5})
    assert (found.only_a, found.only_b) == (("a#1",), ("d#1",))
    assert found.results == (("c#1", 3, 4),)
    assert found
    assert not compare({"x": 1}, {"x": 1}, {"a#1": 1}, {"a#1": 1})


@given(values, values)
def test_every_change_is_where_it_says_and_undoing_none_means_equal(before: Any, after: Any) -> None:
    changes = list(compare_plain(before, after))
    for change in changes:
        if change.kind != "added":
            assert not list(compare_plain(value_at(before, change.path), change.before))
        if change.kind != "removed":
            assert not list(compare_plain(value_at(after, change.path), change.after))
    if not changes:
        assert repr(_ordered(before)) == repr(_ordered(after))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _ordered(item)) for key, item in value.items())
    return [_ordered(item) for item in value] if isinstance(value, list) else value
