"""Which process holds a run, so that another on the same machine can tell that it is dead."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from msgspec import Struct


class Owner(Struct, frozen=True):
    """One process, told apart from a later one with the same pid where the system lets us."""

    boot: str
    """the boot of the machine and the process namespace in it: pids mean something only there"""
    pid: int
    started: str

    @classmethod
    def this_process(cls) -> Owner:
        return _this_process(os.getpid())

    def is_dead(self) -> bool:
        """True only if it certainly is: another machine may know better than we, and nothing is known without /proc or for want
        of files."""
        if not self.boot or not self.started or self.boot != _boot_id():
            return False
        return _start_time(self.pid) not in (self.started, None)

    def is_another_alive(self) -> bool:
        """True if it certainly is: a process of this machine, other than this one, that still runs."""
        mine = self.boot and self.boot == _boot_id() and self.pid != os.getpid()
        return bool(mine) and _start_time(self.pid) == self.started


@functools.lru_cache(1)  # it does not change, and /proc costs a fifth of a small job
def _this_process(pid: int) -> Owner:
    return Owner(_boot_id(), pid, _start_time(pid) or "")


def _boot_id() -> str:
    """This boot of this machine; empty where the system does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    """When a process started, in the kernel's own clock; empty if there is none, None if that cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except OSError:
        return None
    after_name = stat.rpartition(")")[2].split()
    return "" if after_name[0] in ("Z", "X") else after_name[19]
