"""The stub: keeps one process tree, and is the last of it to leave. Part of the keepers' program.

It is the subreaper of its tree, so a process of the tree that loses its parent becomes the stub's child, wherever it hid
(double fork, setsid). `waitpid` saying ECHILD to the stub is therefore the kernel's word that nothing of the tree is left.

Told on the channel: `started` with pid, start time and pidfd inode of leader and stub; `failed ERRNO STAGE`; `alone WHY`, if the
tree has no control group; `exit STATUS`; `stuck PIDS`; `crowded COUNT`; `gone`. Heard: `end SECONDS`, after which the tree has that
long between SIGTERM and SIGKILL. When the channel or the owner is gone the tree is killed at once.
"""

import _ctypes
import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import resource
import select
import sys
import time

from holdfast.resources import _cgroup
from holdfast.resources._below import children, count_tasks, identity, is_alive, rings, rings_first, signal_trees

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
RLIMIT_LOCKS = 10  # not enforced by Linux since 2.4; survives fork, exec, setsid and `env -i`, so it can carry a tag
IGNORED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2)
FDS = 5  # with an order: channel, spec, stdin, stdout, stderr
LINGER_SECONDS = 0.5
"""How long a leader waits for an order."""
ROUND_SECONDS = 0.02
COUNT_SECONDS = 0.2
STUCK_SECONDS = 2.0


class _UnsignedLong(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "L"


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL
    _restype_ = _Int


_itself: str = None  # type: ignore[assignment]  # what this program is linked with
_prctl = _Function(_ctypes.dlsym(_ctypes.dlopen(_itself, 0), "prctl"))


def prctl(option: int, value: int) -> None:
    zero = _UnsignedLong(0)
    if _prctl(_Int(option), _UnsignedLong(value), zero, zero, zero) != 0:
        raise OSError(22, f"prctl {option}")


class Bell:
    """Rings when a child ends: a pipe that SIGCHLD writes to, so that one poll sees children and sockets."""

    def __init__(self) -> None:
        self.fd, self._end = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._end, False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)

    def quiet(self) -> None:
        try:
            while os.read(self.fd, 4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        _signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._end)


# -- the leader --------------------------------------------------------------------------------------------------------


class Leader:
    """The first process of a tree to be, as its stub sees it: forked ahead, it takes the order and runs the command."""

    def __init__(self, control: _socket.socket, places: list[str]) -> None:
        self.starting, writer = os.pipe()
        """Ends when the command runs, or says why not."""
        self.link, theirs = _socketpair()
        parent = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            become_leader(control, theirs, writer, parent, places)
        os.close(writer)
        theirs.close()

    def await_order(self, owner: int) -> tuple[_socket.socket, dict[str, object]] | None:
        """The channel and what to run; None if nothing was ordered for so long that the leader left, or the owner did."""
        if rings_first(self.link.fileno(), owner) == owner:
            return None
        message, handles = receive(self.link, 2)
        self.link.close()
        return (open_socket(handles[0]), read_spec(handles[1])) if message else None


def become_leader(control: _socket.socket, link: _socket.socket, writer: int, parent: int, places: list[str]) -> None:
    """In the child: never returns."""
    stage = ["session"]
    try:
        stand_ready(parent)
        if rings(control.fileno(), LINGER_SECONDS):
            message, handles = receive(control, FDS)
            if message:
                send_handles(link, handles[:2])
                run_command(open_socket(handles[0]), read_spec(handles[1]), handles[2:], stage, places)
    except (OSError, ValueError) as error:
        os.write(writer, f"failed {getattr(error, 'errno', 22)} {stage[0]}".encode())
    finally:
        os._exit(127)


def stand_ready(parent: int) -> None:
    """All that can be done before it is known what to run."""
    os.setsid()
    prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel knew that we want to follow it
        os._exit(127)
    for number in (*IGNORED, _signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])


def run_command(
    channel: _socket.socket,
    spec: dict,  # type: ignore[type-arg]
    stdio: list[int],
    stage: list[str],
    places: list[str],
) -> None:
    stage[0] = "tag"
    resource.setrlimit(RLIMIT_LOCKS, (spec["tag"], resource.getrlimit(RLIMIT_LOCKS)[1]))
    try:
        _cgroup.enter(places, spec["tag"])
    except OSError as error:
        tell(channel, "alone", error)
    if not spec["privileges"]:
        stage[0] = "privileges"
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    for target, handle in enumerate(stdio):
        os.dup2(handle, target)
    stage[0] = "cwd"
    os.chdir(spec["cwd"])
    stage[0] = "command"
    os.execvpe(spec["argv"][0], with_options(spec["argv"], spec["options"]), spec["env"])


def with_options(argv: list[bytes], options: bytes) -> list[bytes]:
    """Have a wrapper read its options from a file that only it has."""
    if not options:
        return argv
    handle = os.memfd_create("holdfast-options", 0)
    os.write(handle, options)
    os.lseek(handle, 0, os.SEEK_SET)
    return [argv[0], b"--args", b"%d" % handle, *argv[1:]]


# -- the stub ----------------------------------------------------------------------------------------------------------


class Stub:
    """Keeps one tree."""

    def __init__(self, leader: Leader, owner: int, places: list[str]) -> None:
        os.setsid()
        self.leader = leader.pid
        self.starting = leader.starting
        self.owner = owner
        self.places = places
        self.bell = Bell()  # no end of a child is missed: `serve` looks first
        self.deadline = 0.0
        """When SIGKILL follows; 0 while nobody asked for the end."""
        self.orphaned = False
        self.reaped = 0
        self.me = identity(os.getpid())
        self.poll = select.poll()
        for handle in (self.bell.fd, self.starting, owner):
            self.poll.register(handle, select.POLLIN)

    def take_order(self, channel: _socket.socket, spec: dict[str, object]) -> None:
        """Learn which tree this is."""
        name_process(b"holdfast-stub")
        self.channel = channel
        self.wrapper = self.leader if spec["options"] else 0
        """What stands between us and the tree, takes SIGTERM for SIGKILL to all inside, and leaves when they do."""
        self.most: int = spec["most"]  # type: ignore[assignment]
        """How many tasks the tree may have, where the kernel does not see to it; 0 for any number."""
        self.tag: int = spec["tag"]  # type: ignore[assignment]
        self.groups = [f"{place}/{_cgroup.group_name(self.tag)}" for place in self.places]
        """Where the tree's control group is, if it has one."""
        self.poll.register(channel, select.POLLIN)

    def serve(self) -> None:
        """Keep the tree until nothing is left of it."""
        while not self.nothing_left():
            if self.orphaned or self.overdue() or self.crowded():
                self.clear()
                break
            self.listen(self.patience())
        for group in self.groups:
            _cgroup.remove(group)
        self.tell("gone")

    def overdue(self) -> bool:
        return bool(self.deadline) and time.monotonic() >= self.deadline

    def crowded(self) -> bool:
        count = count_tasks(os.getpid()) if self.most else 0
        if count > self.most:
            self.tell("crowded", count)
        return count > self.most

    def patience(self) -> float | None:
        if self.deadline:
            return max(0.0, self.deadline - time.monotonic()) * 1000
        return COUNT_SECONDS * 1000 if self.most else None

    def listen(self, patience: float | None) -> None:
        rung = [handle for handle, _ in self.poll.poll(patience)]
        if self.bell.fd in rung:
            self.bell.quiet()
        if self.starting in rung:
            self.hear_start()
        if self.owner in rung:
            self.orphaned = True
        elif self.channel.fileno() in rung:
            self.hear_owner()

    def hear_start(self) -> None:
        problem = os.read(self.starting, 256)
        self.poll.unregister(self.starting)
        os.close(self.starting)
        self.starting = -1
        if problem:
            self.tell(problem.decode())
        else:
            self.tell("started", *identity(self.leader), *self.me)

    def hear_owner(self) -> None:
        try:
            message = self.channel.recv(64).split()
        except OSError:
            message = []
        if message:
            deadline = time.monotonic() + float(message[1])
            self.deadline = min(deadline, self.deadline or deadline)
            signal_trees(_signal.SIGTERM, children(os.getpid()), self.wrapper)
        else:
            self.orphaned = True

    def nothing_left(self) -> bool:
        """Reap whatever has ended. True once the kernel says that there is nobody left to wait for."""
        if self.starting >= 0 and is_alive(self.starting):
            return False  # the leader has not come as far as its command
        if self.starting >= 0:
            self.hear_start()
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return False
                self.reaped += 1
                if pid == self.leader:
                    self.tell("exit", status)
        except ChildProcessError:
            return True

    def clear(self) -> None:
        """Kill until nothing is left."""
        pause = ROUND_SECONDS
        since, seen = time.monotonic(), -1
        for group in self.groups:
            _cgroup.kill(group, self.tag)
        while True:
            signal_trees(_signal.SIGKILL, children(os.getpid()))
            if self.nothing_left():
                return
            if self.reaped != seen:
                since, seen = time.monotonic(), self.reaped
            elif time.monotonic() - since > STUCK_SECONDS and pause < STUCK_SECONDS:
                pause = STUCK_SECONDS  # go on trying, but without haste
                self.tell("stuck", *children(os.getpid()))
            if rings(self.bell.fd, pause):
                self.bell.quiet()

    def tell(self, *words: object) -> None:
        tell(self.channel, *words)


def tell(channel: _socket.socket, *words: object) -> None:
    try:
        channel.send(" ".join(map(str, words)).encode())
    except OSError:  # nobody listens any more
        return


def name_process(name: bytes) -> None:
    """What `ps` shows, so that a person knows what these are."""
    handle = os.open("/proc/self/comm", os.O_WRONLY)
    try:
        os.write(handle, name)
    finally:
        os.close(handle)


# -- sockets -----------------------------------------------------------------------------------------------------------


def _socketpair() -> tuple[_socket.socket, _socket.socket]:
    mine, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    return mine, theirs


def open_socket(handle: int) -> _socket.socket:
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fileno=handle)


def receive(sock: _socket.socket, most: int) -> tuple[bytes, list[int]]:
    """A message and the files that came with it."""
    message, extra, _, _ = sock.recvmsg(16, _socket.CMSG_SPACE(4 * most), _socket.MSG_CMSG_CLOEXEC)
    data = b"".join(part for _, _, part in extra)
    return message, [int.from_bytes(data[i : i + 4], sys.byteorder) for i in range(0, len(data), 4)]


def send_handles(sock: _socket.socket, handles: list[int]) -> None:
    data = b"".join(handle.to_bytes(4, sys.byteorder) for handle in handles)
    sock.sendmsg([b"taken"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, data)])


def read_spec(handle: int) -> dict[str, object]:
    """What to run. Two processes read the same file, so neither moves its position."""
    data = os.pread(handle, os.fstat(handle).st_size, 0)
    os.close(handle)
    return marshal.loads(data)  # type: ignore[no-any-return]
