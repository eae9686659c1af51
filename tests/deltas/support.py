"""States of every kind, and random programs that change them in place."""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import msgspec
import pydantic
from hypothesis import strategies as st

from holdfast.deltas import Delta, Shadow, plain


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Message(pydantic.BaseModel):
    role: Any = "user"
    content: Any = ""
    parts: Any = pydantic.Field(default_factory=list)


class Serialized(pydantic.BaseModel):
    """Decides itself how it is written."""

    at: Any = None

    @pydantic.field_serializer("at")
    def write(self, value: object) -> object:
        return ["at", value]


@dataclass
class Pair:
    left: Any = None
    right: Any = field(default=None, compare=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pair)  # must not be asked

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class Slotted:
    inner: Any = None


class Point(msgspec.Struct, rename="camel", tag=True):
    x_axis: Any = 0
    y_axis: Any = msgspec.UNSET


class Socket:
    """Has no stored form."""


class Odd:
    """Like an array: what comparing gives has no single truth."""

    def __eq__(self, other: object) -> Any:
        return self

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


LEAVES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    0.0,
    -0.0,
    1.0,
    float("nan"),
    float("inf"),
    2**70,
    -(2**70),
    "",
    "a",
    "ab",
    "\ud800",
    "$set",
    b"",
    b"\xff",
    date(2024, 1, 2),
    datetime(2024, 1, 2, 3, tzinfo=UTC),
    time(1, 2, 3, 4),
    timedelta(days=-1, microseconds=1),
    Decimal("1.0"),
    Decimal("1.00"),
    UUID(int=7),
]
KEYS: list[Any] = [
    "a",
    "b",
    "$set",
    "",
    1,
    0,
    True,
    None,
    2.5,
    (1, "a"),
    b"k",
    date(2024, 1, 2),
    frozenset({1}),
    Colour.RED,
]
PLAIN_KEYS = [key for key in KEYS if not isinstance(key, enum.Enum) and key is not True]  # True and 1 are one key
FIELDS = ["a", "b", "c"]

plain_keys = st.one_of(
    st.text(max_size=3),
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.binary(max_size=2),
    st.sampled_from(PLAIN_KEYS),
)
plain_leaves = st.one_of(
    st.sampled_from(LEAVES),
    st.floats(),
    st.integers(),
    st.text(st.characters(), max_size=5),
    st.datetimes(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
)
plain_values: st.SearchStrategy[Any] = st.recursive(
    plain_leaves | st.sets(plain_keys, max_size=4) | st.frozensets(plain_keys, max_size=4),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(plain_keys, inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=12,
)
plain_states = st.dictionaries(st.sampled_from(FIELDS), plain_values, max_size=3)


def make_value(rng: random.Random, depth: int = 3) -> Any:
    """A live value of any kind."""
    if depth <= 0 or rng.random() < 0.4:
        return rng.choice([*LEAVES, Colour.RED, PurePosixPath("/x")])
    below = [make_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return rng.choice(
        [
            below,
            [rng.choice(LEAVES) for _ in range(rng.randrange(12))],
            tuple(below),
            dict(zip(rng.sample(KEYS, len(below)), below, strict=True)),
            {*rng.sample(KEYS, rng.randrange(4))},
            frozenset(rng.sample(KEYS, rng.randrange(4))),
            Message(content=below, role=rng.choice(LEAVES)),
            Serialized(at=rng.choice(["x", 1, True, None])),
            Pair(below, rng.choice(LEAVES)),
            Slotted(below),
            Point(below, rng.choice([msgspec.UNSET, 1, []])),
        ]
    )


def make_state(rng: random.Random) -> dict[str, Any]:
    return {name: make_value(rng) for name in FIELDS}


def children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.values()]
    if isinstance(value, list | tuple):
        return [*value]
    return [getattr(value, name) for name in names_of(value)]


def names_of(value: Any) -> list[str]:
    if isinstance(value, pydantic.BaseModel):
        return [*type(value).model_fields]
    if isinstance(value, msgspec.Struct):
        return [*value.__struct_fields__]
    return [*getattr(value, "__dataclass_fields__", ())]


def inside(value: Any) -> Iterator[Any]:
    """`value` and all that can be reached from it."""
    yield value
    for child in children(value):
        yield from inside(child)


def size_of(value: Any) -> int:
    return sum(1 for _ in inside(value))


def mutate(rng: random.Random, state: dict[str, Any], keys: list[Any] = KEYS) -> None:
    """Change something, somewhere, in place; now and then put one container into two places."""
    target = rng.choice([part for part in inside(state) if part is state or is_container(part)])
    new = make_value(rng, 2) if keys is KEYS else plain({"x": make_value(rng, 2)})["x"]
    if rng.random() < 0.2:
        alias = rng.choice([*inside(state)])
        if (
            alias is not msgspec.UNSET
            and size_of(alias) < 40
            and not any(part is target or part is state for part in inside(alias))
        ):
            new = alias
    if target is state:
        _mutate_fields(rng, state, new)
    elif isinstance(target, list):
        _mutate_list(rng, target, new)
    elif isinstance(target, dict):
        _mutate_dict(target, rng.choice(keys), new, rng)
    elif isinstance(target, set):
        rng.choice([target.add, target.discard])(rng.choice(keys))
    elif names_of(target) and not isinstance(target, Serialized):
        setattr(target, rng.choice(names_of(target)), new)


def is_container(value: Any) -> bool:
    return isinstance(value, list | dict | set) or bool(names_of(value))


def _mutate_fields(rng: random.Random, state: dict[str, Any], new: Any) -> None:
    name = rng.choice([*FIELDS, "d"])
    if rng.random() < 0.2:
        state.pop(name, None)
    else:
        state[name] = new


def _mutate_list(rng: random.Random, target: list[Any], new: Any) -> None:
    one, other = rng.randrange(len(target) + 1), rng.randrange(len(target) + 1)
    match rng.randrange(9):
        case 0 | 1:
            target.append(new)
        case 2:
            target.insert(one, new)
        case 3:
            target[min(one, other) : max(one, other)] = [new] * rng.randrange(3)
        case 4:
            del target[:one]
            target.append(new)
        case 5 if target:
            target[one % len(target)] = new
        case 6 if target:
            one, other = one % len(target), other % len(target)
            target[one], target[other] = target[other], target[one]
        case 7 if target:
            target.pop(one % len(target))
        case _:
            target.reverse()


def _mutate_dict(target: dict[Any, Any], key: Any, new: Any, rng: random.Random) -> None:
    match rng.randrange(5):
        case 0 | 1:
            target[key] = new
        case 2 if target:
            del target[rng.choice([*target])]
        case 3 if target:  # the same key, now the last
            key = rng.choice([*target])
            target[key] = target.pop(key)
        case _:
            target.setdefault(key, new)


def diff_plain(before: dict[str, Any], after: dict[str, Any]) -> Delta:
    """The exact difference between two plain states."""
    return Shadow(before).check(after)
