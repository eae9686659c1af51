"""Lines out of a stream of bytes, none of them longer than a bound."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

LINE_BYTES = 32 * 1024 * 1024
"""Longer than any message that means well: a picture of 20 MB fits."""
HEAD_BYTES = 1024


class LongLine(Struct, frozen=True):
    """A line over the bound; only its beginning was kept."""

    head: bytes
    length: int


class LineSplitter:
    """Takes bytes as they come and gives whole lines. What it holds never exceeds the bound, whatever comes."""

    def __init__(self, limit: int = LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> Iterator[bytes | LongLine]:
        """The lines that are complete now, without their ends; empty ones are left out."""
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._take(part)
            if self._length:
                yield self._line()
            self._parts, self._length = [], 0
        self._take(rest)

    def _take(self, part: bytes) -> None:
        was_short = self._length <= self._limit
        self._length += len(part)
        if self._length <= self._limit:
            self._parts.append(part)
        elif was_short:
            self._parts = [b"".join((*self._parts, part[:HEAD_BYTES]))[:HEAD_BYTES]]

    def _line(self) -> bytes | LongLine:
        line = b"".join(self._parts)
        return line if self._length <= self._limit else LongLine(line, self._length)
