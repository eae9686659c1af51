"""The keeper for systems without subreapers and pidfds: one program for all trees of an owner, using only what every Unix has.

Each tree begins in a session of its own. A look at `ps` now and then tells which groups are the tree's by now: whoever is below one
of its processes brings its group in, and so does whoever shows the tree's mark. Signals go to these groups. What leaves its parent
and its session between two looks and hides its mark is lost: nothing here can adopt it.

It speaks as the stubs of Linux do (`_stub`), in lines. The owner is gone when the control socket ends, or when this program has
another parent: a fork of the owner may hold the socket.
"""

import marshal
import mmap
import os
import select
import signal
import socket
import subprocess
import time

from holdfast.resources._portable_channel import Lines
from holdfast.resources._portable_ps import MARK, Row, find_family, read_rows

HEEDLESS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ORDER, FDS = 5, 5
"""Bytes of an order, and what comes with it: channel, spec, stdin, stdout, stderr."""
TICK_SECONDS = 1.0
ROUND_SECONDS = 0.02
STUCK_SECONDS = 2.0
SHARE_CALM, SHARE_BUSY = 50, 2
"""A look costs what it costs: so many times longer is the pause after it, while nothing happens and while a tree ends."""
CLEAN_LOOKS = 2


class Tree:
    """The groups of one command, and who asked for it."""

    def __init__(self, channel: Lines, tag: int, leader: "subprocess.Popen[bytes]") -> None:
        self.channel = channel
        self.tag = tag
        self.leader = leader
        self.numbers = {leader.pid}
        """Of all that was seen at the last look, and of their groups: a process that begins a group gives it its own number."""
        self.members: list[Row] = []
        self.is_told = False
        self.has_exited = False
        self.is_pressing = True
        """Whether it must be looked at now: it is new, its leader left, or someone asked for its end."""
        self.is_orphaned = False
        self.deadline = 0.0
        """When SIGKILL follows; 0 while nobody asked for the end."""
        self.is_warned = False
        self.clean = 0
        self.since, self.seen = 0.0, set[int]()
        self.is_stuck = False

    @property
    def is_ending(self) -> bool:
        return bool(self.deadline)

    @property
    def is_urgent(self) -> bool:
        """Whether it should be looked at soon."""
        return self.is_ending or not self.is_told or (self.has_exited and self.clean > 0)

    @property
    def is_gone(self) -> bool:
        return self.has_exited and self.clean >= CLEAN_LOOKS

    def look(self, rows: list[Row]) -> None:
        self.members = find_family(rows, self.numbers, self.tag)
        self.numbers = {number for row in self.members for number in (row.pid, row.pgid)}
        if not self.has_exited:
            self.numbers.add(self.leader.pid)
        self.clean = 0 if self.members else self.clean + 1
        if not self.is_told:
            self.tell_start()

    def tell_start(self) -> None:
        """The leader's identity stands for its keeper's too: see `PortableProcessTable.tree`."""
        pid = self.leader.pid
        started = next((row.started for row in self.members if row.pid == pid), int(time.time()))
        self.is_told = True
        self.tell("started", pid, started, 0, pid, started, 0)

    def reap(self) -> None:
        if self.has_exited or not self.is_told or (code := self.leader.poll()) is None:
            return
        self.has_exited = self.is_pressing = True
        self.tell("exit", code << 8 if code >= 0 else -code)  # as `wait` says it

    def hear(self) -> None:
        try:
            message = self.channel.recv(64).split()
        except BlockingIOError:
            return
        except OSError:
            message = []
        self.is_orphaned = not message
        self.end(float(message[1]) if message else 0)

    def end(self, grace: float) -> None:
        """SIGTERM now, SIGKILL after the grace. The shorter one counts."""
        deadline = time.monotonic() + grace
        self.deadline = min(deadline, self.deadline or deadline)
        self.is_pressing = True

    def act(self) -> None:
        """What its end asks for, right after a look: what was seen a while ago may be a stranger's number by now."""
        now = time.monotonic()
        if self.is_ending and now >= self.deadline:
            self.signal(signal.SIGKILL)
            self.watch_the_dying(now)
        elif self.is_ending and not self.is_warned:
            self.is_warned = True
            self.signal(signal.SIGTERM)

    def watch_the_dying(self, now: float) -> None:
        pids = {row.pid for row in self.members}
        if pids != self.seen:
            self.since, self.seen = now, pids
        elif pids and now - self.since > STUCK_SECONDS and not self.is_stuck:
            self.is_stuck = True
            self.tell("stuck", *sorted(pids))

    def signal(self, number: int) -> None:
        for group in {row.pgid for row in self.members} - {os.getpgrp()}:
            try:
                os.killpg(group, number)
            except OSError:  # it is gone, or another user's: `stuck` tells of those
                continue

    def tell(self, *words: object) -> None:
        try:
            self.channel.send(" ".join(map(str, words)).encode())
        except OSError:  # nobody listens any more
            return


class PortableKeeper:
    """Starts trees, looks after them, and leaves when the owner is gone and all of them are."""

    def __init__(self, control: socket.socket, owner: int) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in (*HEEDLESS, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)  # unlike SIG_IGN, not passed on to what is started
        self.control = control
        self.owner = owner
        self.is_serving = True
        self.trees: list[Tree] = []
        self.bell, end = os.pipe()
        for handle in (self.bell, end):
            os.set_blocking(handle, False)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        control.setblocking(False)
        self.looked = 0.0
        self.took = 0.0

    def serve(self) -> None:
        while self.is_serving or self.trees:
            self.listen(self.patience())
            if self.is_serving and os.getppid() != self.owner:
                self.leave()
            for tree in self.trees:
                tree.reap()
            if self.trees and self.patience() <= 0:
                self.look()

    # -- when ------------------------------------------------------------------------------------------------------

    def patience(self) -> float:
        """Seconds until the next look, or until it is time to see whether the owner lives."""
        if not self.trees:
            return TICK_SECONDS
        now = time.monotonic()
        pauses = [self.looked + self.pause(tree) - now for tree in self.trees]
        pauses += [tree.deadline - now for tree in self.trees if tree.is_ending and tree.deadline > self.looked]
        return max(0.0, min(TICK_SECONDS, *pauses))

    def pause(self, tree: Tree) -> float:
        if tree.is_pressing:
            return 0.0
        if tree.is_urgent and not tree.is_stuck:
            return max(ROUND_SECONDS, SHARE_BUSY * self.took)
        return max(TICK_SECONDS, SHARE_CALM * self.took)

    # -- what comes in ---------------------------------------------------------------------------------------------

    def listen(self, seconds: float) -> None:
        poll = select.poll()  # select() breaks at file 1024
        by_handle = {tree.channel.fileno(): tree for tree in self.trees if not tree.is_orphaned}
        for handle in (self.bell, *by_handle, *([self.control.fileno()] if self.is_serving else [])):
            poll.register(handle, select.POLLIN)
        for handle, _ in poll.poll(seconds * 1000):
            if handle in by_handle:
                by_handle[handle].hear()
            elif handle == self.bell:
                os.read(self.bell, 4096)
            else:
                self.take_orders()

    def take_orders(self) -> None:
        """All there are, so that one look serves them all."""
        while self.is_serving:
            handles: list[int] = []
            try:
                message, handles, _, _ = socket.recv_fds(self.control, ORDER, FDS)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self.leave()
            elif len(handles) == FDS:
                self.start(handles)
            else:  # no room for them here: the owner sees its channel end
                close(handles)

    def start(self, handles: list[int]) -> None:
        channel = Lines(fileno=handles[0])
        channel.setblocking(False)
        with mmap.mmap(handles[1], os.fstat(handles[1]).st_size, prot=mmap.PROT_READ) as memory:
            spec = marshal.loads(memory)
        try:
            self.trees.append(Tree(channel, spec["tag"], start_leader(spec, handles[2:])))
        except (OSError, ValueError) as error:
            stage = "cwd" if getattr(error, "filename", None) == spec["cwd"] else "command"
            channel.send(f"failed {getattr(error, 'errno', 22)} {stage}".encode())
            channel.send(b"gone 0")
            channel.close()
        close(handles[1:])

    def leave(self) -> None:
        """The owner is gone: so shall be all it had."""
        self.is_serving = False
        self.control.close()
        for tree in self.trees:
            tree.end(0)

    # -- what is done ----------------------------------------------------------------------------------------------

    def look(self) -> None:
        began = time.monotonic()
        try:
            rows = read_rows()
        except OSError:  # no room for another process just now: nothing is known, so nothing is said
            rows = []
        self.looked = time.monotonic()
        self.took = self.looked - began
        for tree in self.trees:
            tree.is_pressing = False
            if rows:
                tree.look(rows)
                tree.act()
        for tree in [tree for tree in self.trees if tree.is_gone]:
            tree.tell("gone", self.looked)
            tree.channel.close()
            self.trees.remove(tree)


def start_leader(spec: dict, stdio: list[int]) -> "subprocess.Popen[bytes]":  # type: ignore[type-arg]
    """Start the first process of a tree. Raises OSError with the folder or the program as its file name, or ValueError."""
    mark = os.fsencode(MARK)
    env = {mark: b"%d" % spec["tag"]} | {name: value for name, value in spec["env"].items() if name != mark}
    stdin, stdout, stderr = stdio
    return subprocess.Popen(
        spec["argv"], stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=spec["cwd"], start_new_session=True
    )


def close(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)


def main(control: int, owner: int) -> None:
    os.set_inheritable(control, False)
    PortableKeeper(socket.socket(fileno=control), owner).serve()
