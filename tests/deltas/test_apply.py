from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.deltas.support import diff_plain, make_state, mutate, plain_states

from holdfast.deltas import (
    Add,
    Append,
    Delete,
    Delta,
    Discard,
    Operation,
    Set,
    Shadow,
    Splice,
    apply,
    encode_plain,
    fold,
    plain,
)
from holdfast.deltas._compare import same_plain
from holdfast.errors import StorageError


@given(plain_states, plain_states)
@settings(deadline=None)
def test_apply_changes_neither_its_state_nor_its_delta(before: dict[str, Any], after: dict[str, Any]) -> None:
    delta = diff_plain(before, after)
    state, stored = encode_plain(before), delta.encode()
    apply(apply(before, delta), diff_plain(after, before))
    assert encode_plain(before) == state
    assert delta.encode() == stored


@given(st.randoms(use_true_random=False), st.integers(1, 12))
@settings(deadline=None)
def test_folding_is_applying_one_by_one_and_changes_no_delta(rng: random.Random, steps: int) -> None:
    live = make_state(rng)
    shadow, first = Shadow(live), plain(live)
    deltas, replayed = [], first
    for _ in range(steps):
        mutate(rng, live)
        deltas.append(shadow.diff(live))
        replayed = apply(replayed, deltas[-1])
    stored, state = [delta.encode() for delta in deltas], encode_plain(first)
    assert same_plain(fold(first, deltas), replayed)
    assert [delta.encode() for delta in deltas] == stored
    assert encode_plain(first) == state


def test_what_did_not_change_is_shared() -> None:
    state: dict[str, Any] = {"a": {"x": [1], "y": [2]}, "b": [3]}
    after = apply(state, Delta((Append(("a", "x"), [4]),)))
    assert after == {"a": {"x": [1, 4], "y": [2]}, "b": [3]}
    assert after["b"] is state["b"]
    assert after["a"]["y"] is state["a"]["y"]
    assert apply(state, Delta()) is state


@pytest.mark.parametrize(
    ("operation", "after"),
    [
        (Set(("a",), 1), {"a": 1, "t": ([1], 2), "s": {1}}),
        (Set(("n",), 1), {"a": [1, {"b": "x"}], "t": ([1], 2), "s": {1}, "n": 1}),
        (Delete(("a",)), {"t": ([1], 2), "s": {1}}),
        (Set(("a", 1, "b"), 2), {"a": [1, {"b": 2}], "t": ([1], 2), "s": {1}}),
        (Append(("a", 1, "b"), "y"), {"a": [1, {"b": "xy"}], "t": ([1], 2), "s": {1}}),
        (Append(("t", 0), [3]), {"a": [1, {"b": "x"}], "t": ([1, 3], 2), "s": {1}}),
        (Set(("t", 1), 3), {"a": [1, {"b": "x"}], "t": ([1], 3), "s": {1}}),
        (Splice(("a",), 0, 1, [7, 8]), {"a": [7, 8, {"b": "x"}], "t": ([1], 2), "s": {1}}),
        (Add(("s",), [2]), {"a": [1, {"b": "x"}], "t": ([1], 2), "s": {1, 2}}),
        (Discard(("s",), [1, 9]), {"a": [1, {"b": "x"}], "t": ([1], 2), "s": set()}),
    ],
)
def test_each_operation_does_what_it_says(operation: Operation, after: dict[str, Any]) -> None:
    assert apply({"a": [1, {"b": "x"}], "t": ([1], 2), "s": {1}}, Delta((operation,))) == after


@pytest.mark.parametrize(
    "operation",
    [
        Delete(("gone",)),
        Set(("gone", "x"), 1),
        Set(("list", 1), 1),
        Set(("list", -1), 1),
        Set(("list", "x"), 1),
        Set(("list", True), 1),
        Set(("text", 0), "y"),
        Set(("number", "x"), 1),
        Append(("number",), [1]),
        Append(("number",), "x"),
        Append(("list",), "x"),
        Append(("dict",), [1]),
        Append(("frozen",), [1]),
        Splice(("list",), 0, 2, []),
        Splice(("text",), 0, 1, []),
        Add(("list",), [1]),
        Add(("frozen",), [1]),
        Discard(("dict",), [1]),
    ],
    ids=repr,
)
def test_a_delta_of_another_state_is_refused_with_its_path(operation: Operation) -> None:
    state = {"list": [0], "text": "x", "number": 1, "dict": {}, "frozen": frozenset({1})}
    with pytest.raises(StorageError, match=r"does not fit this state.*\$\."):
        apply(state, Delta((operation,)))
