"""The keepers' own program: one zygote per owner, which forks one stub per process tree. It never imports Holdfast as a whole.

Started by `_means.PROGRAM` with two inherited file descriptors, the control socket and the owner's pidfd. A
message on the control socket brings the other ends of a tree's channel and pipes, and a memory file with what to run.

Forking takes longer than anything else here, so a stub whose tree is gone waits a moment for another order from its owner, on the
channel that they have.

Few modules, on purpose: every import is memory that each stub shares or copies.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import gc
import os
import select

from holdfast.resources import _cgroup
from holdfast.resources._below import children, signal_trees
from holdfast.resources._stub import (
    FDS,
    IGNORED,
    PR_SET_CHILD_SUBREAPER,
    Bell,
    Stub,
    forget_code,
    name_process,
    open_socket,
    prctl,
    read_spec,
    receive,
    tell,
)

PATIENCE_SECONDS = 1.0
"""How long stubs have to end their trees once the owner is gone. They do so at once, unless they cannot."""


class Zygote:
    """Forks stubs, and kills what a stub that was killed left behind. Leaves when the owner is gone and all stubs are."""

    def __init__(self, control: _socket.socket, owner: int) -> None:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, [])  # the owner may block SIGCHLD
        for number in IGNORED:
            _signal.signal(number, _signal.SIG_IGN)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        name_process(b"holdfast-keeper")
        self.pid = os.getpid()
        self.control = control
        self.owner = owner
        self.bell = Bell()
        self.stubs: set[int] = set()
        self.places = _cgroup.places()
        """Where trees may have control groups."""
        for place in self.places:
            _cgroup.remove_empty(place)

    def serve(self) -> None:
        poll = select.poll()
        for handle in (self.bell.fd, self.owner, self.control.fileno()):
            poll.register(handle, select.POLLIN)
        serving = True
        while serving or not self.nothing_left():
            rung = [handle for handle, _ in poll.poll(None if serving else PATIENCE_SECONDS * 1000)]
            if not rung:  # a stub waits for a program's file to open, or is stopped again and again
                signal_trees(_signal.SIGKILL, children(os.getpid()))
            if self.bell.fd in rung:
                self.bell.quiet()
                self.nothing_left()
            if serving and (self.owner in rung or (self.control.fileno() in rung and not self.see_to_order())):
                serving = False
                poll.unregister(self.owner)
                poll.unregister(self.control)
                self.control.close()

    # -- stubs -----------------------------------------------------------------------------------------------------

    def see_to_order(self) -> bool:
        """Fork a stub for an order. False when the owner is gone."""
        try:
            message, handles = receive(self.control, FDS)
        except OSError:
            return False
        if not message:
            return False
        if not handles:  # no room for them; that the channel is closed says so
            return True
        channel = open_socket(handles[0])
        try:
            pid = os.fork()
        except OSError as error:
            tell(channel, "failed", error.errno or 1, "fork")
        else:
            if not pid:
                self.become_stub(channel, handles[1:])
            self.stubs.add(pid)
        channel.close()
        for handle in handles[1:]:
            os.close(handle)
        return True

    def become_stub(self, channel: _socket.socket, handles: list[int]) -> None:
        """In the child: never returns."""
        number = 0
        try:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            self.bell.close()
            self.control.close()
            stub = Stub(channel, self.owner, self.places, self.pid)
            while handles:
                stub.take_order(read_spec(handles[0]), handles[1:])
                stub.serve()
                handles = stub.await_order()
        except BaseException as error:  # the owner learns of it, whatever it is
            number = getattr(error, "errno", 0) or 1
            channel.send(f"failed {number} keeper {error!r}".encode()[:4096])
        finally:
            os._exit(number)

    def nothing_left(self) -> bool:
        """Reap, let stubs go on that somebody stopped, and kill whoever came to us because its stub was killed.

        True when there are no children.
        """
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if not pid:
                    break
                if os.WIFSTOPPED(status):
                    os.kill(pid, _signal.SIGCONT)
                else:
                    self.stubs.discard(pid)
        except ChildProcessError:
            return True
        strangers = [pid for pid in children(os.getpid()) if pid not in self.stubs]
        if strangers:
            signal_trees(_signal.SIGKILL, strangers)
        return False


def main(control: int, owner: int) -> None:
    os.set_inheritable(control, False)
    os.set_inheritable(owner, False)
    zygote = Zygote(open_socket(control), owner)
    gc.disable()
    gc.freeze()
    forget_code()
    zygote.serve()
