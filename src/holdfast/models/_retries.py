"""When to ask a model again, and how long to wait before."""

from __future__ import annotations

from random import Random

from msgspec import Struct

from holdfast.errors import ModelError


class Retries(Struct, frozen=True, kw_only=True):
    """Transient errors are tried again: after a wait that doubles, with jitter, or after what the provider asks for."""

    attempts: int = 5
    """How often a request is sent at most; 1 means never again."""
    first_wait: float = 0.5
    longest_wait: float = 30.0
    patience: float = 120.0
    """A provider that asks for a longer wait than this is not waited for."""

    def wait_after(self, failures: int, error: ModelError, random: Random) -> float | None:
        """Seconds to wait after that many failures in a row; None when the last error counts."""
        if not error.transient or failures >= self.attempts:
            return None
        asked = error.retry_after or 0.0
        if asked > self.patience:
            return None
        own = min(self.first_wait * 2.0 ** (failures - 1), self.longest_wait)
        return max(asked, own * random.uniform(0.5, 1.0))


NO_RETRIES = Retries(attempts=1)
