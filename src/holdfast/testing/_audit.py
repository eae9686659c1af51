"""The process table before and after: who is left."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from holdfast.errors import PlatformError

PROC = Path("/proc")
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37


class ProcessLeft(Struct, frozen=True):
    """A process that should be gone."""

    pid: int
    started: int
    command: str


@contextmanager
def process_audit(patience: float = 10.0) -> Iterator[None]:
    """Raise AssertionError if the block leaves a process behind, at any depth, wherever it hid.

    Within the block this process adopts whatever loses its parent, so daemons are found too; what others on the machine start is
    not looked at. What is about to end gets `patience` seconds. What is left is killed, so that the next test starts clean.
    Linux only.
    """
    if sys.platform != "linux":
        raise PlatformError("process_audit() needs Linux: it adopts orphans to find them. Skip the check elsewhere.")
    adopting = _adopting()
    before = set(started_here())
    _adopt(True)
    try:
        yield
        left = wait_for_the_end(before, patience)
    finally:
        while strays := set(started_here()) - before:
            for found in strays:
                _kill(found.pid)
        _reap(before)
        _adopt(adopting)
    if left:
        raise AssertionError(f"left behind: {'; '.join(f'{found.pid} {found.command}' for found in left)}")


def started_here() -> list[ProcessLeft]:
    """Every live process below this one."""
    found: list[ProcessLeft] = []
    waiting = _children(os.getpid())
    while waiting:
        pid = waiting.pop()
        waiting += _children(pid)
        with suppress(OSError):
            fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
            command = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if fields[0] not in b"ZX":
                found.append(ProcessLeft(pid, int(fields[19]), command.strip()[:120]))
    return found


def wait_for_the_end(before: set[ProcessLeft], patience: float) -> list[ProcessLeft]:
    """What is there now and was not before, once all of it has ended or the time is up."""
    deadline = time.monotonic() + patience
    while left := [found for found in started_here() if found not in before]:
        if time.monotonic() >= deadline:
            break
        outlast(left[0].pid, deadline - time.monotonic())
    return left


def outlast(pid: int, seconds: float) -> bool:
    """Wait for the end of any process, without polling. Says whether it came."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))
    finally:
        os.close(handle)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    outlast(pid, 1.0)


def _reap(before: set[ProcessLeft]) -> None:
    """Wait for those we adopted, or they stay as zombies. A test's own children are its own to wait for, but it is over."""
    known = {found.pid for found in before}
    for pid in _children(os.getpid()):
        if pid not in known:
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def _children(pid: int) -> list[int]:
    try:
        tasks = list((PROC / str(pid) / "task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _adopt(orphans: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(orphans), 0, 0, 0)


def _adopting() -> bool:
    answer = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)
