"""What a system gives us to keep processes with: Linux, or any other Unix."""

from __future__ import annotations

import _posixshmem  # type: ignore[import-not-found]
import mmap
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from holdfast.errors import SandboxError
from holdfast.resources._platform import check_platform, is_portable
from holdfast.resources._portable_channel import line_pair

PROGRAM = """# holdfast-keeper
import os, sys
folder = sys.argv[1]
for name, path in (("holdfast", os.path.dirname(folder)), ("holdfast.resources", folder)):
    package = sys.modules[name] = type(sys)(name)
    package.__path__ = [path]
from holdfast.resources.{module} import main
main(*map(int, sys.argv[2:]))
"""
"""Imports the keepers' program, without all that its packages would bring. A file would be compiled anew each time: a megabyte."""
FOLDER = str(Path(__file__).parent)

Pair = tuple[socket.socket, socket.socket]


class Means(Protocol):
    """How a keeper is started and spoken to."""

    has_stubs: bool
    """whether what keeps a tree is there for this tree alone, and can keep another one after it"""

    def control_pair(self) -> Pair:
        """Sockets for orders, which carry files."""
        ...

    def channel_pair(self) -> Pair:
        """Sockets on which what is sent at once is received at once."""
        ...

    def hold(self, data: bytes) -> int:
        """A file with this in it that is in no folder and on no disk: it may hold secrets, and be longer than a socket takes."""
        ...

    def launch(self, control: socket.socket) -> subprocess.Popen[bytes]:
        """Start the keeper, with its end of the control socket."""
        ...

    def check_sandboxes(self) -> None:
        """Raises SandboxError where this system has none."""
        ...


def find_means() -> Means:
    """Those of this system. Raises PlatformError where processes cannot be kept."""
    check_platform()
    return PortableMeans() if is_portable() else LinuxMeans()


class LinuxMeans:
    """A zygote and stubs: see `_zygote` and `_stub`."""

    has_stubs = True

    def control_pair(self) -> Pair:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    channel_pair = control_pair

    def hold(self, data: bytes) -> int:
        handle = os.memfd_create("holdfast-spec")
        try:
            with os.fdopen(handle, "wb", closefd=False) as file:
                file.write(data)
        except OSError:  # no memory, or a limit on the size of files
            os.close(handle)
            raise
        return handle

    def launch(self, control: socket.socket) -> subprocess.Popen[bytes]:
        owner = os.pidfd_open(os.getpid())
        try:
            return _launch("_zygote", control, owner, (owner,))
        finally:
            os.close(owner)

    def check_sandboxes(self) -> None:
        """It has: `enclose` finds out whether they can be used."""


class PortableMeans:
    """One keeper for all trees: see `_portable_keeper`."""

    has_stubs = False

    def control_pair(self) -> Pair:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)

    def channel_pair(self) -> Pair:
        return line_pair()

    def hold(self, data: bytes) -> int:
        name = f"/holdfast-{secrets.token_hex(8)}"  # macOS takes no more than 31 letters
        handle: int = _posixshmem.shm_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=0o600)
        _posixshmem.shm_unlink(name)
        try:
            os.ftruncate(handle, len(data))
            with mmap.mmap(handle, len(data)) as memory:  # macOS cannot write to it as to a file
                memory[:] = data
        except OSError:  # no memory, or a limit on the size of files
            os.close(handle)
            raise
        return handle

    def launch(self, control: socket.socket) -> subprocess.Popen[bytes]:
        return _launch("_portable_keeper", control, os.getpid(), ())

    def check_sandboxes(self) -> None:
        raise SandboxError(
            f"sandboxes need Linux, so nothing was run: {sys.platform} has no bubblewrap; run Holdfast in a Linux container or "
            "virtual machine, or leave the sandbox out"
        )


def _launch(module: str, control: socket.socket, owner: int, handles: tuple[int, ...]) -> subprocess.Popen[bytes]:
    program = PROGRAM.format(module=module)
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program, FOLDER, str(control.fileno()), str(owner)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(control.fileno(), *handles),
        start_new_session=True,
        cwd="/",
    )
