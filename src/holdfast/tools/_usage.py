"""How often a tool was used, and what it gave before."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from holdfast.serde import encode


class UsageCount:
    """Counts uses, up to a limit, from any thread."""

    def __init__(self, used: int = 0) -> None:
        self.used = used
        self._lock = threading.Lock()

    def take(self, limit: int | None) -> int:
        """Count one use and say the how many-eth it is; 0, uncounted, when the limit is reached."""
        with self._lock:
            if limit is not None and self.used >= limit:
                return 0
            self.used += 1
            return self.used

    def reach(self, used: int) -> None:
        """It was used so often at least."""
        with self._lock:
            self.used = max(self.used, used)

    def give_back(self) -> None:
        """Uncount one use that came to nothing."""
        with self._lock:
            self.used -= 1

    def __deepcopy__(self, memo: dict[int, Any]) -> UsageCount:
        return UsageCount(self.used)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UsageCount) and other.used == self.used

    __hash__ = None  # type: ignore[assignment]


class ToolCache:
    """What tools returned for arguments they were given before. Belongs to a run; the oldest entry leaves when full."""

    def __init__(self, size: int = 1000) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, bytes], Any] = OrderedDict()

    def find(self, tool: str, arguments: dict[str, Any]) -> tuple[Any] | None:
        """The kept output, in a tuple of one; None when there is none."""
        key = (tool, _canonical(arguments))
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return (self._kept[key],)

    def keep(self, tool: str, arguments: dict[str, Any], output: Any) -> None:
        with self._lock:
            self._kept[tool, _canonical(arguments)] = output
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)


def _canonical(arguments: dict[str, Any]) -> bytes:
    return encode({key: arguments[key] for key in sorted(arguments)})
