"""Bounded patterns find what the standard library finds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.flowfiles._budget import Budget, TooMuchWorkError
from holdfast.flowfiles._regex import compile_pattern, search

ATOMS = [
    "a",
    "b",
    ".",
    "\\d",
    "\\w+",
    "\\s",
    "[ab]",
    "[^a]",
    "[a-c1-9]",
    "(a|b)",
    "(a*)",
    "(?:ab)+",
    "a?",
    "b*?",
    "a+?",
    "^",
    "$",
    "\\b",
    "\\B",
    "a{2,3}",
    "b{0,2}?",
    "(b)",
    "(?i:A)",
    "|",
    "(?P<n>a)",
    "\\A",
    "\\Z",
    "(?s:.)",
    "(?m:^a$)",
]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=6).map("".join), st.text("ab1 \nAB_", max_size=12))
def test_a_pattern_finds_what_re_finds(pattern: str, text: str) -> None:
    if not text and "\\B" in pattern:
        return  # Python's own releases differ about this one
    try:
        expected = re.search(pattern, text)
    except re.error:
        return
    found = search(pattern, text, Budget(10**6))
    if expected is None:
        assert found is None
    else:
        assert found == (expected[0], expected[1] if expected.re.groups else None)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*)*x", "(?:a?){30}a{30}", "(\\w+\\s?)*$"])
def test_work_grows_with_the_text_and_not_faster(pattern: str) -> None:
    def work(length: int) -> int:
        budget = Budget(10**9)
        search(pattern, "a" * length + "!", budget)
        return 10**9 - budget.left

    assert work(800) < 2.5 * work(400)


def test_lines_have_their_own_ends_when_asked_for() -> None:
    assert search("(?m)^b$", "a\nb\nc", Budget(1000)) == ("b", None)
    assert search("^b$", "a\nb\nc", Budget(1000)) is None


def test_a_text_that_is_too_long_for_the_budget_is_refused() -> None:
    with pytest.raises(TooMuchWorkError):
        search("x", "a" * 1000, Budget(500))


@pytest.mark.parametrize(
    "pattern", ["(a)\\1", "(?=a)", "(?<!a)b", "(?P<n>a)(?P=n)", "(a)?(?(1)b|c)", "a{5000}", "(a{100}){100}", "[", "*"]
)
def test_what_needs_backtracking_or_is_too_large_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        compile_pattern(pattern)
