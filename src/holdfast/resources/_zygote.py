"""The keepers' own program: one zygote per owner, which forks one stub per process tree. It never imports Holdfast as a whole.

Started by `_keeper.PROGRAM` with two inherited file descriptors, the control socket and the owner's pidfd. A
message on the control socket brings the other ends of a tree's channel and pipes, and a memory file with what to run.

Few modules, on purpose: every import is memory that each stub shares or copies.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import gc
import marshal
import os
import select
import sys

from holdfast.resources import _cgroup
from holdfast.resources._below import children, read_out, signal_trees
from holdfast.resources._stub import IGNORED, PR_SET_CHILD_SUBREAPER, Bell, Stub, name_process, prctl

FDS = 5  # channel, spec, stdin, stdout, stderr


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
        self.places = _cgroup.places()
        """Where trees may have control groups."""
        for place in self.places:
            _cgroup.remove_empty(place)
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
            spec = marshal.loads(read_out(handles[1])) | {"places": self.places}
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


def main(control: int, owner: int) -> None:
    os.set_inheritable(control, False)
    os.set_inheritable(owner, False)
    zygote = Zygote(_socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fileno=control), owner)
    gc.disable()
    gc.freeze()
    zygote.serve()
