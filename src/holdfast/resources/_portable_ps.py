"""Processes as `ps` shows them: what every Unix has. Part of the portable keeper's program, so it imports little.

Every process of a tree has the tree's mark in its environment, which `ps` shows of one's own processes; macOS hides it of the
programs that are part of macOS itself.
"""

import calendar
import os
import re
import subprocess

MARK = "HOLDFAST_TREE"
"""The variable that carries a tree's tag."""
PLACES = ("/bin/ps", "/usr/bin/ps")
COLUMNS = ("pid", "ppid", "pgid", "rss", "stat", "lstart", "command")
FIXED = 10  # words before the command: five, and the five of a date
TIMEOUT = 10.0
MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_TAG = re.compile(rb"\b" + MARK.encode() + rb"=(\d+)")


class Row:
    """One live process."""

    __slots__ = ("memory", "name", "parent", "pgid", "pid", "started", "tag")

    def __init__(self, pid: int, parent: int, pgid: int, memory: int, started: int, command: bytes) -> None:
        self.pid = pid
        self.parent = parent
        self.pgid = pgid
        self.memory = memory
        self.started = started
        """in seconds, as the clock of the machine had it"""
        self.name = os.path.basename(command.split(b" ", 1)[0]).decode(errors="replace")
        found = _TAG.search(command)
        self.tag = int(found[1]) if found else 0


def find_ps() -> str:
    """Where it is; empty if it is nowhere."""
    return next((path for path in PLACES if os.access(path, os.X_OK)), "")


def read_rows() -> list[Row]:
    """Every live process. Raises OSError if that cannot be told. Blocks for some milliseconds."""
    env = {"LC_ALL": "C", "TZ": "UTC"}  # dates as we read them, and the same ones after a journey
    try:
        done = subprocess.run(_command(), env=env, capture_output=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError("ps does not answer") from error
    rows = [row for line in done.stdout.split(b"\n") if (row := read_row(line)) is not None]
    if all(row.pid != os.getpid() for row in rows):
        raise OSError(f"ps does not show this process; it said: {done.stderr.decode(errors='replace').strip()[:200]}")
    return rows


def _command() -> list[str]:
    """All processes of all users, lines of any length, and the environment, for which each system has its own letter.

    An option for each column: to the BSDs, all that follows `pid=` is that column's title.
    """
    options = "axeww" if os.uname().sysname == "Linux" else "-axwwE"
    return [find_ps(), options, *(word for column in COLUMNS for word in ("-o", f"{column}="))]


def read_row(line: bytes) -> Row | None:
    """One line; None for a process that has ended but was not waited for, and for what is no line of ours."""
    words = line.split(None, FIXED)
    try:
        pid, parent, pgid, kilobytes = (int(word) for word in words[:4])
        started = read_date(*words[6:FIXED])
    except (TypeError, ValueError):
        return None
    if words[4].startswith(b"Z"):
        return None
    return Row(pid, parent, pgid, kilobytes * 1024, started, words[FIXED] if len(words) > FIXED else b"")


def read_date(month: bytes, day: bytes, clock: bytes, year: bytes) -> int:
    """Seconds since 1970. By hand: the system's own way depends on the language that the program was set to."""
    hour, minute, second = (int(part) for part in clock.split(b":"))
    return calendar.timegm((int(year), MONTHS.index(month) + 1, int(day), hour, minute, second))


def find_family(rows: list[Row], numbers: set[int], tag: int) -> list[Row]:
    """A tree's processes: whoever carries the tag, is in a group with one of the numbers, or is below one of these, in any group.

    A group belongs to one session, and a tree to sessions of its own, so a group that has one of the tree's has only such.
    """
    numbers = set(numbers)
    found: dict[int, Row] = {}
    while more := [
        row
        for row in rows
        if row.pid not in found and (row.pgid in numbers or row.parent in found or (tag and row.tag == tag))
    ]:
        found.update((row.pid, row) for row in more)
        numbers.update(row.pgid for row in more)
    return list(found.values())
