"""Reading a job's live output from any place in its file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.ports import LogLine

PART = 256 * 1024
"""Bytes that are read at once."""
_decode = msgspec.json.Decoder(LogLine).decode


def size_of(path: Path) -> int:
    """How long it is; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def read_part(path: Path, start: int, end: int | None = None) -> list[tuple[int, LogLine]]:
    """Whole lines from a place on, each with the place behind it, a bounded part. What cannot be read is left out."""
    if start >= size_of(path):
        return []  # a place far behind the end is none that a file can be read from
    length = PART if end is None else min(PART, end - start)
    try:
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(length)
            if data and b"\n" not in data and (end is None or end - start > length):
                data += file.readline(16 * PART)  # one line longer than a part
    except FileNotFoundError:
        return []
    found, place = [], start
    for raw in data.splitlines(keepends=True):
        if not raw.endswith(b"\n"):
            break
        place += len(raw)
        try:
            found.append((place, _decode(raw)))
        except msgspec.MsgspecError:
            continue
    return found


def read_end(path: Path, end: int) -> list[LogLine]:
    """The last lines before a place, a bounded part."""
    return [line for _, line in read_part(path, max(end - PART, 0), end)]  # half of a line is none, and left out
