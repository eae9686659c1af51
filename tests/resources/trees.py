"""Process trees, well-behaved and hostile. Each writes `ready` once it stands."""

from __future__ import annotations

import fcntl
import os
import resource
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.resources import Command, Keeper, KeptProcess
from holdfast.resources._platform import is_portable
from holdfast.testing._audit import ProcessLeft, started_here, wait_for_the_end

CHAIN = "sh -c 'sleep 1000 & echo ready; wait' ; :"
"""wrapper → adapter → child"""
_HEAVY = 'x = bytes([1]) * (8 << 20); print("ready", flush=True); input()'
HEAVY_CHAIN = f"sh -c {shlex.quote(f'{sys.executable} -I -S -c {shlex.quote(_HEAVY)}; :')}; :"
"""the same, with a child that takes eight megabytes"""
DOUBLE_FORK = "(sh -c 'sleep 1000 & echo ready; wait' &) ; exec cat"
SETSID = "(setsid sh -c '(setsid sleep 1000 &) ; echo ready; sleep 1000' &) ; exec cat"
IGNORES_TERM = "trap '' TERM; sleep 1000 & echo ready; sleep 1000; wait"
LEADER_EXITS = "(setsid sleep 1000 &) ; sleep 1000 & echo ready"
CLEAN_ENV = "env -i /bin/sh -c '(setsid /bin/sleep 1000 &) ; echo ready; /bin/sleep 1000'"
STDOUT_FLOOD = "echo ready; exec yes"
STDERR_FLOOD = "yes >&2 & echo ready; wait"
HOPPER = f"{sys.executable} -I -S {Path(__file__).with_name('hopper.py')}"
"""four processes that fork and leave, again and again: no pid stays"""

HOSTILE = {
    "chain": CHAIN,
    "double_fork": DOUBLE_FORK,
    "setsid": SETSID,
    "ignores_term": IGNORES_TERM,
    "leader_exits": LEADER_EXITS,
    "clean_env": CLEAN_ENV,
    "stdout_flood": STDOUT_FLOOD,
    "stderr_flood": STDERR_FLOOD,
    "hopper": HOPPER,
}
if is_portable():  # neither is promised there: see `tests.resources.portable`
    del HOSTILE["clean_env"], HOSTILE["hopper"]


def shell(script: str) -> Command:
    return Command(("/bin/sh", "-c", script))


async def plant(keeper: Keeper, script: str) -> KeptProcess:
    """Start a tree and wait until it stands."""
    process = await keeper.spawn(shell(script))
    assert (await process.readline()) == b"ready\n"
    return process


@contextmanager
def program_that_does_not_open(folder: Path) -> Iterator[Path]:
    """Whoever runs it waits, as for a file system that does not answer: we have a lease on it, and do not give it back."""
    path = folder / "program"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    with path.open() as file:
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)  # asked for it back, we do nothing
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield path


@contextmanager
def no_file_is_left() -> Iterator[None]:
    """Whatever would open a file, or a pidfd, fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    except OSError:
        return False


def left(keeper: Keeper) -> list[ProcessLeft]:
    """What is left besides the zygote, once stubs that said `gone` have left too."""
    keeper._idle.hang_up()  # the loop, on which it would happen soon, stands still here
    return wait_for_the_end({found for found in started_here() if found.pid == keeper.pid}, patience=10)
