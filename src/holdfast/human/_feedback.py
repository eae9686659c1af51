"""What people say of results."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class HumanFeedbackResult(Struct, frozen=True):
    """What a person said of a method's result."""

    output: Any
    """the method's result"""
    feedback: str
    """what the person said; empty if nobody answered in time"""
    outcome: str | None = None
    """which of `emit` that amounts to"""
    method_name: str = ""
    at_us: int = 0
    """when it was said, in microseconds since 1970"""
    metadata: dict[str, Any] = {}
    """what the decorator was given"""
