"""How often somebody may do something: a bucket of tries that fills with time."""

from __future__ import annotations

from collections import OrderedDict

from holdfast.clock import Clock

MAX_KNOWN = 10_000
"""Whoever tries is remembered; the one that was seen longest ago is forgotten for a new one."""


class Rates:
    """So many tries a second each, after so many at once."""

    def __init__(self, clock: Clock, per_second: float, burst: float) -> None:
        self._clock, self._per_second, self._burst = clock, per_second, burst
        self._known: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_for(self, who: str) -> float:
        """Take a try. 0.0 if there was one, else how many seconds to wait for the next."""
        now = self._clock.monotonic()
        left, at = self._known.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        granted = left >= 1
        self._known[who] = (left - 1 if granted else left, now)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return 0.0 if granted else (1 - left) / self._per_second
