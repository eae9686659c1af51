"""The expression language: what it can do, what it refuses, and that nothing makes it run code, hang or grow."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import ExpressionError
from holdfast.flowfiles import Position, compile_expression

AT = Position("x.flow.yaml", 7, 11)
DATA: dict[str, Any] = {
    "outputs": {
        "score": 4,
        "scores": {"a": 1, "b": 3},
        "list": [1, 2, 3],
        "values": 7,
        "text": "Score: 42 of 50",
        "none": None,
        "deep": {"items": [{"name": "x"}, {"name": "y"}]},
        "_error": "boom",
    },
    "attempt": 2,
    "max_attempts": None,
}


def outcome(text: str, names: dict[str, Any]) -> tuple[Any, str | None]:
    """The value, or where it is wrong. Anything but an ExpressionError goes through."""
    try:
        return compile_expression(text, AT).evaluate(names), None
    except ExpressionError as error:
        return None, error.at


def evaluate(text: str, **names: Any) -> Any:
    return compile_expression(text, AT).evaluate(names or DATA)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("outputs.score >= 4 and attempt < 5", True),
        ("outputs['score'] in (3, 4)", True),
        ("1 < attempt <= 2", True),
        ("not outputs.list", False),
        ("any(s > 2 for s in outputs.list)", True),
        ("all(s > 2 for s in outputs.list)", False),
        ("sum(outputs.scores.values()) / len(outputs.scores)", 2.0),
        ("[k for k, v in outputs.scores.items() if v > 1]", ["b"]),
        ("{k: v * 2 for k, v in outputs.scores.items()}", {"a": 2, "b": 6}),
        ("[a * b for a in outputs.list for b in outputs.list if a < b]", [2, 3, 6]),
        ("sorted(outputs.list, reverse=True)[0]", 3),
        ("outputs.list[-1] + outputs.list[0:2][1]", 5),
        ("max_attempts is None and outputs.none is not True", True),
        ("outputs.values", 7),
        ("outputs._error", "boom"),
        ("outputs.deep.items[1].name", "y"),
        ("outputs.get('missing', 'other')", "other"),
        ("'b' in outputs.scores and 'z' not in outputs.scores", True),
        ("int(regex_extract('(\\d+)', outputs.text))", 42),
        ("regex_extract('no (match)', outputs.text, 'none')", "none"),
        ("regex_extract('x', outputs.none, default=1)", 1),
        ("outputs.text.lower().startswith('score') and ' x '.strip() == 'x'", True),
        ("true and not false and null == None", True),
        ("'big' if attempt > 5 else 'small'", "small"),
        ("min(outputs.list), max(1, 7), abs(-2), round(2.567, 2)", [1, 7, 2, 2.57]),
        ("max([], default=0)", 0),
        ("str(1) + '!' * 3", "1!!!"),
        ("2 ** 10 % 1000 // 3 - 1.5", 6.5),
        ("{'a': [1]} == {'a': [1]} and [1] != [2]", True),
        ("attempt\n  > 1", True),
        ("outputs.none or 'default'", "default"),
        ("bool(outputs.list) and float('1.5') == 1.5", True),
    ],
)
def test_an_expression_gives(text: str, value: Any) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("outputs.scor", "outputs has no field scor; did you mean score?"),
        ("atempt > 1", "there is no atempt; did you mean attempt?"),
        ("outputs.none > 3", "null and a number have no order"),
        ("'a' + 1", "text is no number"),
        ("outputs.list[9]", "list index out of range"),
        ("outputs.scores['z']", "outputs.scores has no key 'z'"),
        ("attempt / 0", "division by zero"),
        ("'%d' % 5", "text is no number"),
        ("outputs.score.lower()", "outputs.score is a number and has no lower()"),
        ("attempt is 2", "compares with None, True and False only"),
        ("[x for x in 5]", "a number has no items"),
        ("[a for a, b in outputs.list]", "cannot be taken apart"),
        ("int('x')", "invalid literal"),
        ("float('inf')", "no number that can be stored"),
        ("(-8) ** 0.5", "root of a negative number"),
        ("sum(['a'])", "only numbers can be summed up"),
        ("sorted([1, 'a'])", "only numbers, or only texts"),
    ],
)
def test_what_cannot_be_evaluated_is_an_error_with_the_text_the_place_and_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        evaluate(text)
    assert str(raised.value).startswith("x.flow.yaml:7:11: cannot evaluate `")
    assert reason in str(raised.value)
    assert (raised.value.text, raised.value.at) == (text, "x.flow.yaml:7:11")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("1 +", "invalid syntax"),
        ("0) + (1", "unmatched"),
        ("lambda: 1", "lambda is not part of the language"),
        ("f'{attempt}'", "an f-string is not part"),
        ("(x := 1)", ":= is not part"),
        ("open('/etc/passwd')", "there is no function open"),
        ("__import__('os').system('id')", "there is no method system"),
        ("eval('1')", "there is no function eval"),
        ("lenn(outputs)", "there is no function lenn; did you mean len?"),
        ("outputs.text.format(1)", "there is no method format"),
        ("outputs.text.replace('a', 'b')", "there is no method replace"),
        ("(lambda: 1)()", "there is no function"),
        ("sorted(outputs, key=outputs.get)", "sorted() takes no key="),
        ("len(*outputs)", "* is not part"),
        ("len(**outputs)", "takes no **="),
        ("1 << 5", "LShift is not part"),
        ("~1", "Invert is not part"),
        ("b'x'", "is not data"),
        ("...", "is not data"),
        ("1j", "is not data"),
        ("[x async for x in y]", ""),
        ("await x", ""),
        ("yield", ""),
        ("x = 1", "invalid syntax"),
        ("import os", "invalid syntax"),
        ("[x for x.y in z]", "plain names"),
        ("regex_extract('(', outputs.text)", "the pattern '(' cannot be read"),
        ("regex_extract('(a)\\\\1', outputs.text)", "patterns may not use"),
        ("(" * 300 + "1" + ")" * 300, ""),
        ("-" * 3000 + "1", "nested"),
        ("+".join("1" * 1500), "nested"),
        ("'" + "a" * 5000 + "'", "5,002 characters"),
        ("\0", ""),
    ],
)
def test_what_is_no_expression_is_refused_before_anything_runs(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        compile_expression(text, AT)
    assert reason in str(raised.value)
    assert str(raised.value).startswith("x.flow.yaml:7:")


def test_an_unknown_name_is_found_without_running_and_its_place_is_told() -> None:
    with pytest.raises(ExpressionError) as raised:
        compile_expression("attempt > 1 and  ouputs.x", AT, known=("outputs", "attempt"))
    assert raised.value.at == "x.flow.yaml:7:28"
    assert "there is no ouputs here; did you mean outputs?" in str(raised.value)


def test_names_are_what_is_read_from_outside() -> None:
    compiled = compile_expression("any(s > limit for s in outputs.scores) and true and len(outputs.list) > attempt")
    assert compiled.names == ("limit", "outputs", "attempt")
    assert compiled.fields_of("outputs") == ("scores", "list") or set(compiled.fields_of("outputs")) == {
        "scores",
        "list",
    }
    assert compile_expression("1 + 1 == 2").is_constant


@pytest.mark.parametrize(
    "text",
    [
        "9 ** 9 ** 9",
        "10 ** 4000 * 10 ** 4000",
        "'a' * 2000000",
        "[0] * 2000000",
        "[[0] * 900000 for a in outputs.text for b in outputs.text]",
        "['a' * 900000 for a in outputs.text for b in outputs.text for c in outputs.text]",
        "[a for a in outputs.text for b in outputs.text for c in outputs.text for d in outputs.text for e in outputs.text]",
        "round(5, -10 ** 9)",
        "regex_extract('(a+)+$', 'a' * 50000 + 'b')",
        "regex_extract('(.*)*(.*)*(.*)*x', 'a' * 50000)",
        "regex_extract('(?:a?){1500}a{400}', 'a' * 100000)",
        "sum([10 ** 1000 for a in outputs.text for b in outputs.text for c in outputs.text for d in outputs.text])",
        "str([outputs for a in outputs.text for b in outputs.text for c in outputs.text for d in outputs.text])",
    ],
)
def test_no_expression_hangs_or_grows_without_bound(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"too much|too large|at most 300"):
        evaluate(text)


def test_data_that_is_nested_deeply_is_an_error_not_a_crash() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ExpressionError, match=r"nested too deeply|too much"):
        evaluate("x == y", x=deep, y=[deep[0]])


def test_data_is_never_looked_at_as_an_object() -> None:
    """The escapes that got out of eval sandboxes: every attribute is a key of data, or nothing."""
    for text in ("x.__class__", "(1).__class__", "''.join", "[].append", "(a for a in [1]).gi_frame", "{}.__init__"):
        with pytest.raises(ExpressionError):
            evaluate(text, x=1)


ATOMS = [
    "outputs",
    "attempt",
    "x",
    "1",
    "0",
    "-1",
    "1e308",
    "'a'",
    "''",
    "[]",
    "{}",
    "null",
    "true",
    "outputs.list",
    "outputs.scores",
    "'a' * 1000",
    "10 ** 100",
    "_",
    "__class__",
]
FORMS = [
    "({0}) + ({1})",
    "({0}) * ({1})",
    "({0}) ** ({1})",
    "({0}) / ({1})",
    "({0})[{1}]",
    "({0})[{1}:{0}]",
    "({0}).{2}",
    "({0}).{2}({1})",
    "{2}({0})",
    "{2}({0}, {1})",
    "[({0}) for x in ({1})]",
    "[({0}) for x, y in ({1})]",
    "{{({0}): ({1})}}",
    "({0}) in ({1})",
    "({0}) is ({1})",
    "({0}) < ({1}) == ({0})",
    "not ({0})",
    "({0}) if ({1}) else ({0})",
    "-({0})",
    "f'{{{0}}}'",
    "lambda: ({0})",
    "regex_extract(({0}), ({1}))",
]
NAMES = [
    "get",
    "keys",
    "values",
    "items",
    "split",
    "lower",
    "startswith",
    "sorted",
    "sum",
    "min",
    "str",
    "int",
    "round",
    "len",
    "__class__",
    "format",
    "replace",
    "open",
    "getattr",
]
expressions = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.builds(
        lambda form, a, b, name: form.format(a, b, name), st.sampled_from(FORMS), inner, inner, st.sampled_from(NAMES)
    ),
    max_leaves=12,
)


@settings(max_examples=250, deadline=None)
@given(expressions)
def test_hostile_expressions_give_plain_data_or_a_located_error(text: str) -> None:
    value, place = outcome(text, {**DATA, "x": [1, "a", {"k": None}]})
    assert place is None or place.startswith("x.flow.yaml:7:")
    json.dumps(value, allow_nan=False)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_an_expression_or_a_located_error(text: str) -> None:
    _, place = outcome(text, {})
    assert place is None or place.startswith("x.flow.yaml:7:")


@settings(max_examples=120, deadline=None)
@given(
    st.recursive(
        st.sampled_from(["1", "2.5", "a", "b", "True", "'x'"]),
        lambda inner: st.builds(
            lambda form, a, b: form.format(a, b),
            st.sampled_from(
                [
                    "({0} + {1})",
                    "({0} * {1})",
                    "({0} < {1})",
                    "({0} and {1})",
                    "({0} or {1})",
                    "(not {0})",
                    "({0} == {1})",
                    "[{0}, {1}]",
                    "len([{0}, {1}])",
                ]
            ),
            inner,
            inner,
        ),
        max_leaves=8,
    )
)
def test_what_it_can_evaluate_it_evaluates_as_python_does(text: str) -> None:
    names = {"a": 3, "b": -2}
    try:
        mine = compile_expression(text).evaluate(names)
    except ExpressionError:
        return  # stricter than Python about what has an order or can be added
    code = compile(ast.parse(text, mode="eval"), "x", "eval")
    assert mine == eval(code, {"len": len}, names)  # the reference, over texts made above
