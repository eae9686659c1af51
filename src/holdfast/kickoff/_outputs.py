"""The results of a flow's methods, in the order they completed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KEPT = 1000


class Outputs:
    """All of them, for a run that is not written down; for one that is, the last thousand, and a way to read the others."""

    def __init__(self, read_all: Callable[[], list[Any]] | None = None, *, complete: bool = True) -> None:
        self._kept: list[Any] = []
        self._read_all = read_all
        self._complete = complete

    def add(self, result: Any) -> None:
        self._kept.append(result)
        if self._read_all is not None and len(self._kept) > 2 * KEPT:
            del self._kept[:-KEPT]
            self._complete = False

    def all(self) -> list[Any]:
        """Every result. Reads the journal if some are only there."""
        if self._complete or self._read_all is None:
            return list(self._kept)
        return self._read_all()
