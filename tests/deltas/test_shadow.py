from __future__ import annotations

import random
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.deltas.support import (
    Colour,
    Message,
    Odd,
    Pair,
    Point,
    Serialized,
    Slotted,
    Socket,
    make_state,
    mutate,
    plain_leaves,
    plain_states,
)

from holdfast.deltas import (
    Add,
    Append,
    Delete,
    Delta,
    Discard,
    Set,
    Shadow,
    Splice,
    apply,
    decode_plain,
    encode_plain,
    plain,
)
from holdfast.deltas._compare import same_plain
from holdfast.errors import NotStorableError

flat_states = st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e"]), plain_leaves)


class Becomes(NamedTuple):
    """The field is given another value."""

    value: Any


def found(before: Any, change: Any) -> list[Any]:
    """What a diff finds after `change` was done to the field `x`, checked by replaying it."""
    state = {"x": before}
    first, shadow = plain(state), Shadow(state)
    result = change(state["x"])
    if isinstance(result, Becomes):
        state["x"] = result.value
    delta = shadow.diff(state)
    assert same_plain(apply(first, Delta.decode(delta.encode())), plain(state))
    assert not shadow.diff(state)
    assert not shadow.check(state)
    return list(delta.operations)


@given(st.randoms(use_true_random=False), st.lists(st.integers(1, 4), max_size=8))
@settings(max_examples=300, deadline=None)
def test_s1_14_replaying_all_deltas_over_the_first_state_gives_the_last(rng: random.Random, steps: list[int]) -> None:
    state = make_state(rng)
    shadow, replayed = Shadow(state), plain(state)
    for changes in steps:
        for _ in range(changes):
            mutate(rng, state)
        delta = Delta.decode(shadow.diff(state).encode())
        replayed = apply(replayed, delta)
        assert encode_loosely(replayed) == encode_loosely(plain(state))
        if rng.random() < 0.5:
            replayed = apply(replayed, Delta.decode(shadow.check(state).encode()))
            assert_same_state(replayed, plain(state))
        assert not shadow.diff(state)
    assert_same_state(apply(replayed, shadow.check(state)), plain(state))
    assert not shadow.check(state)


def encode_loosely(value: Any) -> Any:
    """Equal when `==` says so; NaN is itself."""
    if isinstance(value, dict):
        return {key: encode_loosely(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(encode_loosely, value))
    return "NaN" if value != value else value


def assert_same_state(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert same_plain(one[name], other[name]), name


@given(plain_states, plain_states)
@settings(max_examples=300, deadline=None)
def test_s1_14_diff_and_check_lead_from_any_state_to_any_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    shadow = Shadow(before)
    replayed = apply(plain(before), shadow.diff(after))
    assert_same_state(apply(replayed, shadow.check(after)), plain(after))


@given(flat_states, flat_states)
@settings(max_examples=300, deadline=None)
def test_s1_14_states_of_plain_leaves_come_back_exactly_from_what_is_stored(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    shadow = Shadow(before)
    delta = Delta.decode(shadow.diff(after).encode())
    assert_same_state(apply(before, delta), after)
    assert not shadow.diff(decode_plain(encode_plain(after)))  # the same values, in other objects
    assert_same_state(shadow.committed(after), after)


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
@settings(max_examples=500, deadline=None)
def test_lists_of_few_values_are_edited_exactly(before: list[int], after: list[int]) -> None:
    delta = Shadow({"x": before}).diff({"x": after})
    assert apply({"x": before}, delta) == {"x": after}


@given(
    st.dictionaries(st.integers(0, 5), st.integers(0, 2)),
    st.dictionaries(st.integers(0, 5), st.integers(0, 2)),
)
def test_a_changed_dict_comes_back_in_its_order(before: dict[int, int], after: dict[int, int]) -> None:
    shadow = Shadow({"x": before})
    replayed = apply({"x": before}, shadow.diff({"x": after}))
    replayed = apply(replayed, shadow.check({"x": after}))
    assert [*replayed["x"].items()] == [*after.items()]


@pytest.mark.parametrize(
    ("before", "change", "operations"),
    [
        ([1], lambda x: x.append(2), [Append(("x",), [2])]),
        ([1, 2, 3], lambda x: x.pop(), [Splice(("x",), 2, 1, [])]),
        ([1, 2, 3], lambda x: x.pop(0), [Splice(("x",), 0, 1, [])]),
        ([1, 2, 3], lambda x: x.insert(1, 9), [Splice(("x",), 1, 0, [9])]),
        ([1, 2, 3, 4], lambda x: x.__setitem__(1, 9), [Set(("x", 1), 9)]),
        ([1, 2, 3, 4], lambda x: x.__setitem__(slice(1, 3), [8, 9]), [Splice(("x",), 1, 2, [8, 9])]),
        ([1, 2, 3, 4, 5], lambda x: Becomes([*x[2:], 6]), [Splice(("x",), 0, 2, []), Append(("x",), [6])]),
        (["s", 1, 2, 3], lambda x: Becomes(["s", *x[2:], 4]), [Splice(("x",), 1, 1, []), Append(("x",), [4])]),
        ([{"n": [1]}, 2], lambda x: x[0]["n"].append(2), [Append(("x", 0, "n"), [2])]),
        ([[1], [2]], lambda x: (x[0].append(9), x.append([3])), [Append(("x", 0), [9]), Append(("x",), [[3]])]),
        ({"a": 1}, lambda x: x.update(b=2), [Set(("x", "b"), 2)]),
        ({"a": 1, "b": 2}, lambda x: x.pop("a"), [Delete(("x", "a"))]),
        ({"a": 1, "b": 2}, lambda x: x.update(a=x.pop("a") + 1), [Delete(("x", "a")), Set(("x", "a"), 2)]),
        ({"a": {"b": {"c": 1}}}, lambda x: x["a"]["b"].update(c=2), [Set(("x", "a", "b", "c"), 2)]),
        ({1: "a", None: "b"}, lambda x: x.update({None: "c"}), [Set(("x", None), "c")]),
        ({(1, "a"): []}, lambda x: x[1, "a"].append(1), [Append(("x", (1, "a")), [1])]),
        ({1, 2}, lambda x: (x.add(3), x.discard(1)), [Discard(("x",), [1]), Add(("x",), [3])]),
        ("ab", lambda x: Becomes("abc"), [Append(("x",), "c")]),
        ("ab", lambda x: Becomes("b"), [Set(("x",), "b")]),
        ("", lambda x: Becomes("b"), [Set(("x",), "b")]),
        ((1, [2]), lambda x: x[1].append(3), [Set(("x",), (1, [2, 3]))]),
        (Message(content="a"), lambda x: setattr(x, "content", "b"), [Set(("x", "content"), "b")]),
        ([Message(parts=["a"])], lambda x: x[0].parts.append("b"), [Append(("x", 0, "parts"), ["b"])]),
        (Pair([1], 2), lambda x: setattr(x, "right", 3), [Set(("x", "right"), 3)]),
        ({"p": Pair([1])}, lambda x: x["p"].left.append(2), [Append(("x", "p", "left"), [2])]),
        (Slotted({"a": 1}), lambda x: x.inner.update(a=2), [Set(("x", "inner", "a"), 2)]),
        (Point(1), lambda x: setattr(x, "x_axis", 2), [Set(("x", "xAxis"), 2)]),
        (Point(1), lambda x: setattr(x, "y_axis", 2), [Set(("x", "yAxis"), 2)]),
        (Point(1, 2), lambda x: setattr(x, "y_axis", msgspec.UNSET), [Delete(("x", "yAxis"))]),
        (Serialized(at=1), lambda x: setattr(x, "at", 2), [Set(("x", "at", 1), 2)]),
        (Colour.RED, lambda x: Becomes(Colour.GREEN), [Set(("x",), "green")]),
        (None, lambda x: Becomes([]), [Set(("x",), [])]),
        (Counter(a=1), lambda x: x.update("a"), [Set(("x", "a"), 2)]),
        (defaultdict(list), lambda x: x["k"].append(1), [Set(("x", "k"), [1])]),
    ],
)
def test_operations_are_as_small_as_the_change(before: Any, change: Any, operations: list[Any]) -> None:
    assert found(before, change) == operations


def test_nothing_changed_is_an_empty_delta_which_is_false() -> None:
    state = {"a": [1, {"b": Message()}], "c": (1, [2])}
    delta = Shadow(state).diff(state)
    assert not delta
    assert delta == Delta()


def test_a_sliding_window_costs_what_moved_not_what_is_in_it() -> None:
    window = [{"role": "user", "content": f"message {n}"} for n in range(200)]
    shadow = Shadow({"window": window})
    del window[0]
    window.append({"role": "user", "content": "new"})
    assert len(shadow.diff({"window": window}).encode()) < 100


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), (1, 1.0), (True, 1.0), (0.0, -0.0), (Decimal("1.0"), Decimal("1.00")), ({1}, frozenset({1}))],
)
def test_another_type_with_an_equal_value_is_a_change_at_field_level(before: object, after: object) -> None:
    for one, other in ((before, after), (after, before)):
        delta = Shadow({"x": one}).diff({"x": other})
        assert delta == Delta((Set(("x",), other),))
        assert type(delta.operations[0].value) is type(other)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1], [True]),
        ([1, 0.0], [1, -0.0]),
        ({"a": {"b": 1}}, {"a": {"b": 1.0}}),
        ({1: "a"}, {True: "a"}),
        ({1, 2}, {True, 2}),
        ([{1}], [frozenset({1})]),
        ([Decimal("1.0")], [Decimal("1.00")]),
        ([datetime(2024, 1, 1, tzinfo=UTC)], [datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))]),
        ((1, 2), (1.0, 2)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Message(content=1), Message(content=True)),
        ([Message(content=[1])], [Message(content=[True])]),
        ([Point(1)], [Point(1.0)]),
        ([Serialized(at=1)], [Serialized(at=True)]),
    ],
    ids=repr,
)
def test_check_finds_what_equality_hides_inside_containers(before: object, after: object) -> None:
    shadow = Shadow({"x": before})
    delta = shadow.diff({"x": after})
    missed = shadow.check({"x": after})
    assert delta or missed
    replayed = apply(apply(plain({"x": before}), delta), missed)
    assert same_plain(replayed, plain({"x": after}))
    assert not shadow.check({"x": after})


def test_check_finds_nothing_in_a_state_of_every_kind_that_did_not_change() -> None:
    def state() -> dict[str, Any]:
        return {
            "model": [Message(content=float("nan")), Serialized(at=1)],
            "when": {"at": datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), "id": UUID(int=1)},
            "members": {("a", 1), Colour.RED, Path("/x")},
            "point": Point([1]),
        }

    shadow = Shadow(state())
    assert not shadow.diff(state())
    assert not shadow.check(state())


def test_keys_that_only_changed_their_order_are_seen_by_check() -> None:
    state = {"x": OrderedDict(a=1, b=2)}
    shadow = Shadow(state)
    state["x"].move_to_end("a")
    assert not shadow.diff(state)
    assert shadow.check(state).operations == (Delete(("x", "a")), Set(("x", "a"), 1))


def test_nan_is_stable_whichever_object_it_is() -> None:
    shadow = Shadow({"x": float("nan"), "y": [float("nan")]})
    assert not shadow.diff({"x": float("nan"), "y": [float("nan")]})
    assert not shadow.check({"x": float("nan"), "y": [float("nan")]})
    assert shadow.diff({"x": 1.0, "y": [float("nan"), 1]}).operations == (Set(("x",), 1.0), Append(("y",), [1]))


def test_one_list_in_two_fields_is_a_change_of_both() -> None:
    shared: list[int] = []
    state = {"x": shared, "y": {"z": shared}}
    shadow = Shadow(state)
    shared.append(1)
    assert shadow.diff(state).operations == (Append(("x",), [1]), Append(("y", "z"), [1]))


def test_s1_15_a_delta_shares_nothing_with_the_live_state() -> None:
    live: dict[str, Any] = {"x": []}
    shadow = Shadow(live)
    inner = {"deep": [1]}
    live["x"].append(inner)
    live["y"] = inner
    delta = shadow.diff(live)
    encoded = delta.encode()
    inner["deep"].append(2)
    live["x"].clear()
    assert delta.encode() == encoded


def test_a_refused_value_leaves_the_shadow_where_it_was() -> None:
    state: dict[str, Any] = {"n": 1, "text": "a", "a": [1], "b": {}, "c": 1, "gone": 0}
    shadow, first = Shadow(state), plain(state)
    state["n"], state["text"] = 2, "b"
    state["a"].append(2)
    state["b"]["bad"] = Socket()
    state["c"] = 2
    del state["gone"]
    with pytest.raises(NotStorableError):
        shadow.diff(state)
    assert shadow.committed(state) == first
    del state["b"]["bad"]
    assert apply(first, shadow.diff(state)) == {"n": 2, "text": "b", "a": [1, 2], "b": {}, "c": 2}


@dataclass
class Holder:
    client: Any


def _cyclic_list() -> list[Any]:
    loop: list[Any] = [1]
    loop.append({"self": loop})
    return loop


def _cyclic_model() -> Message:
    model = Message()
    model.parts = [model]
    return model


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


REFUSED = [
    (Socket(), "$.x"),
    ([0, {"client": Socket()}], "$.x[1].client"),
    ([0, Holder([Socket()])], "$.x[1].client[0]"),
    ([Message(content=(1, Socket()))], "$.x[0].content[1]"),
    ({"a": Point(Socket())}, "$.x.a.xAxis"),
    (bytearray(b"x"), "$.x"),
    ([memoryview(b"x")], "$.x[0]"),
    ([Odd()], "$.x[0]"),
    (deque([1]), "$.x"),
    ([1 + 2j], "$.x[0]"),
    ({float("nan")}, "$.x"),
    ([{float("nan"): 1}], "$.x[0]"),
    ({"red": 1, Colour.RED: 2}, "$.x"),
    ({Path("a"), "a"}, "$.x"),
    ({Socket(): 1}, "$.x"),
    ({"k": {Socket()}}, "$.x.k"),
    (_cyclic_list(), "$.x[1].self"),
    (_cyclic_model(), "$.x.parts[0]"),
    ([Serialized.model_construct(at=Socket())], "$.x[0]"),
]


@pytest.mark.parametrize(("value", "path"), REFUSED, ids=lambda value: value if isinstance(value, str) else None)
def test_what_cannot_be_stored_is_refused_with_its_path(value: object, path: str) -> None:
    for attempt in (
        lambda: plain({"x": value}),
        lambda: Shadow({"x": value}),
        lambda: Shadow({}).diff({"x": value}),
        lambda: Shadow({"x": None}).diff({"x": value}),
        lambda: Shadow({"x": 1}).check({"x": value}),
    ):
        with pytest.raises(NotStorableError) as caught:
            attempt()
        assert caught.value.path == path


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ([1, [2]], [1, [2, Socket()]], "$.x[1][1]"),
        ({"a": {"b": 1}}, {"a": {"b": Socket()}}, "$.x.a.b"),
        ({"a": 1}, {"a": 1, "b": [Odd()]}, "$.x.b[0]"),
        ([1, 2, 3], [1, Odd(), 3], "$.x[1]"),
        ([[1], [2]], [[1], [Odd()]], "$.x[1][0]"),
        ([1, 2, 3], [Socket(), 1, 2, 3], "$.x[0]"),
        ({1, 2}, {1, Socket()}, "$.x"),
        ({"a": 1}, {"a": 1, Colour.RED: 1, "red": 2}, "$.x"),
        (Message(content=[1]), Message(content=[bytearray()]), "$.x.content[0]"),
        (Serialized(at=1), Serialized.model_construct(at=Socket()), "$.x"),
        ((1, [2]), (1, [Socket()]), "$.x[1][0]"),
    ],
)
def test_what_becomes_unstorable_is_refused_with_its_path(before: object, after: object, path: str) -> None:
    with pytest.raises(NotStorableError) as caught:
        Shadow({"x": before}).diff({"x": after})
    assert caught.value.path == path


def test_a_container_put_into_itself_is_refused_with_a_path() -> None:
    state: dict[str, Any] = {"x": [1]}
    shadow = Shadow(state)
    state["x"].append(state["x"])
    with pytest.raises(NotStorableError, match=r"\$\.x\[1\].* contains itself"):
        shadow.diff(state)


def test_too_deep_a_nest_is_refused_with_a_path_however_it_grew() -> None:
    with pytest.raises(NotStorableError, match="more than 100 deep"):
        Shadow({"x": _deep(5000)})
    state: dict[str, Any] = {"x": []}
    shadow, innermost = Shadow(state), state["x"]
    with pytest.raises(NotStorableError, match="more than 100 deep"):  # noqa: PT012
        for _ in range(150):
            innermost.append([])
            innermost = innermost[0]
            shadow.diff(state)
    Shadow({"x": _deep(90)})


def test_an_object_that_calls_itself_equal_to_all_is_seen_by_check_at_the_latest() -> None:
    class Yes:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    shadow = Shadow({"x": [1]})
    assert not shadow.diff({"x": [Yes()]})
    with pytest.raises(NotStorableError, match=r"\$\.x\[0\]"):
        shadow.check({"x": [Yes()]})


def test_subclasses_of_containers_are_compared_by_their_items_not_by_their_own_equality() -> None:
    class Always(list[Any]):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None

    class Two(NamedTuple):
        a: int
        b: list[int]

    state: dict[str, Any] = {"x": [Always([1])], "y": OrderedDict(a=[1]), "z": Two(1, [2])}
    shadow, first = Shadow(state), plain(state)
    state["x"][0].append(2)
    state["y"]["a"].append(2)
    state["z"].b.append(3)
    assert apply(first, shadow.diff(state)) == {"x": [[1, 2]], "y": {"a": [1, 2]}, "z": (1, [2, 3])}


def test_models_are_read_by_fields_and_extras_without_private_excluded_or_cached_values() -> None:
    class Rich(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        name: str
        client: Any = pydantic.Field(default=None, exclude=True)
        _private: Any = pydantic.PrivateAttr(default=None)

        @cached_property
        def size(self) -> int:
            return len(self.name)

    model = Rich(name="a", more=[1])  # type: ignore[call-arg]
    shadow = Shadow({"x": [model]})
    model.client = model._private = Socket()
    assert model.size == 1
    assert not shadow.diff({"x": [model]})
    model.more.append(2)  # type: ignore[attr-defined]
    model.other = 3  # type: ignore[attr-defined]
    assert shadow.diff({"x": [model]}).operations == (Append(("x", 0, "more"), [2]), Set(("x", 0, "other"), 3))
    assert plain({"x": model}) == {"x": {"name": "a", "more": [1, 2], "other": 3}}


def test_a_root_model_and_an_array_like_struct_are_taken_as_they_are_written() -> None:
    class Names(pydantic.RootModel[list[str]]):
        pass

    class Row(msgspec.Struct, array_like=True):
        a: int
        b: list[int]

    state: dict[str, Any] = {"names": Names(["a"]), "row": Row(1, [2])}
    shadow = Shadow(state)
    assert plain(state) == {"names": ["a"], "row": [1, [2]]}
    state["names"].root.append("b")
    state["row"].b.append(3)
    assert shadow.diff(state).operations == (Append(("names",), ["b"]), Append(("row", 1), [3]))


def test_a_zone_is_stored_as_its_offset() -> None:
    moment = datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    stored = plain({"x": [moment]})
    assert stored["x"][0] == moment
    assert stored["x"][0].utcoffset() == timedelta(hours=2)
    assert same_plain(decode_plain(encode_plain(stored)), stored)


def test_plain_states_of_typed_fields_validate_as_they_were() -> None:
    class Typed(pydantic.BaseModel):
        data: bytes
        colour: Colour
        total: Decimal
        at: datetime
        where: Path
        members: set[int]
        by_number: dict[int, str]
        pair: tuple[int, str]

    model = Typed(
        data=b"\xff",
        colour=Colour.RED,
        total=Decimal("1.00"),
        at=datetime(2024, 1, 1, tzinfo=UTC),
        where=Path("/x"),
        members={1},
        by_number={1: "a"},
        pair=(1, "a"),
    )
    stored = decode_plain(encode_plain(plain({"x": model})))
    assert Typed.model_validate(stored["x"]) == model


class TestAppendOnly:
    def test_only_the_tail_is_looked_at(self) -> None:
        log = [{"n": 1}]
        shadow = Shadow({"log": log, "other": 1}, append_only=frozenset({"log"}))
        log[0]["n"] = 2  # not seen, as declared
        log.append({"n": 3})
        assert shadow.diff({"log": log, "other": 2}).operations == (Append(("log",), [{"n": 3}]), Set(("other",), 2))
        assert not shadow.diff({"log": log, "other": 2})
        assert not shadow.check({"log": log, "other": 2})

    def test_a_text_may_grow_too(self) -> None:
        shadow = Shadow({"text": ""}, append_only=frozenset({"text"}))
        assert shadow.diff({"text": "ab"}).operations == (Append(("text",), "ab"),)
        assert shadow.diff({"text": "abc"}).operations == (Append(("text",), "c"),)

    @pytest.mark.parametrize(
        ("before", "after"), [([1, 2], [3]), ([1], None), (None, [1]), ({"a": 1}, [1]), ([1], "ab")]
    )
    def test_what_does_not_grow_is_written_as_a_whole(self, before: object, after: object) -> None:
        shadow = Shadow({"log": before}, append_only=frozenset({"log"}))
        assert shadow.diff({"log": after}).operations == (Set(("log",), after),)
        assert not shadow.diff({"log": after})

    def test_it_may_come_and_go(self) -> None:
        shadow = Shadow({}, append_only=frozenset({"log"}))
        assert shadow.diff({"log": [1]}).operations == (Set(("log",), [1]),)
        assert shadow.diff({"log": [1, 2]}).operations == (Append(("log",), [2]),)
        assert shadow.diff({}).operations == (Delete(("log",)),)
        assert not shadow.diff({})

    def test_those_that_do_not_grow_are_told_apart_from_those_that_do(self) -> None:
        shadow = Shadow({"a": [1], "b": {"x": 1}, "c": None, "d": [1]}, append_only=frozenset("abcd"))
        found = shadow.diff({"a": [1, 2], "b": {"x": 2}, "c": "text"}).operations
        assert {operation.path: operation for operation in found} == {
            ("a",): Append(("a",), [2]),
            ("b", "x"): Set(("b", "x"), 2),
            ("c",): Set(("c",), "text"),
            ("d",): Delete(("d",)),
        }
        assert not shadow.diff({"a": [1, 2], "b": {"x": 2}, "c": "text"})

    def test_a_refused_item_is_named_and_comes_again(self) -> None:
        shadow = Shadow({"log": [1]}, append_only=frozenset({"log"}))
        with pytest.raises(NotStorableError, match=r"\$\.log\[2\]\.a"):
            shadow.diff({"log": [1, 2, {"a": Socket()}]})
        assert shadow.diff({"log": [1, 2]}).operations == (Append(("log",), [2]),)
