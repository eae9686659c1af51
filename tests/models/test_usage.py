from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.models import Price, Usage
from holdfast.models._usage import cost_of, find_price, priced

counts = st.integers(0, 10**9)
usages = st.builds(Usage, counts, counts, counts, counts, st.integers(0, 100).map(float), counts)


@given(usages, usages, usages)
def test_usage_adds_up_in_any_order(a: Usage, b: Usage, c: Usage) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + Usage() == a
    assert (a + b).total_tokens == a.total_tokens + b.total_tokens


def test_s1_20_totals_after_a_resume_are_those_before_plus_those_after() -> None:
    before, after = Usage(2, 10, 4, 1, 0.5), Usage(1, 7, 3, 0, 0.25)
    assert (before + after).tokens() == {
        "requests": 3,
        "input_tokens": 17,
        "output_tokens": 7,
        "cached_tokens": 1,
        "total_tokens": 24,
    }
    assert (before + after).cost_usd == 0.75


def test_a_cost_with_an_unknown_price_in_it_is_unknown() -> None:
    known, unknown = priced(Usage(1, 10, 5), 0.5), priced(Usage(1, 10, 5), None)
    assert known.cost_usd == 0.5
    assert unknown.cost_usd is None
    assert (known + unknown).cost_usd is None
    assert (known + unknown).priced_usd == 0.5


def test_cached_input_has_its_own_price() -> None:
    usage = Usage(1, 1_000_000, 500_000, 400_000)
    assert cost_of(usage, Price(10, 20, 1)) == pytest.approx(6 + 0.4 + 10)
    assert cost_of(usage, Price(10, 20)) == pytest.approx(10 + 10)


def test_a_price_is_found_by_model_before_provider() -> None:
    table = {"openai:gpt-4o": Price(1, 2), "openai:*": Price(3, 4)}
    assert find_price(table, "openai:gpt-4o") == Price(1, 2)
    assert find_price(table, "openai:other") == Price(3, 4)
    assert find_price(table, "anthropic:x") is None
