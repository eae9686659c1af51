"""The process table where there are neither /proc nor pidfds: `ps`, and a look right before each signal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from functools import cache
from hashlib import sha256

from holdfast.errors import PlatformError
from holdfast.ports import Place, ProcessIdentity, ProcessUse
from holdfast.resources._portable_ps import Row, find_family, read_rows

IOREG = ("/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
"""What knows a Mac's own number."""
_NUMBER = re.compile(rb'"IOPlatformUUID" = "([^"]+)"')


class PortableProcessTable:
    """A `ProcessTable` from `ps`. A process is told from a later one with its pid by the second it started in, and numbers go round
    more slowly than that. Raises PlatformError if `ps` does not answer: then nobody is taken for dead.
    """

    def place(self) -> Place:
        return _place()

    def identify(self, pid: int) -> ProcessIdentity | None:
        row = next((row for row in _rows() if row.pid == pid), None)
        return ProcessIdentity(_place(), pid, row.started) if row is not None else None

    def carriers(self, tag: int) -> list[int]:
        """Those that show the mark, and whoever is in their groups or below them."""
        return [row.pid for row in find_family(_rows(), set(), tag)]

    def kill_carrier(self, pid: int, tag: int) -> bool:
        if pid not in self.carriers(tag):
            return False
        with suppress(OSError):  # gone just now, or not ours to kill: the next look tells which
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def tree(self, pid: int) -> list[ProcessUse]:
        """The tree that `pid` leads or led: one keeper has many trees here, so a leader's number stands for its keeper's."""
        rows = _rows()
        tag = next((row.tag for row in rows if row.tag and pid in (row.pid, row.pgid)), 0)
        found = sorted(find_family(rows, {pid}, tag), key=lambda row: row.pid != pid)
        return [_use(row) for row in found]


def _rows() -> list[Row]:
    try:
        return read_rows()
    except OSError as error:
        raise PlatformError(f"nothing can be said of processes: {error}; see that /bin/ps works here") from error


def _use(row: Row) -> ProcessUse:
    return ProcessUse(row.pid, row.name, row.memory)


@cache
def _place() -> Place:
    """The boot is known by the start of the first process."""
    boot = next((row.started for row in _rows() if row.pid == 1), 0)
    return Place(_machine(), f"first process of {boot}", "")


def _machine() -> str:
    """Other than what /proc makes of the same machine: its boots have other names, and none must look like a restart."""
    found = None
    with suppress(OSError, subprocess.SubprocessError):
        found = _NUMBER.search(subprocess.run(IOREG, capture_output=True, timeout=10, check=False).stdout)
    number = sha256(found[1]).hexdigest()[:12] if found else "unnumbered"
    return f"{os.uname().nodename} {number}"
