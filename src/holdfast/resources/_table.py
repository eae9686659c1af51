"""The process table: that of Linux is read from /proc and acted on through pidfds."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from errno import EMFILE, ENFILE, ENOMEM
from functools import cache
from hashlib import sha256
from pathlib import Path

from holdfast.errors import PlatformError
from holdfast.ports import Place, ProcessIdentity, ProcessTable, ProcessUse
from holdfast.resources._cgroup import holds
from holdfast.resources._platform import is_portable
from holdfast.resources._portable_table import PortableProcessTable

PROC = Path("/proc")
MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_LOCKS = b"Max file locks"
LACKS = (EMFILE, ENFILE, ENOMEM)
"""Errors that say nothing of a process: it could not be looked at."""
_PIDFS = (6, 9)
"""Since this kernel the inode of a pidfd is its process's own."""


class SystemProcessTable:
    """The `ProcessTable` of this machine."""

    def __init__(self) -> None:
        self._system: ProcessTable = PortableProcessTable() if is_portable() else LinuxProcessTable()

    def place(self) -> Place:
        return self._system.place()

    def identify(self, pid: int) -> ProcessIdentity | None:
        return self._system.identify(pid)

    def carriers(self, tag: int) -> list[int]:
        return self._system.carriers(tag)

    def kill_carrier(self, pid: int, tag: int) -> bool:
        return self._system.kill_carrier(pid, tag)

    def tree(self, pid: int) -> list[ProcessUse]:
        return self._system.tree(pid)


class LinuxProcessTable:
    """By /proc and pidfds: no stranger is ever hit. Raises OSError for want of files or memory: then nobody is taken for dead."""

    def place(self) -> Place:
        return _place()

    def identify(self, pid: int) -> ProcessIdentity | None:
        """A process that has ended but was not waited for counts as gone."""
        handle = _open(pid)
        if handle is None:
            return None
        try:
            started = _started(pid)
            inode = os.fstat(handle).st_ino if has_pidfs() else 0
            # Alive after the look: the number was its own all the while.
            return ProcessIdentity(_place(), pid, started, inode) if _is_alive(handle) else None
        except OSError as error:
            _check_lack(error)
            return None
        finally:
            os.close(handle)

    def carriers(self, tag: int) -> list[int]:
        return [int(entry) for entry in os.listdir(PROC) if entry.isdigit() and _carries(int(entry), tag)]

    def kill_carrier(self, pid: int, tag: int) -> bool:
        handle = _open(pid)
        if handle is None:
            return False
        try:
            if not _carries(pid, tag) or not _is_alive(handle):
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return True
        except OSError:  # gone just now, or not ours to kill: the next look tells which
            return False
        finally:
            os.close(handle)

    def tree(self, pid: int) -> list[ProcessUse]:
        found: list[ProcessUse] = []
        waiting = _children(pid)
        while waiting:
            child = waiting.pop(0)
            waiting += _children(child)
            if (use := _use(child)) is not None:
                found.append(use)
        return found


def this_process() -> ProcessIdentity:
    """Who we are. Raises PlatformError where the system does not say."""
    found = SystemProcessTable().identify(os.getpid())
    if found is None:
        raise PlatformError("the system does not show this process: mount /proc, or use no resources")
    return found


@cache
def has_pidfs() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int("".join(filter(str.isdigit, minor)) or 0)) >= _PIDFS


@cache
def _place() -> Place:
    boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return Place(_machine(), boot, os.readlink(PROC / "self/ns/pid"))


def _machine() -> str:
    """Its name, and a digest of its id: machines may share a ledger and a name, and another boot must not look like a restart."""
    name = os.uname().nodename
    for path in MACHINE_IDS:
        with suppress(OSError):
            return f"{name} {sha256(path.read_bytes().strip()).hexdigest()[:12]}"
    return name


def _open(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        _check_lack(error)
        return None


def _check_lack(error: OSError) -> None:
    """Raise an error that does not mean that a process is gone."""
    if error.errno in LACKS:
        raise error


def _is_alive(handle: int) -> bool:
    poll = select.poll()  # unlike select(), at home with large numbers
    poll.register(handle, select.POLLIN)
    return not poll.poll(0)


def _stat(pid: int) -> list[bytes]:
    """State, parent and so on: what follows the name, which may hold anything."""
    return (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()


def _started(pid: int) -> int:
    return int(_stat(pid)[19])


def _carries(pid: int, tag: int) -> bool:
    """Whether it lives, and has the tag as its soft limit on file locks, which Linux does not enforce, or is in the tag's group."""
    try:
        return (_locks(pid) == b"%d" % tag or holds(pid, tag)) and _stat(pid)[0] not in b"ZX"
    except OSError as error:
        _check_lack(error)
        return False


def _locks(pid: int) -> bytes:
    lines = (PROC / str(pid) / "limits").read_bytes().splitlines()
    return next((line.split()[3] for line in lines if line.startswith(_LOCKS)), b"")


def _children(pid: int) -> list[int]:
    try:
        tasks = list((PROC / str(pid) / "task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _use(pid: int) -> ProcessUse | None:
    try:
        if _stat(pid)[0] in b"ZX":
            return None
        return ProcessUse(pid, (PROC / str(pid) / "comm").read_text().strip(), _memory(pid))
    except OSError:
        return None


def _memory(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_bytes().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:"))
    except (OSError, StopIteration):  # another user's: what it occupies must do
        return int((PROC / str(pid) / "statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
