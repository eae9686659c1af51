"""YAML as flow files have it: places, YAML 1.2 scalars, bounds."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.flowfiles._findings import Finding, Report
from holdfast.flowfiles._nodes import Mapping, Scalar, Sequence, plain, read_nodes


def read(text: str | bytes) -> tuple[Any, tuple[Finding, ...]]:
    report = Report()
    node = read_nodes(text if isinstance(text, bytes) else text.encode(), "x.yaml", report)
    return (None if node is None else plain(node)), report.findings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("yes", "yes"),
        ("off", "off"),
        ("NO", "NO"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("12", 12),
        ("-3", -3),
        ("010", 10),
        ("1.50", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        ("1e999", "1e999"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("9" * 30, float("9" * 30)),
    ],
)
def test_a_scalar_means(text: str, value: Any) -> None:
    found, findings = read(f"key: {text}\n")
    assert findings == ()
    assert found == {"key": value}
    assert type(found["key"]) is type(value)


def test_every_node_knows_its_line_and_column() -> None:
    node = read_nodes(b"a:\n  - 'x'\n  - {b: 1}\n", "x.yaml", Report())
    assert isinstance(node, Mapping)
    items = node.get("a")
    assert isinstance(items, Sequence)
    quoted, inner = items.items
    assert isinstance(quoted, Scalar)
    assert (str(quoted.at), str(quoted.inner)) == ("x.yaml:2:5", "x.yaml:2:6")
    assert isinstance(inner, Mapping)
    assert str(inner.entries[0][1].at) == "x.yaml:3:9"


def test_aliases_and_merges_work() -> None:
    found, findings = read("base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo: *b\nthree: {<<: [*b, {z: 4}]}\n")
    assert findings == ()
    assert found["one"] == {"y": 3, "x": 1}
    assert found["three"] == {"x": 1, "y": 2, "z": 4}
    assert found["two"] == found["base"]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate-key", "x.yaml:3:1"),
        ("a: {b: 1, b: 2}\n", "duplicate-key", "x.yaml:1:11"),
        ("a: [1\nb: 2", "yaml", "x.yaml:2:2"),
        ("a: 'x", "yaml", "x.yaml:1:6"),
        ("\tx: 1", "yaml", "x.yaml:1:1"),
        ("a: *b", "yaml", "x.yaml:1:4"),
        ("a: &a [*a]", "too-large", "x.yaml:1:8"),
        ("a: 1\n---\nb: 2\n", "too-large", "x.yaml:2:1"),
        ("? [a]\n: 1\n", "bad-key", "x.yaml:1:3"),
        ("a: {<<: 5}\n", "bad-merge", "x.yaml:1:9"),
        ("", "empty", "x.yaml:1:1"),
        ("# nothing\n", "empty", "x.yaml:1:1"),
        (b"a: 1\nb: \xff\n", "encoding", "x.yaml:2:4"),
        (b"a: \x00", "yaml", "x.yaml:1:1"),
        (b"\xff\xfea\x00", "encoding", "x.yaml:1:1"),
        ("[" * 60 + "]" * 60, "too-large", "x.yaml:1:52"),
        ("[" * 20_000, "too-large", "x.yaml:1:52"),
        ("a: [" + "1," * 60_000 + "]", "too-large", "x.yaml:1:99999"),
        ("x" * 1_000_001, "too-large", "x.yaml:1:1"),
    ],
)
def test_what_is_no_usable_yaml_is_refused_where_it_is(text: str | bytes, code: str, place: str) -> None:
    _, findings = read(text)
    assert [(one.code, str(one.at)) for one in findings] == [(code, place)]


def test_a_bomb_of_aliases_is_counted_not_unpacked() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    _, findings = read("\n".join(lines))
    assert [one.code for one in findings] == ["too-large"]
    assert "counting what aliases repeat" in findings[0].message


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm() -> None:
    assert read(b"\xef\xbb\xbfa: 1\r\nb: |\r\n  x\r\n") == ({"a": 1, "b": "x\n"}, ())
