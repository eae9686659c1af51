"""Evaluates a checked expression over plain data. Every step is counted, every value that grows is measured first."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.flowfiles._budget import Budget
from holdfast.flowfiles._functions import (
    FUNCTIONS,
    KEYWORDS,
    MAX_BITS,
    METHODS,
    bounded,
    check_length,
    equal,
    truth,
    weight,
)
from holdfast.flowfiles._nearest import did_you_mean

__all__ = ["CONSTANTS", "FUNCTIONS", "KEYWORDS", "METHODS", "OPERATORS", "Evaluation"]

CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


class Evaluation:
    """One evaluation: the names it reads and what it may still spend."""

    def __init__(self, names: Mapping[str, Any], budget: Budget) -> None:
        self.names = dict(names)
        self.budget = budget

    def result(self, body: ast.expr) -> Any:
        """The value. Raises ValueError for numbers that JSON cannot hold."""
        return _storable(self.value(body))

    def value(self, node: ast.expr) -> Any:
        self.budget.spend(1)
        return _HOW[type(node)](self, node)

    def constant(self, node: ast.Constant) -> Any:
        return node.value

    def name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in CONSTANTS:
            return CONSTANTS[node.id]
        raise KeyError(f"there is no {node.id}{did_you_mean(node.id, self.names)}")

    def attribute(self, node: ast.Attribute) -> Any:
        data = self.value(node.value)
        if not isinstance(data, dict):
            raise TypeError(f"{ast.unparse(node.value)} is {_kind(data)} and has no field {node.attr}")
        if node.attr not in data:
            fields = ", ".join(map(str, list(data)[:12])) or "nothing"
            raise KeyError(
                f"{ast.unparse(node.value)} has no field {node.attr}{did_you_mean(node.attr, map(str, data))}"
                f" (it has {fields})"
            )
        return data[node.attr]

    def subscript(self, node: ast.Subscript) -> Any:
        data = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._slice(data, node.slice)
        key = self.value(node.slice)
        if isinstance(data, dict):
            if isinstance(key, list | dict) or key not in data:
                raise KeyError(f"{ast.unparse(node.value)} has no key {key!r}")
            return data[key]
        if not isinstance(data, str | list) or not isinstance(key, int):
            raise TypeError(f"{ast.unparse(node.value)} is {_kind(data)} and has no item {key!r}")
        return data[key]

    def _slice(self, data: Any, part: ast.Slice) -> Any:
        if not isinstance(data, str | list):
            raise TypeError(f"{_kind(data)} cannot be sliced")
        bounds = [None if one is None else self.value(one) for one in (part.lower, part.upper, part.step)]
        self.budget.spend(weight(data))
        return data[slice(*bounds)]

    def sequence(self, node: ast.List | ast.Tuple | ast.Set) -> list[Any]:
        return [self.value(item) for item in node.elts]

    def mapping(self, node: ast.Dict) -> dict[Any, Any]:
        if None in node.keys:
            raise TypeError("** is not part of the language")
        return {self.key(k): self.value(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}

    def key(self, node: ast.expr) -> str:
        key = self.value(node)
        if not isinstance(key, str):
            raise TypeError(f"keys are text, not {_kind(key)}")
        return key

    def both(self, node: ast.BoolOp) -> Any:
        value = None
        for part in node.values:
            value = self.value(part)
            if truth(value) is isinstance(node.op, ast.Or):
                break
        return value

    def unary(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return not truth(value)
        _need_number(value)
        return -value if isinstance(node.op, ast.USub) else +value

    def choice(self, node: ast.IfExp) -> Any:
        return self.value(node.body if truth(self.value(node.test)) else node.orelse)

    def compare(self, node: ast.Compare) -> bool:
        left = self.value(node.left)
        for op, part in zip(node.ops, node.comparators, strict=True):
            right = self.value(part)
            if not self._holds(op, left, right):
                return False
            left = right
        return True

    def _holds(self, op: ast.cmpop, left: Any, right: Any) -> bool:
        if isinstance(op, ast.Eq | ast.NotEq):
            return equal(left, right, self.budget) is isinstance(op, ast.Eq)
        if isinstance(op, ast.Is | ast.IsNot):
            if not any(one is None or isinstance(one, bool) for one in (left, right)):
                raise TypeError("`is` compares with None, True and False only; use ==")
            return (left is right) is isinstance(op, ast.Is)
        if isinstance(op, ast.In | ast.NotIn):
            return self._contains(right, left) is isinstance(op, ast.In)
        self.budget.spend(weight(left) + weight(right))
        _need_order(left, right)
        return bool(_ORDER[type(op)](left, right))

    def _contains(self, data: Any, item: Any) -> bool:
        self.budget.spend(weight(data))
        if isinstance(data, list):
            return any(equal(item, one, self.budget) for one in data)
        if isinstance(data, dict):
            return isinstance(item, str) and item in data
        if isinstance(data, str) and isinstance(item, str):
            return item in data
        raise TypeError(f"{_kind(item)} cannot be looked for in {_kind(data)}")

    def arithmetic(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        self.budget.spend(weight(left) + weight(right))
        return self._made(OPERATORS[type(node.op)](left, right))

    def call(self, node: ast.Call) -> Any:
        arguments = [self.value(one) for one in node.args]
        keywords = {str(one.arg): self.value(one.value) for one in node.keywords}
        if isinstance(node.func, ast.Attribute):
            subject = self.value(node.func.value)
            if not isinstance(subject, METHODS[node.func.attr].of):
                raise TypeError(f"{ast.unparse(node.func.value)} is {_kind(subject)} and has no {node.func.attr}()")
            return self._made(METHODS[node.func.attr].call(self.budget, subject, *arguments))
        function = node.func
        assert isinstance(function, ast.Name)
        return self._made(FUNCTIONS[function.id](self.budget, *arguments, **keywords))

    def _made(self, value: Any) -> Any:
        self.budget.spend(weight(value))
        return bounded(value)

    def listing(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> list[Any]:
        kept = self.names
        found = bounded([self.value(node.elt) for _ in self._rounds(node.generators)])
        self.names = kept
        return found  # type: ignore[no-any-return]

    def dictionary(self, node: ast.DictComp) -> dict[Any, Any]:
        kept = self.names
        found = {self.key(node.key): self.value(node.value) for _ in self._rounds(node.generators)}
        self.names = kept
        return found

    def _rounds(self, generators: list[ast.comprehension]) -> Iterator[None]:
        """Bind the variables of a comprehension, once for each round of it."""
        first, *rest = generators
        outer = self.names
        for item in _items(self.value(first.iter)):
            self.budget.spend(1)
            self.names = {**outer, **_bound(first.target, item)} if outer else _bound(first.target, item)
            if all(truth(self.value(test)) for test in first.ifs):
                if rest:
                    yield from self._rounds(rest)
                else:
                    yield


def _items(data: Any) -> list[Any]:
    if not isinstance(data, list | dict | str):
        raise TypeError(f"{_kind(data)} has no items to go through")
    return list(data)


def _bound(target: ast.expr, item: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    assert isinstance(target, ast.Tuple)
    names = [name.id for name in target.elts if isinstance(name, ast.Name)]
    if not isinstance(item, list) or len(item) != len(names):
        raise TypeError(f"an item is no list of {len(names)}, so it cannot be taken apart into {', '.join(names)}")
    return dict(zip(names, item, strict=True))


def _kind(value: Any) -> str:
    names = {str: "text", list: "a list", dict: "an object", bool: "a yes or no", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _need_number(*values: Any) -> None:
    for value in values:
        if not isinstance(value, int | float):
            raise TypeError(f"{_kind(value)} is no number")
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise ValueError("a number is too large")


def _need_order(left: Any, right: Any) -> None:
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if not numbers and not (type(left) is type(right) and isinstance(left, str | list)):
        raise TypeError(f"{_kind(left)} and {_kind(right)} have no order")


def _add(left: Any, right: Any) -> Any:
    if type(left) is type(right) and isinstance(left, str | list):
        check_length(len(left) + len(right))
    else:
        _need_number(left, right)
    return left + right


def _multiply(left: Any, right: Any) -> Any:
    if isinstance(left, str | list) and isinstance(right, int):
        check_length(len(left) * max(right, 0))
    else:
        _need_number(left, right)
    return left * right


def _power(left: Any, right: Any) -> Any:
    _need_number(left, right)
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > MAX_BITS:
        raise ValueError("a number is too large")
    value = left**right
    if isinstance(value, complex):
        raise ValueError("the root of a negative number is no number here")
    return value


def _numeric(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        _need_number(left, right)
        return function(left, right)

    return apply


OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _add,
    ast.Sub: _numeric(operator.sub),
    ast.Mult: _multiply,
    ast.Div: _numeric(operator.truediv),
    ast.FloorDiv: _numeric(operator.floordiv),
    ast.Mod: _numeric(operator.mod),
    ast.Pow: _power,
}

_HOW: dict[type[ast.expr], Callable[[Evaluation, Any], Any]] = {
    ast.Constant: Evaluation.constant,
    ast.Name: Evaluation.name,
    ast.Attribute: Evaluation.attribute,
    ast.Subscript: Evaluation.subscript,
    ast.List: Evaluation.sequence,
    ast.Tuple: Evaluation.sequence,
    ast.Set: Evaluation.sequence,
    ast.Dict: Evaluation.mapping,
    ast.BoolOp: Evaluation.both,
    ast.UnaryOp: Evaluation.unary,
    ast.IfExp: Evaluation.choice,
    ast.Compare: Evaluation.compare,
    ast.BinOp: Evaluation.arithmetic,
    ast.Call: Evaluation.call,
    ast.ListComp: Evaluation.listing,
    ast.SetComp: Evaluation.listing,
    ast.GeneratorExp: Evaluation.listing,
    ast.DictComp: Evaluation.dictionary,
}


def _storable(value: Any) -> Any:
    """Raises ValueError for a number JSON has no form for, wherever it sits."""
    ahead = [value]
    while ahead:
        one = ahead.pop()
        if isinstance(one, float) and not math.isfinite(one):
            raise ValueError(f"the result holds {one}, which is no number that can be stored")
        if isinstance(one, dict | list):
            ahead.extend(one.values() if isinstance(one, dict) else one)
    return value
