from __future__ import annotations

import operator
import random
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.deltas.support import PLAIN_KEYS, diff_plain, make_value, mutate

from holdfast.deltas import (
    Add,
    Append,
    Conflict,
    Delete,
    Delta,
    Discard,
    Merge,
    Set,
    Splice,
    apply,
    combine,
    decode_plain,
    encode_plain,
    last,
    plain,
)
from holdfast.deltas._compare import same_plain
from holdfast.deltas._paths import MISSING, value_at
from holdfast.deltas._reducers import Reducer
from holdfast.deltas._touched import single_operations

State = dict[str, Any]


def thawed(state: State) -> State:
    """A copy that may be changed in place."""
    return dict(decode_plain(encode_plain(state)))


def merged(base: State, first: State, second: State, **reducers: Reducer) -> tuple[State, tuple[Conflict, ...]]:
    """The state after `first` was committed and `second` merged into it, both having started from `base`."""
    one, two = diff_plain(base, first), diff_plain(base, second)
    committed = apply(base, one)
    delta, conflicts = combine([("first", one)], ("second", two), base, committed, reducers)
    return apply(committed, delta), conflicts


def overlapping(rng: random.Random) -> tuple[State, State, State]:
    """A plain state and two that were made of it."""
    base = plain({name: make_value(rng) for name in "abc"})
    sides = thawed(base), thawed(base)
    for side in sides:
        for _ in range(rng.randrange(1, 4)):
            mutate(rng, side, PLAIN_KEYS)
    return base, plain(sides[0]), plain(sides[1])


def unordered(value: Any) -> Any:
    """A value in which the order of lists and dicts says nothing."""
    if isinstance(value, list | tuple):
        return (type(value).__name__, sorted(repr(unordered(item)) for item in value))
    if isinstance(value, dict):
        return sorted((repr(key), repr(unordered(item))) for key, item in value.items())
    return encode_plain(value)


@given(st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_s1_18_where_no_conflict_is_told_any_order_of_finishing_gives_the_same_state(rng: random.Random) -> None:
    base, one, two = overlapping(rng)
    there, conflicts = merged(base, one, two)
    back, conflicts_back = merged(base, two, one)
    assert {conflict.path for conflict in conflicts} == {conflict.path for conflict in conflicts_back}
    if not conflicts:
        assert unordered(there) == unordered(back)


@given(st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_s1_18_no_write_is_lost_silently(rng: random.Random) -> None:
    base, one, two = overlapping(rng)
    state, conflicts = merged(base, one, two)
    for side in (one, two):
        for operation in single_operations(diff_plain(base, side)):
            if not any(operation.path[: len(conflict.path)] == conflict.path for conflict in conflicts):
                assert_visible(operation, side, state)


def assert_visible(operation: Any, side: State, state: State) -> None:
    """What an operation did is there, unless an item of a list has moved: then it is somewhere in the list."""
    wanted, got = value_at(side, operation.path), value_at(state, operation.path)
    lists = [at for at in range(len(operation.path)) if isinstance(value_at(state, operation.path[:at]), list)]
    if lists:
        return assert_listed(operation, wanted, value_at(state, operation.path[: lists[0]]))
    match operation:
        case Add(values=values):
            assert got >= {*values}
        case Discard(values=values):
            assert not got & {*values}
        case Append(values=list()) | Splice():
            assert_items(operation, got)
        case _:
            assert wanted is got is MISSING or same_plain(wanted, got)
    return None


def assert_items(operation: Append | Splice, items: list[Any]) -> None:
    values, size = operation.values, len(operation.values)
    assert any(same_plain(items[at : at + size], values) for at in range(len(items) + 1))


def assert_listed(operation: Any, wanted: Any, items: list[Any]) -> None:
    if wanted is not MISSING and not isinstance(operation, Append | Splice | Add | Discard):
        assert encode_plain(wanted) in encode_plain(items)


@given(st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_merging_changes_nothing_in_place(rng: random.Random) -> None:
    base, one, two = overlapping(rng)
    first, second = diff_plain(base, one), diff_plain(base, two)
    committed = apply(base, first)
    before = [encode_plain(base), encode_plain(committed), first.encode(), second.encode()]
    for reducers in ({}, dict.fromkeys("abcd", last), dict.fromkeys("abcd", lambda old, new: [old, new])):
        combine([("first", first)], ("second", second), base, committed, reducers)
    assert [encode_plain(base), encode_plain(committed), first.encode(), second.encode()] == before


@given(st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_with_last_the_side_that_came_last_is_what_is_read_at_each_clash(rng: random.Random) -> None:
    base, one, two = overlapping(rng)
    first, second = diff_plain(base, one), diff_plain(base, two)
    committed = apply(base, first)
    result = Merge(on_conflict="last").combine([("first", first)], ("second", second), base, committed)
    assert result.conflicts == ()
    state = apply(committed, result.delta)
    for conflict in result.overruled:
        wanted, got = value_at(two, conflict.path), value_at(state, conflict.path)
        assert wanted is got is MISSING or same_plain(wanted, got)


def test_s1_18_two_parallel_increments_conflict_and_never_give_one() -> None:
    state, conflicts = merged({"n": 0}, {"n": 1}, {"n": 1})
    assert conflicts == (Conflict(("n",), ("first", "second"), 1, 1),)
    assert state == {"n": 1}
    assert str(conflicts[0]) == (
        "$.n: second and first ran at the same time and changed it differently; declare a reducer for 'n', let each step"
        ' write a field of its own, or set on_state_conflict="last"'
    )


def test_s1_18_two_parallel_increments_give_two_with_add() -> None:
    assert merged({"n": 0}, {"n": 1}, {"n": 1}, n=operator.add) == ({"n": 2}, ())


@pytest.mark.parametrize(
    ("base", "first", "second", "after"),
    [
        ({"x": [0]}, {"x": [0, 1]}, {"x": [0, 2, 3]}, {"x": [0, 1, 2, 3]}),
        ({"x": []}, {"x": [1]}, {"x": [1]}, {"x": [1, 1]}),
        ({"x": 0, "y": 0}, {"x": 1, "y": 0}, {"x": 0, "y": 1}, {"x": 1, "y": 1}),
        ({"x": {"a": 0}}, {"x": {"a": 1}}, {"x": {"a": 0, "b": 1}}, {"x": {"a": 1, "b": 1}}),
        ({"x": {1, 2}}, {"x": {2, 3}}, {"x": {1, 4}}, {"x": {3, 4}}),
        ({"x": {1}}, {"x": set()}, {"x": set()}, {"x": set()}),
        ({"x": "a"}, {"x": "b"}, {"x": "b"}, {"x": "b"}),
        ({"x": None}, {"x": True}, {"x": True}, {"x": True}),
        ({"x": "run"}, {"x": "running"}, {"x": "running"}, {"x": "running"}),
        ({"x": None}, {"x": {"a": ["b"]}}, {"x": {"a": ["b"]}}, {"x": {"a": ["b"]}}),
        ({"x": 1, "y": 2}, {"y": 2}, {"y": 2}, {"y": 2}),
        ({"x": [[1], [2]]}, {"x": [[1, 9], [2]]}, {"x": [[1], [2, 8]]}, {"x": [[1, 9], [2, 8]]}),
        ({"x": [{"a": 1}]}, {"x": [{"a": 1}, 5]}, {"x": [{"a": 2}]}, {"x": [{"a": 2}, 5]}),
        ({"x": [1, 2, 3]}, {"x": [2, 3]}, {"x": [1, 2, 3, 4]}, {"x": [2, 3, 4]}),
        ({"x": [1, 2, 3]}, {"x": [1, 2, 3, 4]}, {"x": [2, 3]}, {"x": [2, 3, 4]}),
        ({"x": [1, 2, 3, 4, 5]}, {"x": [8, 9, 3, 4, 5]}, {"x": [1, 2, 3, 6, 7]}, {"x": [8, 9, 3, 6, 7]}),
    ],
)
def test_s1_18_what_combines(base: State, first: State, second: State, after: State) -> None:
    state, conflicts = merged(base, first, second)
    assert conflicts == ()
    assert state == after


@pytest.mark.parametrize(
    ("base", "first", "second", "path"),
    [
        ({"x": 1}, {"x": 2}, {"x": 3}, ("x",)),
        ({"x": "a"}, {"x": "b"}, {"x": "c"}, ("x",)),
        ({"x": 1.5}, {"x": 2.5}, {"x": 2.5}, ("x",)),
        ({"x": Decimal(1)}, {"x": Decimal(2)}, {"x": Decimal(2)}, ("x",)),
        ({"x": timedelta(1)}, {"x": timedelta(2)}, {"x": timedelta(2)}, ("x",)),
        ({"x": None}, {"x": {"n": 1}}, {"x": {"n": 1}}, ("x",)),
        ({"x": {}}, {"x": {"n": 1}}, {"x": {"n": 1}}, ("x", "n")),
        ({"x": "a"}, {"x": "ab"}, {"x": "ac"}, ("x",)),
        ({"x": {"a": 1}}, {"x": {"a": 2}}, {"x": None}, ("x",)),
        ({"x": {"a": 1}}, {"x": None}, {"x": {"a": 2}}, ("x",)),
        ({"x": {"a": 1}}, {}, {"x": {"a": 2}}, ("x",)),
        ({"x": {"a": {"b": 1}}}, {"x": {"a": {"b": 2}}}, {"x": {}}, ("x", "a")),
        ({"x": [1]}, {"x": [1, 2]}, {"x": "new"}, ("x",)),
        ({"x": [1]}, {"x": None}, {"x": [1, 2]}, ("x",)),
        ({"x": {1}}, {"x": None}, {"x": {1, 2}}, ("x",)),
        ({"x": [1, 2, 3]}, {"x": [2, 3]}, {"x": [1, 2]}, ("x",)),
        ({"x": [1, 2, 3]}, {"x": [2, 3]}, {"x": [1, 2, 4]}, ("x",)),
        ({"x": [1, 2, 3]}, {"x": [1, 2, 4]}, {"x": [2, 3]}, ("x",)),
        ({"x": [1, 2, 3]}, {"x": [1, 2, 4]}, {"x": [1, 2, 5]}, ("x", 2)),
        ({"x": 1}, {}, {"x": 2}, ("x",)),
        ({"x": 1}, {"x": 2}, {}, ("x",)),
    ],
)
def test_s1_18_what_conflicts(base: State, first: State, second: State, path: tuple[Any, ...]) -> None:
    state, conflicts = merged(base, first, second)
    assert [conflict.path for conflict in conflicts] == [path]
    assert conflicts[0].steps == ("first", "second")
    assert state == first  # nothing of it is applied


def test_the_rest_of_a_delta_with_a_conflict_is_kept() -> None:
    state, conflicts = merged({"n": 0, "x": []}, {"n": 1, "x": []}, {"n": 2, "x": [1]})
    assert [conflict.path for conflict in conflicts] == [("n",)]
    assert state == {"n": 1, "x": [1]}


def test_a_conflict_over_a_deletion_has_no_value_on_that_side() -> None:
    _, conflicts = merged({"x": 1}, {}, {"x": 2})
    assert conflicts == (Conflict(("x",), ("first", "second"), 2, msgspec.UNSET),)
    _, conflicts = merged({"x": 1}, {"x": 2}, {})
    assert conflicts == (Conflict(("x",), ("first", "second"), msgspec.UNSET, 2),)


def test_a_conflict_names_each_step_that_had_a_part_in_it() -> None:
    base: State = {"x": {"a": 1, "b": 1}, "y": 0}
    deltas = [
        ("one", Delta((Set(("x", "a"), 2),))),
        ("two", Delta((Set(("y",), 2),))),
        ("three", Delta((Set(("x", "b"), 2), Delete(("x", "a"))))),
    ]
    committed = base
    for _, delta in deltas:
        committed = apply(committed, delta)
    _, conflicts = combine(deltas, ("mine", Delta((Delete(("x",)),))), base, committed, {})
    assert conflicts[0].steps == ("one", "three", "mine")


def test_an_item_that_both_appended_is_not_mistaken_for_the_other() -> None:
    base: State = {"x": [[0]]}
    theirs = Delta((Append(("x",), [["theirs"]]),))
    mine = Delta((Append(("x",), [["mine"]]), Append(("x", 1), ["more"])))
    _, conflicts = combine([("a", theirs)], ("b", mine), base, apply(base, theirs), {})
    assert [conflict.path for conflict in conflicts] == [("x",)]


@pytest.mark.parametrize(
    ("reducer", "base", "first", "second", "after"),
    [
        (operator.add, 10, 12, 9, 11),
        (operator.add, Decimal("1.0"), Decimal("1.5"), Decimal("2.0"), Decimal("2.5")),
        (operator.add, timedelta(1), timedelta(2), timedelta(3), timedelta(4)),
        (operator.add, None, 2, 3, 5),
        (operator.add, "a", "ab", "ac", "abc"),
        (operator.add, ["old"], ["b"], ["a"], ["b", "a"]),
        (operator.add, [1], [9], [1, 2], [9, 2]),
        (operator.add, [1], [1, 2], [9], [9, 2]),
        (operator.add, None, ["b"], ["a"], ["b", "a"]),
        (operator.add, {"k": 1, "l": 1}, {"k": 2, "l": 1}, {"k": 3, "l": 1}, {"k": 4, "l": 1}),
        (operator.add, {}, {"k": 1}, {"k": 1}, {"k": 2}),
        (max, 1, 5, 3, 5),
        (max, 1, 3, 5, 5),
        (min, 9, 5, 3, 3),
        (last, 1, 5, 3, 3),
        (last, {"k": 1, "l": 1}, {"k": 2, "l": 2}, {"k": 3, "l": 1}, {"k": 3, "l": 2}),
        (last, {"k": 1, "l": 2}, {"k": 2, "l": 2}, {"l": 2}, {"l": 2}),
        (operator.or_, {"a": 1}, {"a": 2, "b": 2}, {"a": 3, "c": 3}, {"a": 3, "b": 2, "c": 3}),
        (lambda old, new: sorted([*old, *new]), [3], [2], [1], [1, 2]),
    ],
)
def test_s1_18_a_declared_reducer_decides(reducer: Reducer, base: Any, first: Any, second: Any, after: Any) -> None:
    state, conflicts = merged({"x": base}, {"x": first}, {"x": second}, x=reducer)
    assert conflicts == ()
    assert same_plain(state, {"x": after})


@pytest.mark.parametrize(
    ("reducer", "base", "first", "second"),
    [
        (operator.add, True, False, None),
        (operator.add, 0, Decimal(1), 1.5),
        (operator.add, {"a": 1}, None, {"a": 2}),
        (max, 0, "a", 1),
        (min, 0, None, 1),
    ],
)
def test_s1_18_what_a_reducer_cannot_decide_stays_a_conflict(
    reducer: Reducer, base: Any, first: Any, second: Any
) -> None:
    state, conflicts = merged({"x": base}, {"x": first}, {"x": second}, x=reducer)
    assert [conflict.path for conflict in conflicts] == [("x",)]
    assert state == {"x": first}


@pytest.mark.parametrize("reducer", [operator.add, max, operator.or_])
def test_a_deletion_is_for_last_only_to_decide(reducer: Reducer) -> None:
    assert merged({"x": 1}, {}, {"x": 2}, x=reducer)[1]
    assert merged({"x": 1}, {"x": 2}, {}, x=reducer)[1]
    assert merged({"x": 1}, {"x": 2}, {}, x=last) == ({}, ())
    assert merged({"x": 1}, {}, {"x": 2}, x=last) == ({"x": 2}, ())


def test_a_reducer_is_not_asked_where_nothing_clashes() -> None:
    def never(old: object, new: object) -> object:
        raise AssertionError

    state, conflicts = merged({"x": [1], "y": 0}, {"x": [1, 2], "y": 0}, {"x": [1, 3], "y": 1}, x=never, y=never)
    assert (state, conflicts) == ({"x": [1, 2, 3], "y": 1}, ())


def test_what_a_reducer_does_to_its_arguments_reaches_no_state() -> None:
    base: State = {"x": [0]}
    theirs, mine = Delta((Set(("x",), [1]),)), Delta((Set(("x",), [2]),))
    committed = apply(base, theirs)
    delta, conflicts = combine([("a", theirs)], ("b", mine), base, committed, {"x": operator.iadd})
    assert not conflicts
    assert apply(committed, delta) == {"x": [1, 2]}
    assert committed == {"x": [1]}


def test_a_reducer_that_fails_is_heard() -> None:
    def fails(old: object, new: object) -> object:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        merged({"x": 0}, {"x": 1}, {"x": 2}, x=fails)


@given(st.lists(st.tuples(st.integers(-5, 5), st.lists(st.integers(), max_size=2)), min_size=1, max_size=6))
def test_s1_18_any_number_of_steps_over_one_base_all_count(steps: list[tuple[int, list[int]]]) -> None:
    base: State = {"n": 0, "log": ["start"], "seen": set()}
    committed = base
    since: list[tuple[str, Delta]] = []
    merge = Merge({"n": operator.add})
    for number, (increment, lines) in enumerate(steps):
        mine = diff_plain(base, {"n": increment, "log": ["start", *lines], "seen": {number}})
        result = merge.combine(since, (f"step {number}", mine), base, committed)
        assert not result.conflicts
        since.append((f"step {number}", result.delta))
        committed = apply(committed, result.delta)
    assert committed == {
        "n": sum(increment for increment, _ in steps),
        "log": ["start", *(line for _, lines in steps for line in lines)],
        "seen": {*range(len(steps))},
    }


def test_a_merge_that_lets_the_last_win_tells_what_it_overruled() -> None:
    base, theirs, mine = {"n": 0}, Delta((Set(("n",), 1),)), Delta((Set(("n",), 2),))
    result = Merge(on_conflict="last").combine([("a", theirs)], ("b", mine), base, apply(base, theirs))
    assert result.delta.operations == (Set(("n",), 2),)
    assert result.overruled == (Conflict(("n",), ("a", "b"), 2, 1),)
    strict = Merge().combine([("a", theirs)], ("b", mine), base, apply(base, theirs))
    assert (strict.delta, strict.conflicts) == (Delta(), result.overruled)


def test_without_overlap_a_delta_is_merged_as_it_is() -> None:
    mine = Delta((Splice(("x",), 0, 2, [1, 2]),))
    assert combine([], ("b", mine), {"x": [0, 0]}, {"x": [0, 0]}, {}) == (mine, ())
