"""The results of a flow's methods, in the order they completed; and of those, what people said."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from holdfast.human import HumanFeedbackResult

KEPT = 2000
SAID = 100


class Outputs:
    """All of them, for a run that is not written down; for one that is, the last two thousand, and a way to read the others."""

    def __init__(self, read_all: Callable[[], list[Any]] | None = None, *, complete: bool = True) -> None:
        self._kept: deque[Any] = deque(maxlen=None if read_all is None else KEPT + 1)
        self._read_all = read_all
        self._complete = complete
        self.add = self._kept.append
        """Take a method's result."""

    def all(self) -> list[Any]:
        """Every result. Reads the journal if some are only there."""
        if self._read_all is None or (self._complete and len(self._kept) <= KEPT):
            return list(self._kept)
        return self._read_all()


class Feedback:
    """What people said in a run, the last hundred of it. What was said before it was taken up again is read when asked for."""

    def __init__(self, read_before: Callable[[], list[Any]] | None = None) -> None:
        self._said: list[HumanFeedbackResult] = []
        self._read_before = read_before
        self._lock = threading.Lock()

    def add(self, result: HumanFeedbackResult) -> None:
        """Take what somebody said."""
        self._said.append(result)
        del self._said[:-SAID]

    def all(self) -> list[HumanFeedbackResult]:
        with self._lock:
            if self._read_before is not None:
                before = [result for result in self._read_before() if isinstance(result, HumanFeedbackResult)]
                self._said[:0] = before[-SAID:]
                self._read_before = None
            return self._said[-SAID:]
