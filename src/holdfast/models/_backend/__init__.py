"""The only place that knows pydantic-ai. Heavy: imported on first use."""

from __future__ import annotations

from holdfast.models._backend._backend import Backend

__all__ = ["Backend"]
