"""Where a value sits in a state."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

Path: TypeAlias = tuple[Hashable, ...]
"""The field's name, then keys and indexes: text and integers, or whatever else a dict has as its plain key."""


class Missing:
    """The type of MISSING."""


MISSING = Missing()
"""There is no value at this path."""


def locate(path: Path) -> str:
    """`path` as people read it: `$.items[1].client`."""
    return "$" + "".join(f".{part}" if isinstance(part, str) else f"[{part!r}]" for part in path)


def value_at(plain: Any, path: Path) -> Any:
    """Return what a plain state holds at `path`, or MISSING."""
    part: Any
    for part in path:
        if (isinstance(plain, dict) and part in plain) or (
            isinstance(plain, list | tuple) and is_index(part, len(plain))
        ):
            plain = plain[part]
        else:
            return MISSING
    return plain


def is_index(part: object, length: int) -> bool:
    """Whether `part` is an index into a sequence of this length."""
    return type(part) is int and 0 <= part < length
