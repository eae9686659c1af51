"""Values of a state as JSON: what has no form there is spelled as the store spells it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.deltas import encode_plain


def plain_json(value: Any) -> Any:
    """A plain value, ready to be encoded."""
    return msgspec.Raw(encode_plain(value))
