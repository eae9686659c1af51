"""The keepers' own program: one zygote per owner, which forks one stub per process tree. It never imports Holdfast as a whole.

Started by `_means.PROGRAM` with two inherited file descriptors, the control socket and the owner's pidfd. A
message on the control socket brings the other ends of a tree's channel and pipes, and a memory file with what to run.

Forking takes longer than anything else here, so that is done ahead: a spare stub waits for the next order itself. The zygote only
sees to it that there is one when there is an order, and while orders come one after the other.

Few modules, on purpose: every import is memory that each stub shares or copies.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import gc
import os
import select
import time

from holdfast.resources import _cgroup
from holdfast.resources._below import children, signal_trees
from holdfast.resources._stub import (
    FDS,
    IGNORED,
    LINGER_SECONDS,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    Bell,
    Stub,
    name_process,
    open_socket,
    prctl,
    read_spec,
    receive,
)

PAUSE_SECONDS = 0.002
"""How long the next spare waits until it is forked, so that the command which the last one runs has the processors."""


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
        self.taken, self.taking = os.pipe()
        """Where a spare says that it has an order, and is none any more."""
        self.stubs: set[int] = set()
        self.spare = 0
        """The stub that waits for an order; nobody else may look for one then."""
        self.is_spare_due = False
        self.ordered = 0.0
        self.places = _cgroup.places()
        """Where trees may have control groups."""
        for place in self.places:
            _cgroup.remove_empty(place)
        self.poll = select.poll()
        for handle in (self.bell.fd, self.taken, owner, control.fileno()):
            self.poll.register(handle, select.POLLIN)

    def serve(self) -> None:
        serving = True
        while serving or not self.nothing_left():
            rung = [handle for handle, _ in self.poll.poll(PAUSE_SECONDS * 1000 if self.is_spare_due else None)]
            if not rung:
                self.fork_spare()
            if self.bell.fd in rung:
                self.bell.quiet()
                self.nothing_left()
            if self.taken in rung:
                self.hear_spare()
            if serving and (self.owner in rung or (self.control.fileno() in rung and not self.see_to_order())):
                serving = False
                self.poll.unregister(self.owner)
                self.lose_control()

    def lose_control(self) -> None:
        self.is_spare_due = False
        if not self.spare:
            self.poll.unregister(self.control)
        self.control.close()

    # -- stubs -----------------------------------------------------------------------------------------------------

    def see_to_order(self) -> bool:
        """Have somebody for the order that has come. False when the owner is gone."""
        if self.spare:  # it was there before we looked
            return True
        try:
            if not self.control.recv(1, _socket.MSG_PEEK):
                return False
        except BlockingIOError:  # the last spare took it
            return True
        except OSError:
            return False
        self.fork_spare()
        return True

    def fork_spare(self) -> None:
        self.is_spare_due = False
        try:
            pid = os.fork()
        except OSError as error:
            self.refuse_order(error.errno or 1)
            return
        if not pid:
            self.become_stub()
        self.stubs.add(pid)
        self.spare = pid
        self.poll.unregister(self.control)

    def refuse_order(self, number: int) -> None:
        """If there is one, and something is wrong: nobody can be forked for it."""
        if number <= 0 or self.control.fileno() < 0:
            return
        try:
            message, handles = receive(self.control, FDS)
        except BlockingIOError:
            return
        if message:
            channel = open_socket(handles[0])
            channel.send(f"failed {number} fork".encode())
            channel.close()
            for handle in handles[1:]:
                os.close(handle)

    def hear_spare(self) -> None:
        """It has an order. More are likely if the last one was a moment ago."""
        os.read(self.taken, 1)
        self.lose_spare()
        now = time.monotonic()
        self.is_spare_due = now - self.ordered < LINGER_SECONDS and self.control.fileno() >= 0
        self.ordered = now

    def lose_spare(self) -> None:
        self.spare = 0
        if self.control.fileno() >= 0:
            self.poll.register(self.control, select.POLLIN)

    def become_stub(self) -> None:
        """In the child: never returns."""
        channel: _socket.socket | None = None
        number = 0
        try:
            prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)  # as long as it is a spare
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            name_process(b"holdfast-spare")
            self.bell.close()
            stub = Stub(self.owner, self.places)
            handles = stub.await_order(self.control)
            if handles:
                channel = open_socket(handles[0])
                prctl(PR_SET_PDEATHSIG, 0)
                os.write(self.taking, b".")
                self.control.close()
                stub.take_order(channel, read_spec(handles[1]), handles[2:])
                stub.serve()
        except BaseException as error:  # the owner learns of it, whatever it is
            number = getattr(error, "errno", 0) or 1
            if channel is not None:
                channel.send(f"failed {number} keeper {error!r}".encode()[:4096])
        finally:
            os._exit(number)

    def nothing_left(self) -> bool:
        """Reap, and kill whoever came to us because its stub was killed. True when there are no children."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                self.stubs.discard(pid)
                if pid == self.spare:
                    self.lose_spare()
                    self.refuse_order(os.waitstatus_to_exitcode(status))
        except ChildProcessError:
            return True
        strangers = [pid for pid in children(os.getpid()) if pid not in self.stubs]
        if strangers:
            signal_trees(_signal.SIGKILL, strangers)
        return False


def main(control: int, owner: int) -> None:
    os.set_inheritable(control, False)
    os.set_inheritable(owner, False)
    orders = open_socket(control)
    orders.setblocking(False)
    zygote = Zygote(orders, owner)
    gc.disable()
    gc.freeze()
    zygote.serve()
