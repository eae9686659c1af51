"""The functions and methods that expressions may call, and how large their values may get."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from msgspec import Struct

from holdfast.flowfiles._budget import Budget
from holdfast.flowfiles._regex import search

MAX_LENGTH = 1_000_000
"""of a text or a list that an expression makes"""
MAX_BITS = 4_096
"""of a whole number"""
_MISSING = object()


def weight(value: Any) -> int:
    """What touching all of a value costs."""
    if isinstance(value, str):
        return 1 + len(value) // 200
    return 1 + len(value) // 4 if isinstance(value, list | dict) else 1


def check_length(length: int) -> None:
    """Raises ValueError when a text or a list would be too long."""
    if length > MAX_LENGTH:
        raise ValueError(f"a value of {length:,} characters or items is too large")


def bounded(value: Any) -> Any:
    """The value. Raises ValueError when it has grown too large."""
    if isinstance(value, str | list | dict):
        check_length(len(value))
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ValueError("a number is too large")
    return value


def truth(value: Any) -> bool:
    return bool(value)


def equal(left: Any, right: Any, budget: Budget) -> bool:
    """Whether two values are the same data. Counted, because data can be large and the question be asked often."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(equal(a, b, budget) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key], budget) for key, value in left.items())
    budget.spend(1 if not isinstance(left, str) else weight(left))
    return bool(left == right)


def _listed(budget: Budget, data: Any) -> list[Any]:
    if not isinstance(data, list | dict | str):
        raise TypeError(f"{data!r:.60} has no items")
    budget.spend(len(data))
    return list(data)


def _several(budget: Budget, values: tuple[Any, ...]) -> list[Any]:
    items = _listed(budget, values[0]) if len(values) == 1 else list(values)
    _need_one_kind(items)
    return items


def _need_one_kind(items: list[Any]) -> None:
    """Only numbers, or only texts: what Python can put in an order, at a cost that was counted."""
    if not all(isinstance(one, int | float) for one in items) and not all(isinstance(one, str) for one in items):
        raise TypeError("only numbers, or only texts, can be put in order")


def _any(budget: Budget, data: Any) -> bool:
    return any(map(truth, _listed(budget, data)))


def _all(budget: Budget, data: Any) -> bool:
    return all(map(truth, _listed(budget, data)))


def _len(budget: Budget, data: Any) -> int:
    if not isinstance(data, list | dict | str):
        raise TypeError(f"{data!r:.60} has no length")
    return len(data)


def _extreme(pick: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def apply(budget: Budget, *values: Any, default: Any = _MISSING) -> Any:
        if not values:
            raise TypeError("min and max need a list, or several values")
        items = _several(budget, values)
        if not items and default is not _MISSING:
            return default
        return pick(items)

    return apply


def _sum(budget: Budget, data: Any) -> Any:
    items = _listed(budget, data)
    if not all(isinstance(one, int | float) for one in items):
        raise TypeError("only numbers can be summed up")
    return reduce(lambda total, one: bounded(total + one), items, 0)


def _sorted(budget: Budget, data: Any, *, reverse: Any = False) -> list[Any]:
    items = _listed(budget, data)
    budget.spend(4 * len(items))
    _need_one_kind(items)
    return sorted(items, reverse=truth(reverse))


def _abs(budget: Budget, value: Any) -> Any:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r:.60} is no number")
    return abs(value)


def _round(budget: Budget, value: Any, digits: Any = None) -> Any:
    if not isinstance(value, int | float) or not isinstance(digits, int | None) or abs(digits or 0) > 300:
        raise TypeError("round needs a number, and at most 300 digits")
    return round(value, digits)


def _int(budget: Budget, value: Any = 0) -> int:
    if not isinstance(value, str | int | float):
        raise TypeError(f"{value!r:.60} is no number")
    return int(value[:5_000] if isinstance(value, str) else value)


def _float(budget: Budget, value: Any = 0) -> float:
    if not isinstance(value, str | int | float):
        raise TypeError(f"{value!r:.60} is no number")
    return float(value)


def _str(budget: Budget, value: Any = "") -> str:
    budget.spend(_deep_weight(value, budget))
    return str(value)


def _deep_weight(value: Any, budget: Budget) -> int:
    """What writing a value out costs; counted on the way, so that counting is bounded too."""
    cost, ahead = 0, [value]
    while ahead:
        one = ahead.pop()
        cost += weight(one)
        budget.spend(1)
        if isinstance(one, dict | list):
            ahead.extend(one.values() if isinstance(one, dict) else one)
    return cost


def _bool(budget: Budget, value: Any = False) -> bool:
    return truth(value)


def _regex_extract(budget: Budget, pattern: Any, text: Any, default: Any = None) -> Any:
    """The first group of the first match, or the whole match if there is no group; `default` if nothing matches."""
    if text is None:
        return default
    if not isinstance(pattern, str) or not isinstance(text, str):
        raise TypeError("regex_extract needs a pattern and a text")
    found = search(pattern, text, budget)
    if found is None:
        return default
    whole, group = found
    return whole if group is None else group


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "any": _any, "all": _all, "len": _len, "min": _extreme(min), "max": _extreme(max), "sum": _sum, "abs": _abs,
    "round": _round, "sorted": _sorted, "int": _int, "float": _float, "str": _str, "bool": _bool,
    "regex_extract": _regex_extract,
}  # fmt: skip

KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "min": ("default",), "max": ("default",), "sorted": ("reverse",), "regex_extract": ("default",),
}  # fmt: skip


class Method(Struct, frozen=True):
    """Something that can be asked of one kind of value."""

    of: type
    call: Callable[..., Any]


def _of(kind: type, function: Callable[..., Any]) -> Method:
    def call(budget: Budget, subject: Any, *arguments: Any) -> Any:
        budget.spend(weight(subject))
        return function(subject, *arguments)

    return Method(kind, call)


def _texts(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method of text that takes texts only."""

    def call(subject: str, *arguments: Any) -> Any:
        if not all(isinstance(one, str) for one in arguments):
            raise TypeError("only text can be looked for in text")
        return function(subject, *arguments)

    return call


def _get(data: dict[str, Any], key: Any, default: Any = None) -> Any:
    return data.get(key, default) if isinstance(key, str) else default


METHODS: Mapping[str, Method] = {
    "get": _of(dict, _get),
    "keys": _of(dict, list),
    "values": _of(dict, lambda data: list(data.values())),
    "items": _of(dict, lambda data: [[key, value] for key, value in data.items()]),
    "lower": _of(str, str.lower),
    "upper": _of(str, str.upper),
    "strip": _of(str, _texts(str.strip)),
    "startswith": _of(str, _texts(str.startswith)),
    "endswith": _of(str, _texts(str.endswith)),
    "split": _of(str, _texts(str.split)),
}
