"""What calls used, and what they cost where that is known."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

MILLION = 1_000_000


class Price(Struct, frozen=True):
    """Dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """For input read from the provider's cache; the same as `input` when None."""


PriceTable = Mapping[str, Price]
"""Prices by model: `"openai:gpt-4o"`, or `"openai:*"` for every other model of a provider."""


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens and requests of one call, or of many added together."""

    requests: int = 0
    input_tokens: int = 0
    """All that was read, cached or not."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of the input that came from the provider's cache."""
    priced_usd: float = 0.0
    """What the requests with a known price cost."""
    unpriced_requests: int = 0
    """How many requests have no known price."""

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def cost_usd(self) -> float | None:
        """What it cost, or None when the price of any request in it is not known."""
        return None if self.unpriced_requests else self.priced_usd

    def tokens(self) -> dict[str, int]:
        """The counts, as events carry them."""
        return {
            "requests": self.requests,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "total_tokens": self.total_tokens,
        }

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.priced_usd + other.priced_usd,
            self.unpriced_requests + other.unpriced_requests,
        )


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
