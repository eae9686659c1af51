"""The stub: keeps one process tree, and is the last of it to leave. Part of the keepers' program.

It is the subreaper of its tree, so a process of the tree that loses its parent becomes the stub's child, wherever it hid
(double fork, setsid). `waitpid` saying ECHILD to the stub is therefore the kernel's word that nothing of the tree is left.

Told on the channel: `started` with pid, start time and pidfd inode of leader and stub; `failed ERRNO STAGE`; `alone WHY`, if the
tree has no control group; `exit STATUS`; `stuck PIDS`; `crowded COUNT`; `gone SINCE`, by the monotonic clock, with the STATUS if
that was not told before. Heard: `end SECONDS`, after which the tree has that long between SIGTERM and SIGKILL. When the channel or
the owner is gone the tree is killed at once.
"""

import _ctypes
import _signal  # type: ignore[import-not-found]
import _socket
import fcntl
import marshal
import os
import resource
import select
import sys
import time

from holdfast.resources import _cgroup
from holdfast.resources._below import children, count_tasks, identity, read_file, rings, rings_first, signal_trees

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
MADV_DONTNEED = 4
RLIMIT_LOCKS = 10  # not enforced by Linux since 2.4; survives fork, exec, setsid and `env -i`, so it can carry a tag
IGNORED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2)
FDS = 5  # with an order: channel, spec, stdin, stdout, stderr
ROUND_SECONDS = 0.02
COUNT_SECONDS = 0.2
STUCK_SECONDS = 2.0
LONGEST_SECONDS = 3600.0
"""What poll() is given at once: it takes no more than some weeks, and a grace may be endless."""


class _UnsignedLong(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "L"


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL
    _restype_ = _Int


_itself: str = None  # type: ignore[assignment]  # what this program is linked with
_prctl = _Function(_ctypes.dlsym(_ctypes.dlopen(_itself, 0), "prctl"))
_madvise = _Function(_ctypes.dlsym(_ctypes.dlopen(_itself, 0), "madvise"))


def prctl(option: int, value: int) -> None:
    zero = _UnsignedLong(0)
    if _prctl(_Int(option), _UnsignedLong(value), zero, zero, zero) != 0:
        raise OSError(22, f"prctl {option}")


def forget_code() -> None:
    """Let go of the program text that only the start needed: it is in the kernel's cache, and what is used again comes back."""
    for line in read_file("/proc/self/maps").splitlines():
        where, rights, *_ = line.split()
        if rights == b"r-xp" and b"/" in line:  # of a file, and never written to: nothing is lost
            start, end = (int(number, 16) for number in where.split(b"-"))
            _madvise(_UnsignedLong(start), _UnsignedLong(end - start), _Int(MADV_DONTNEED))


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


class Leash:
    """What the first process of a tree is tied to us with: when we are gone, however that comes about, the kernel kills it.

    A pipe, of which the command gets neither end. That nobody writes to it any more is an event which the kernel reports to the
    command by the signal that was asked for, as long as somebody has it open for reading. When we die our files are closed in the
    order of their numbers, or in the opposite one: there is a reader on either side of the writer. `prctl` could do it without
    files, but only in the child itself, and a child that runs code of ours first takes a millisecond longer to start.
    """

    def __init__(self) -> None:
        low, self._writer = os.pipe()
        self._readers = [low, os.open(f"/proc/self/fd/{low}", os.O_RDONLY)]

    def tie(self, pid: int) -> None:
        for reader in self._readers:
            fcntl.fcntl(reader, fcntl.F_SETSIG, _signal.SIGKILL)
            fcntl.fcntl(reader, fcntl.F_SETOWN, pid)
            fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)

    def cut(self) -> None:
        """The tree is gone."""
        for handle in (*self._readers, self._writer):
            os.close(handle)


def start_leader(spec: dict, stdio: list[int], stage: list[str], leash: Leash) -> int:  # type: ignore[type-arg]
    """Run the command, in a session of its own. What it inherits must be ours meanwhile: privileges, folder, tag, group."""
    if not spec["privileges"]:
        stage[0] = "privileges"
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    stage[0] = "cwd"
    os.chdir(spec["cwd"])
    stage[0] = "command"
    options = hold_options(spec["options"])
    try:
        argv = [spec["argv"][0], *([b"--args", b"%d" % options] if options else []), *spec["argv"][1:]]
        pid = run_program(argv, spec["env"], stdio)
        leash.tie(pid)
    finally:
        if options:
            os.close(options)
        os.chdir("/")
    return pid


def hold_options(options: bytes) -> int:
    """A file that only the command has, from which a wrapper reads its options; 0 if there are none."""
    if not options:
        return 0
    handle = os.memfd_create("holdfast-options", 0)
    os.write(handle, options)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def run_program(argv: list[bytes], env: dict[bytes, bytes], stdio: list[int]) -> int:
    """Run the first that can be run of those that its own PATH leads to, as os.execvpe() does. Raises OSError if none can."""
    number = 2
    for path in find_programs(argv[0], env):
        try:
            return os.posix_spawn(
                path,
                argv,
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, handle, target) for target, handle in enumerate(stdio)],
                setsid=True,
                setsigmask=[],
                setsigdef=[*IGNORED, _signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGXFSZ],
            )
        except OSError as error:
            number = (error.errno or 22) if number == 2 else number  # what is there says more than what is not
    raise OSError(number, "cannot be run")


def find_programs(name: bytes, env: dict[bytes, bytes]) -> list[bytes]:
    """Where there is one of that name. To look first is quicker than to try each folder."""
    if b"/" in name:
        return [name]
    folders = env.get(b"PATH", os.defpath.encode()).split(b":")
    paths = [folder + b"/" + name if folder else name for folder in folders]
    return [path for path in paths if os.access(path, os.F_OK)]


# -- the stub ----------------------------------------------------------------------------------------------------------


class Stub:
    """Keeps one tree at a time."""

    def __init__(self, channel: _socket.socket, owner: int, places: list[str], zygote: int) -> None:
        os.setsid()
        self.channel = channel
        self.owner = owner
        self.zygote = zygote
        self.places = places
        self.bell = Bell()  # no end of a child is missed: `serve` looks first
        self.me = identity(os.getpid())
        self.locks = resource.getrlimit(RLIMIT_LOCKS)
        self.poll = select.poll()
        for handle in (self.bell.fd, owner, channel.fileno()):
            self.poll.register(handle, select.POLLIN)

    def take_order(self, spec: dict, stdio: list[int]) -> None:  # type: ignore[type-arg]
        """Start a tree."""
        prctl(PR_SET_PDEATHSIG, 0)
        name_process(b"holdfast-stub")
        self.leader = 0
        self.deadline = 0.0
        """When SIGKILL follows; 0 while nobody asked for the end."""
        self.orphaned = False
        self.reaped = 0
        self.status: int | None = None
        """How the leader ended, until that is told."""
        self.most: int = spec["most"]
        """How many tasks the tree may have, where the kernel does not see to it; 0 for any number."""
        self.rest: float = spec["rest"]
        """How long to wait for another order when the tree is gone. The owner sends none shortly before that is over."""
        self.tag: int = spec["tag"]
        self.groups = [f"{place}/{_cgroup.group_name(self.tag)}" for place in self.places]
        """Where the tree's control group is, if it has one."""
        stage = ["tag"]
        self.leash = Leash()
        try:
            self.leader = self.start(spec, stdio, stage)
            self.tell("started", *identity(self.leader), *self.me)
        except (OSError, ValueError) as error:
            self.tell("failed", getattr(error, "errno", 0) or 22, stage[0])
        for handle in stdio:
            os.close(handle)
        self.wrapper = self.leader if spec["options"] else 0
        """What stands between us and the tree, takes SIGTERM for SIGKILL to all inside, and leaves when they do."""

    def await_order(self) -> list[int]:
        """The files that come with another order; none if nothing is ordered for so long, or the owner or the zygote is gone."""
        name_process(b"holdfast-spare")
        if not self.has_zygote():
            return []
        while rings_first(self.channel.fileno(), self.owner, self.rest) == self.channel.fileno():
            try:
                message, handles = receive(self.channel, FDS)
            except OSError:
                return []
            if message.startswith(b"end"):  # that came too late
                continue
            if message and not handles:
                raise OSError(24, "too many open files")
            return handles
        return []

    def start(self, spec: dict, stdio: list[int], stage: list[str]) -> int:  # type: ignore[type-arg]
        """The leader is born with the tag and in the group of its tree. The group is ours for a moment; the tag as long as the tree
        is there, so that whoever has to do without us ends us with the tree."""
        resource.setrlimit(RLIMIT_LOCKS, (self.tag, self.locks[1]))
        place = ""
        try:
            place = _cgroup.enter(self.places, self.tag)
        except OSError as error:
            self.tell("alone", error)
        try:
            return start_leader(spec, stdio, stage, self.leash)
        finally:
            if place:
                _cgroup.leave(place)

    def serve(self) -> None:
        """Keep the tree until nothing is left of it."""
        while not self.nothing_left():
            if self.orphaned or self.overdue() or self.crowded():
                self.clear()
                break
            self.listen(self.patience())
        for group in self.groups:
            _cgroup.remove(group)
        self.leash.cut()
        resource.setrlimit(RLIMIT_LOCKS, self.locks)
        # most leaders leave nobody behind: one word wakes the owner once
        status = [] if self.status is None else [self.status]
        prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)  # there is nothing to keep now
        self.tell("gone", time.monotonic() if self.has_zygote() else 0, *status)

    def has_zygote(self) -> bool:
        """Whether there is somebody to let us go on if we are stopped. Without, we wait for no more orders."""
        return os.getppid() == self.zygote

    def overdue(self) -> bool:
        return bool(self.deadline) and time.monotonic() >= self.deadline

    def crowded(self) -> bool:
        count = count_tasks(os.getpid()) if self.most else 0
        if count > self.most:
            self.tell("crowded", count)
        return count > self.most

    def patience(self) -> float | None:
        if self.deadline:
            return min(max(0.0, self.deadline - time.monotonic()), LONGEST_SECONDS) * 1000
        return COUNT_SECONDS * 1000 if self.most else None

    def listen(self, patience: float | None) -> None:
        rung = [handle for handle, _ in self.poll.poll(patience)]
        if self.bell.fd in rung:
            self.bell.quiet()
        if self.owner in rung:
            self.orphaned = True
        elif self.channel.fileno() in rung:
            self.hear_owner()

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
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                self.reaped += 1
                if pid == self.leader:
                    self.status = status
        except ChildProcessError:
            return True
        if self.status is not None:
            self.tell("exit", self.status)
            self.status = None
        return False

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


def open_socket(handle: int) -> _socket.socket:
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fileno=handle)


def receive(sock: _socket.socket, most: int) -> tuple[bytes, list[int]]:
    """A message and the files that came with it; none of them if there is no room for all."""
    message, extra, flags, _ = sock.recvmsg(16, _socket.CMSG_SPACE(4 * most), _socket.MSG_CMSG_CLOEXEC)
    data = b"".join(part for _, _, part in extra)
    handles = [int.from_bytes(data[i : i + 4], sys.byteorder) for i in range(0, len(data), 4)]
    if flags & _socket.MSG_CTRUNC:
        while handles:
            os.close(handles.pop())
    return message, handles


def read_spec(handle: int) -> dict[str, object]:
    """What to run."""
    data = os.pread(handle, os.fstat(handle).st_size, 0)
    os.close(handle)
    return marshal.loads(data)  # type: ignore[no-any-return]
