"""For your tests and ours: a clock that stands still, a runtime of one's own, conformance suites."""

from __future__ import annotations

from holdfast.testing._clock import ManualClock
from holdfast.testing._isolation import isolated_runtime

__all__ = ["ManualClock", "isolated_runtime"]
