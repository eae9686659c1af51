"""What is shown fits, never breaks a terminal, and what people type is understood."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli._checkpoint_edits import Edits
from holdfast.cli._terminal import (
    MAX_LINES,
    iso_time,
    outline,
    parse_duration,
    parse_labels,
    parse_size,
    printable,
    shorten,
    show_age,
    show_size,
)
from holdfast.errors import UsageError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.sets(st.text(), max_size=3),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(values, st.integers(20, 200))
def test_whatever_a_value_holds_it_is_shown_in_one_printable_line_that_fits(value: Any, width: int) -> None:
    shown = shorten(value, width)
    assert shown.isprintable()
    assert len(shown) <= max(width, 8 + len("… (1,000,000 characters)"))


@given(st.dictionaries(st.text(min_size=1), values, max_size=5))
def test_the_lines_of_a_state_are_printable_and_bounded(state: dict[str, Any]) -> None:
    lines = list(outline(state, 60))
    assert len(lines) <= MAX_LINES + 1
    assert all(line.isprintable() for line in lines)


def test_a_huge_state_is_cut_with_a_note() -> None:
    lines = list(outline({"rows": [["x" * 50, "y" * 50] for _ in range(100_000)]}, 60))
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "… there is more: --json shows all of it (10,800,010 bytes)"


@pytest.mark.parametrize("text", ["\x1b[2J", "\r", "\x9b31m", "\u202e", "\u200b", "\ud800", "\x07", "\n"])
def test_what_could_steer_a_terminal_is_spelled_out(text: str) -> None:
    assert printable(f"a{text}b").isprintable()
    assert printable("plain ä 漢 text") == "plain ä 漢 text"


def test_values_read_as_json_does() -> None:
    assert shorten({"a": [1, None, True, (2.5,)], "b": {"z", "y"}, 3: b"x"}, 200) == (
        '{"a": [1, null, true, [2.5]], "b": {"y", "z"}, 3: b\'x\'}'
    )
    assert shorten(datetime(2026, 1, 2, tzinfo=UTC), 40) == "2026-01-02 00:00:00+00:00"


def test_figures_are_short() -> None:
    assert [show_size(n) for n in (0, 999, 1000, 1_540_000, 10**13)] == ["0 B", "999 B", "1 kB", "1.54 MB", "10 TB"]
    assert [show_age(s * 10**6) for s in (-5, 59, 60, 3599, 3600, 86_400 * 30)] == [
        "0s",
        "59s",
        "1m",
        "59m",
        "1h",
        "30d",
    ]
    assert iso_time(1_750_000_000_123_456) == "2025-06-15T15:06:40.123456+00:00"


def test_durations_and_sizes_are_understood_or_refused() -> None:
    assert [parse_duration(text) for text in ("90s", "15m", "1.5h", "7D", "2 w")] == [
        timedelta(seconds=90), timedelta(minutes=15), timedelta(minutes=90), timedelta(days=7), timedelta(days=14),
    ]  # fmt: skip
    assert [parse_size(text) for text in ("12", "1kB", "1.5 MB", "2gb")] == [12, 1000, 1_500_000, 2 * 10**9]
    for text in ("", "7", "d", "-1d", "1y", "9" * 40 + "d"):
        with pytest.raises(UsageError, match="is not a duration"):
            parse_duration(text)
    for text in ("", "MB", "-1", "1 qb", "1k1"):
        with pytest.raises(UsageError, match="is not a size"):
            parse_size(text)


def test_labels_have_a_name_and_a_value_or_are_refused() -> None:
    assert parse_labels(["team=web", "empty=", "sum=a=b"]) == {"team": "web", "empty": "", "sum": "a=b"}
    for text in ("", "team", "=web"):
        with pytest.raises(UsageError, match="is no label; write --label name=value"):
            parse_labels([text])


def test_edits_go_where_they_say_and_leave_the_state_alone() -> None:
    state = {"a": {"b": [1, {"c": 2}]}, "n": 1}
    edits = Edits.of(["a.b[1].c=[3]", 'a["x.y"]=text', "$.n=null", "new=1", "a.b[2]=true", "n2=a=b"], None)
    assert edits.apply(state) == {
        "a": {"b": [1, {"c": [3]}, True], "x.y": "text"}, "n": None, "new": 1, "n2": "a=b",
    }  # fmt: skip
    assert state == {"a": {"b": [1, {"c": 2}]}, "n": 1}


@pytest.mark.parametrize("change", ["", "a", "=1", "[0]=1", "a[x]=1", "a..b=1", "a]=1"])
def test_an_edit_that_is_none_is_refused(change: str) -> None:
    with pytest.raises(UsageError, match=re.escape("write PATH=VALUE")):
        Edits.of([change], None)
