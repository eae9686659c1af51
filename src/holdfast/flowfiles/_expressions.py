"""The expressions of flow files: parsed and checked once, evaluated over plain data within a budget, never with `eval`."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from holdfast.errors import ExpressionError
from holdfast.flowfiles._budget import Budget, TooMuchWorkError
from holdfast.flowfiles._evaluate import CONSTANTS, FUNCTIONS, KEYWORDS, METHODS, OPERATORS, Evaluation
from holdfast.flowfiles._nearest import did_you_mean
from holdfast.flowfiles._parts import Position
from holdfast.flowfiles._regex import compile_pattern

MAX_TEXT = 4_000
"""Characters of an expression."""
MAX_DEPTH = 60
"""How deep it may be nested."""
MAX_STEPS = 250_000
"""What one evaluation may do; about a third of a second."""

_PLAIN = (
    ast.Expression, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Slice, ast.Name, ast.Attribute,
    ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Load, ast.Store,
    ast.And, ast.Or, ast.Not, ast.USub, ast.UAdd, ast.cmpop,
)  # fmt: skip
_parsing = threading.Lock()  # Python's warning filters are everybody's


class CompiledExpression:
    """An expression that was found fit to run."""

    def __init__(self, text: str, at: Position | None, body: ast.expr) -> None:
        self.text = text
        self.at = at
        self.body = body
        """what was read, for those who look at its form; it was checked"""
        self.names = tuple(dict.fromkeys(node.id for node in _free_names(body)))
        """What it reads, in order of appearance."""

    @property
    def is_constant(self) -> bool:
        return not self.names

    def fields_of(self, name: str) -> tuple[str, ...]:
        """The fields of a name that it reads, as in `outputs.score`; not those it asks for with `get`."""
        called = {id(node.func) for node in ast.walk(self.body) if isinstance(node, ast.Call)}
        return tuple(
            node.attr
            for node in ast.walk(self.body)
            if isinstance(node, ast.Attribute)
            and id(node) not in called
            and isinstance(node.value, ast.Name)
            and node.value.id == name
        )

    def compared_with(self, name: str) -> tuple[Any, ...]:
        """The constants it compares a name with, as in `error_category == 'timeout'` or `in ('a', 'b')`."""
        found: list[Any] = []
        for node in ast.walk(self.body):
            if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == name:
                inside = [one for part in node.comparators for one in ast.walk(part)]
                found += [one.value for one in inside if isinstance(one, ast.Constant)]
        return tuple(found)

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """Its value, as plain data.

        `names` holds plain data: None, bool, int, float, str, list, dict. Raises ExpressionError, with the text, the place and the
        reason, when it cannot be evaluated, asks for too much, or gives a number that JSON has no form for.
        """
        evaluation = Evaluation(names, Budget(MAX_STEPS))
        try:
            return evaluation.result(self.body)
        except TooMuchWorkError as error:
            raise self._error("it does too much; do the work in a step and test its output") from error
        except KeyError as error:
            raise self._error(str(error.args[0]) if error.args else "a key is missing") from error
        except (TypeError, ValueError, ArithmeticError, IndexError) as error:
            raise self._error(str(error) or type(error).__name__) from error
        except (RecursionError, MemoryError) as error:
            raise self._error("its data is nested too deeply") from error

    def _error(self, reason: str) -> ExpressionError:
        return ExpressionError(
            f"cannot evaluate `{_shown(self.text)}`: {reason}", text=self.text, at=str(self.at or "")
        )


def compile_expression(
    text: str, at: Position | None = None, *, known: Collection[str] | None = None
) -> CompiledExpression:
    """Read an expression and check it without running anything.

    `known`, when given, are the names it may read. Raises ExpressionError, with the place inside the text, for what is no
    expression, for what the language leaves out, and for a name that is not known.
    """
    try:
        compiled = _compiled(text, at)
        if known is not None:
            _check_names(compiled.body, known)
    except _Fault as fault:
        where = _inside(at, fault.node, text)
        message = f"`{_shown(text)}` cannot be used: {fault}"
        raise ExpressionError(message, text=text, at=str(where or "")) from None
    return compiled


@lru_cache(maxsize=2048)
def _compiled(text: str, at: Position | None) -> CompiledExpression:
    """Remembered: a rule is evaluated whenever its step is done."""
    body = _parsed(text)
    for node in ast.walk(body):
        _check_node(node)
    return CompiledExpression(text, at, body)


class _Fault(Exception):
    """Something in an expression that cannot stay."""

    def __init__(self, message: str, node: ast.AST | None = None) -> None:
        self.node = node
        super().__init__(message)


def _parsed(text: str) -> ast.expr:
    if len(text) > MAX_TEXT:
        raise _Fault(f"it has {len(text):,} characters, {MAX_TEXT:,} are allowed; do the work in a step")
    if not text.strip():
        raise _Fault("it is empty")
    try:
        with _parsing, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # '\d' in a pattern, `x is 1`
            body = ast.parse(text.replace("\n", " ").strip(), mode="eval").body
    except SyntaxError as error:
        raise _Fault(str(error.msg).replace("(<unknown>, line 1)", "").strip()) from error
    except (ValueError, MemoryError, RecursionError) as error:
        raise _Fault("it cannot be read; it may be nested too deeply") from error
    _check_depth(body)
    return body


def _check_depth(body: ast.expr) -> None:
    level: list[ast.AST] = [body]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise _Fault("it is nested too deeply; do the work in a step")


def _check_node(node: ast.AST) -> None:
    """Raise _Fault for what the language leaves out."""
    if isinstance(node, ast.Constant):
        if not isinstance(node.value, str | int | float | None):
            raise _Fault(f"{ast.unparse(node)} is not data", node)
    elif isinstance(node, ast.BinOp):
        if type(node.op) not in OPERATORS:
            raise _Fault(f"the operator {_name(node.op)} is not part of the language", node)
    elif isinstance(node, ast.Call):
        _check_call(node)
    elif isinstance(node, ast.comprehension):
        _check_comprehension(node)
    elif not isinstance(node, _PLAIN) and not isinstance(node, ast.operator | ast.keyword):
        raise _Fault(f"{_name(node)} is not part of the language", node)


def _check_call(node: ast.Call) -> None:
    if isinstance(node.func, ast.Attribute):
        if node.func.attr not in METHODS:
            raise _Fault(f"there is no method {node.func.attr}{did_you_mean(node.func.attr, METHODS)}", node)
    elif not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        called = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        raise _Fault(f"there is no function {called}{did_you_mean(called, FUNCTIONS)}", node)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
    for keyword in node.keywords:
        if keyword.arg not in KEYWORDS.get(name, ()):
            raise _Fault(f"{name}() takes no {keyword.arg or '**'}=", node)
    _check_pattern(name, node)


def _check_pattern(name: str, node: ast.Call) -> None:
    """A pattern that is written out is read now, not when the step is done."""
    if name == "regex_extract" and node.args and isinstance(node.args[0], ast.Constant):
        try:
            compile_pattern(str(node.args[0].value))
        except ValueError as error:
            raise _Fault(str(error), node.args[0]) from error


def _check_comprehension(node: ast.comprehension) -> None:
    names = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    if node.is_async or not all(isinstance(name, ast.Name) for name in names):
        raise _Fault("a comprehension's variables are plain names", node.target)


def _check_names(body: ast.expr, known: Collection[str]) -> None:
    for node in _free_names(body):
        if node.id not in known:
            hint = did_you_mean(node.id, known) or f"; it may read {', '.join(sorted(known)) or 'nothing'}"
            raise _Fault(f"there is no {node.id} here{hint}", node)


def _free_names(body: ast.expr) -> list[ast.Name]:
    """The names it reads from outside: not its own variables, not functions that are called, not true, false and null."""
    own = {node.id for node in ast.walk(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    called = {id(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}
    found = [
        node
        for node in ast.walk(body)
        if isinstance(node, ast.Name) and id(node) not in called and node.id not in own and node.id not in CONSTANTS
    ]
    return sorted(found, key=lambda node: node.col_offset)


def _name(node: ast.AST) -> str:
    return {"JoinedStr": "an f-string", "Lambda": "lambda", "NamedExpr": ":=", "Starred": "*"}.get(
        type(node).__name__, type(node).__name__
    )


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 120 else line[:117] + "…"


def _inside(at: Position | None, node: ast.AST | None, text: str) -> Position | None:
    """Where a part of an expression stands in its file. Inside text of several lines only the beginning is certain."""
    column = getattr(node, "col_offset", None)
    if at is None or column is None or "\n" in text or not text.isascii():
        return at
    return Position(at.file, at.line, at.column + column + len(text) - len(text.lstrip()))
