"""What calls used, and what they cost where that is known."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from holdfast.ports import Usage as Usage

MILLION = 1_000_000


class Price(Struct, frozen=True):
    """Dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """For input read from the provider's cache; the same as `input` when None."""


PriceTable = Mapping[str, Price]
"""Prices by model: `"openai:gpt-4o"`, or `"openai:*"` for every other model of a provider."""


def find_price(prices: PriceTable, model: str) -> Price | None:
    """The price of a model in a table; None when it is not there."""
    provider = model.partition(":")[0]
    return prices.get(model) or prices.get(f"{provider}:*")


def cost_of(usage: Usage, price: Price) -> float:
    """What `usage` costs at `price`, in dollars."""
    cached = price.input if price.cached is None else price.cached
    fresh = usage.input_tokens - usage.cached_tokens
    return (fresh * price.input + usage.cached_tokens * cached + usage.output_tokens * price.output) / MILLION


def priced(usage: Usage, cost_usd: float | None) -> Usage:
    """The usage of one call with its cost, or marked as unpriced."""
    return Usage(
        usage.requests,
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        cost_usd or 0.0,
        usage.requests if cost_usd is None else 0,
    )
