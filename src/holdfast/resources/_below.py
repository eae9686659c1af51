"""Processes below this one: found in /proc, and signalled so that no stranger is ever hit.

Part of the keepers' program: few modules, on purpose.
"""

import _signal  # type: ignore[import-not-found]
import os
import select


def children(pid: int) -> list[int]:
    """Those a process forked or adopted, by any of its threads; none if it is gone."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, read_file(f"/proc/{pid}/task/{task}/children").split())
    except OSError:
        return found
    return found


def stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat after the name, which may hold anything: state, parent, …"""
    return read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def identity(pid: int) -> tuple[int, int, int]:
    """Pid, start time and pidfd inode of a child that was not reaped, or of this process."""
    handle = os.pidfd_open(pid)
    inode = os.fstat(handle).st_ino
    os.close(handle)
    return pid, int(stat(pid)[19]), inode


def is_alive(handle: int) -> bool:
    """Whether nothing is to be heard of a pidfd or a pipe yet."""
    return not rings(handle, 0)


def rings(handle: int, seconds: float) -> bool:
    poll = select.poll()  # select() breaks at file 1024
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def rings_first(one: int, other: int, seconds: float) -> int:
    """Wait for either; which it was, the second if both, -1 if neither."""
    poll = select.poll()
    poll.register(one, select.POLLIN)
    poll.register(other, select.POLLIN)
    rung = [handle for handle, _ in poll.poll(seconds * 1000)]
    return other if other in rung else one if rung else -1


def open_child(parent: int, parent_handle: int, pid: int) -> int:
    """A pidfd of `pid` if it is proved to be a child of `parent`, else -1."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return -1
    try:
        # Its pidfd and its parent's are alive after the look: neither number was given to a stranger meanwhile.
        if int(stat(pid)[1]) == parent and is_alive(handle) and is_alive(parent_handle):
            return handle
    except OSError:
        pass
    os.close(handle)
    return -1


def signal_trees(number: int, roots: list[int], spared: int = 0) -> None:
    """Signal children of this process and all below them, one spared. What is missed in the rush is our child the next time."""
    me = os.getpid()
    mine = os.pidfd_open(me)
    waiting = [(pid, open_child(me, mine, pid)) for pid in roots]
    os.close(mine)
    while waiting:
        pid, handle = waiting.pop()
        if handle >= 0:
            waiting += [(child, open_child(pid, handle, child)) for child in children(pid)]
            if pid != spared:
                send(handle, number)
            os.close(handle)


def count_tasks(pid: int) -> int:
    """How many processes and threads there are below one."""
    count, waiting = 0, children(pid)
    while waiting:
        child = waiting.pop()
        waiting += children(child)
        try:
            count += len(os.listdir(f"/proc/{child}/task"))
        except OSError:  # it is gone
            continue
    return count


def send(handle: int, number: int) -> None:
    try:
        _signal.pidfd_send_signal(handle, number)
    except OSError:  # it is gone, or another user's: `stuck` tells of those
        return


def read_file(path: str) -> bytes:
    return read_out(os.open(path, os.O_RDONLY))


def read_out(handle: int) -> bytes:
    """All there is to read; closes it."""
    try:
        parts = []
        while part := os.read(handle, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(handle)
