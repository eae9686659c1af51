"""What model calls used."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


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

    @classmethod
    def of_event(cls, tokens: Mapping[str, int], cost_usd: float | None) -> Usage:
        """The usage that the event of a call tells of."""
        requests = tokens.get("requests", 1)
        return cls(
            requests,
            tokens.get("input_tokens", 0),
            tokens.get("output_tokens", 0),
            tokens.get("cached_tokens", 0),
            cost_usd or 0.0,
            requests if cost_usd is None else 0,
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.priced_usd + other.priced_usd,
            self.unpriced_requests + other.unpriced_requests,
        )
