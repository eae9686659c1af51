"""The keepers' own program: one zygote per owner, which forks one stub per process tree. It never imports Holdfast.

Run as `python -I -S _zygote.py CONTROL OWNER`: two inherited file descriptors, the control socket and the owner's pidfd. A
message on the control socket brings the other ends of a tree's channel and pipes, and a memory file with what to run.

A stub is the subreaper of its tree, so a process of the tree that loses its parent becomes the stub's child, wherever it hid
(double fork, setsid). `waitpid` saying ECHILD to the stub is therefore the kernel's word that nothing of the tree is left.

Told on the channel: `started` with pid, start time and pidfd inode of leader and stub; `failed ERRNO STAGE`; `exit STATUS`;
`stuck PIDS`; `crowded COUNT`; `gone`. Heard: `end SECONDS`, after which the tree has that long between SIGTERM and SIGKILL. When
the channel or the owner is gone the tree is killed at once.

Few modules, on purpose: every import is memory that each stub shares or copies.
"""

import _ctypes
import _signal  # type: ignore[import-not-found]
import _socket
import gc
import marshal
import os
import resource
import select
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
RLIMIT_LOCKS = 10  # not enforced by Linux since 2.4; survives fork, exec, setsid and `env -i`, so it can carry a tag
IGNORED = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2)
ROUND_SECONDS = 0.02
COUNT_SECONDS = 0.2
STUCK_SECONDS = 2.0
FDS = 5  # channel, spec, stdin, stdout, stderr


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


# -- processes below this one ------------------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    """Those a process forked or adopted, by any of its threads; none if it is gone."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    except OSError:
        return found
    return found


def stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat after the name, which may hold anything: state, parent, …"""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


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


def _read(path: str) -> bytes:
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


# -- the leader --------------------------------------------------------------------------------------------------------


def start_leader(spec: dict[str, object], stdio: list[int]) -> tuple[int, int]:
    """Fork the first process of the tree. Returns its pid and a pipe that ends when it runs the command, or says why not."""
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    stage = ["session"]
    try:
        become_leader(spec, stdio, parent, stage)
    except (OSError, ValueError) as error:
        os.write(writer, f"failed {getattr(error, 'errno', 22)} {stage[0]}".encode())
    finally:
        os._exit(127)


def become_leader(spec: dict, stdio: list[int], parent: int, stage: list[str]) -> None:  # type: ignore[type-arg]
    os.setsid()
    prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel knew that we want to follow it
        os._exit(127)
    stage[0] = "tag"
    resource.setrlimit(RLIMIT_LOCKS, (spec["tag"], resource.getrlimit(RLIMIT_LOCKS)[1]))
    if not spec["privileges"]:
        stage[0] = "privileges"
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    for number in (*IGNORED, _signal.SIGCHLD, _signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
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

    def __init__(self, channel: _socket.socket, owner: int, spec: dict[str, object], stdio: list[int]) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        # First of all, so that the rest is done while the command starts. No end of a child is missed: `serve` looks first.
        self.leader, self.starting = start_leader(spec, stdio)
        os.setsid()
        name_process(b"holdfast-stub")
        self.channel = channel
        self.owner = owner
        self.bell = Bell()
        self.deadline = 0.0
        """When SIGKILL follows; 0 while nobody asked for the end."""
        self.orphaned = False
        self.reaped = 0
        self.wrapper = self.leader if spec["options"] else 0
        """What stands between us and the tree, takes SIGTERM for SIGKILL to all inside, and leaves when they do."""
        self.most: int = spec["most"]  # type: ignore[assignment]
        """How many tasks the tree may have, where the kernel does not see to it; 0 for any number."""
        self.me = identity(os.getpid())
        for handle in set(stdio):
            os.close(handle)
        self.poll = select.poll()
        for handle in (self.bell.fd, self.starting, owner, channel.fileno()):
            self.poll.register(handle, select.POLLIN)

    def serve(self) -> None:
        """Keep the tree until nothing is left of it."""
        while not self.nothing_left():
            if self.orphaned or self.overdue() or self.crowded():
                self.clear()
                break
            self.listen(self.patience())
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
        try:
            self.channel.send(" ".join(map(str, words)).encode())
        except OSError:  # nobody listens any more
            return


def name_process(name: bytes) -> None:
    """What `ps` shows, so that a person knows what these are."""
    handle = os.open("/proc/self/comm", os.O_WRONLY)
    try:
        os.write(handle, name)
    finally:
        os.close(handle)


# -- the zygote --------------------------------------------------------------------------------------------------------


class Zygote:
    """Forks stubs, and kills what a stub that was killed left behind. Leaves when the owner is gone and all stubs are."""

    def __init__(self, control: _socket.socket, owner: int) -> None:
        for number in IGNORED:
            _signal.signal(number, _signal.SIG_IGN)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        name_process(b"holdfast-keeper")
        self.control = control
        self.owner = owner
        self.bell = Bell()
        self.stubs: set[int] = set()
        self.poll = select.poll()
        for handle in (self.bell.fd, owner, control.fileno()):
            self.poll.register(handle, select.POLLIN)

    def serve(self) -> None:
        serving = True
        while serving or not self.nothing_left():
            rung = [handle for handle, _ in self.poll.poll(None)]
            if self.bell.fd in rung:
                self.bell.quiet()
                self.nothing_left()
            if serving and self.owner in rung:
                serving = False
            elif serving and self.control.fileno() in rung:
                serving = self.take_order()
            if not serving and self.control.fileno() >= 0:
                self.poll.unregister(self.owner)
                self.poll.unregister(self.control)
                self.control.close()

    def take_order(self) -> bool:
        """Fork the stub of a new tree. False when the owner is gone."""
        try:
            message, handles = receive(self.control)
        except OSError:
            return False
        if not message:
            return False
        channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fileno=handles[0])
        try:
            pid = os.fork()
        except OSError as error:
            channel.send(f"failed {error.errno} fork".encode())
        else:
            if not pid:
                self.become_stub(channel, handles)
            self.stubs.add(pid)
        channel.close()
        for handle in handles[1:]:
            os.close(handle)
        return True

    def become_stub(self, channel: _socket.socket, handles: list[int]) -> None:
        """In the child: never returns."""
        try:
            self.control.close()
            self.bell.close()
            spec = marshal.loads(read_out(handles[1]))
            Stub(channel, self.owner, spec, handles[2:]).serve()
        except BaseException as error:  # the owner learns of it, whatever it is
            channel.send(f"failed {getattr(error, 'errno', 0) or 0} keeper {error!r}".encode()[:4096])
        finally:
            os._exit(0)

    def nothing_left(self) -> bool:
        """Reap, and kill whoever came to us because its stub was killed. True when there are no children."""
        try:
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                self.stubs.discard(pid)
        except ChildProcessError:
            return True
        strangers = [pid for pid in children(os.getpid()) if pid not in self.stubs]
        if strangers:
            signal_trees(_signal.SIGKILL, strangers)
        return False


def receive(control: _socket.socket) -> tuple[bytes, list[int]]:
    message, extra, _, _ = control.recvmsg(16, _socket.CMSG_SPACE(4 * FDS), _socket.MSG_CMSG_CLOEXEC)
    data = b"".join(part for _, _, part in extra)
    return message, [int.from_bytes(data[i : i + 4], sys.byteorder) for i in range(0, len(data), 4)]


def main() -> None:
    control, owner = (int(argument) for argument in sys.argv[1:])
    os.set_inheritable(control, False)
    os.set_inheritable(owner, False)
    zygote = Zygote(_socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fileno=control), owner)
    gc.disable()
    gc.freeze()
    zygote.serve()


if __name__ == "__main__":
    main()
