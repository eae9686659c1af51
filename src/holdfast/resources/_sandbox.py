"""`Sandbox`: what a confined command may see and use."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from holdfast.errors import SandboxError, UsageError
from holdfast.home import FOLDER, find_home

Network: TypeAlias = Literal["none", "host"]

GIB = 1 << 30
MIB = 1 << 20

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
"""Programs and libraries, shown read-only."""
ETC = (
    "alternatives", "ca-certificates", "crypto-policies", "group", "hosts", "ld.so.cache", "localtime", "mime.types",
    "nsswitch.conf", "passwd", "pki/tls/certs", "protocols", "resolv.conf", "services", "ssl/certs", "ssl/openssl.cnf",
)  # fmt: skip
"""What programs need of /etc, and nothing that is secret."""
NEVER = ("/proc", "/dev")
"""The sandbox has its own."""


class Sandbox(Struct, frozen=True, forbid_unknown_fields=True):
    """What a command may see and use: the system's programs, read-only, what is declared here, and nothing else.

    It has its own process, mount, user and host-name space, an empty and temporary /tmp and HOME, no right that its user does not
    have, and no network unless declared. See `docs/how-to/confine-commands.md` for what it does not do. Raises UsageError for
    what can never work.
    """

    readable: tuple[str, ...] = ()
    """paths it may read, as they are: absolute, and no links on the way"""
    writable: tuple[str, ...] = ()
    """paths it may read and change"""
    network: Network = "none"
    """`host`: everything that this machine can reach, its own services included"""
    memory_bytes: int = 4 * GIB
    """private memory of each process"""
    processes: int = 1024
    """processes and threads at once"""
    file_bytes: int = 4 * GIB
    """the size of a file it writes"""
    cpu_seconds: int = 0
    """processor time of each process; 0 for any"""
    scratch_bytes: int = 512 * MIB
    """what fits into /tmp, and into HOME; it is memory"""

    def __post_init__(self) -> None:
        for path in (*self.readable, *self.writable):
            if not os.path.isabs(path) or os.path.normpath(path) != path or "\0" in path:
                raise UsageError(f"a sandbox's paths are absolute and plain, not {path!r}; try {os.path.abspath(path)}")
            if path == "/" or is_below(path, NEVER):
                raise UsageError(f"a sandbox cannot be given {path}: it would be none; declare what is needed")
        if self.network not in get_args(Network):
            raise UsageError(f"a sandbox's network is none or host, not {self.network!r}")
        limits = (self.memory_bytes, self.processes, self.file_bytes, self.scratch_bytes)
        if min(limits) <= 0 or self.cpu_seconds < 0:
            raise UsageError("the limits of a sandbox are more than nothing")

    @property
    def declared(self) -> tuple[str, ...]:
        return self.writable + self.readable

    def shows(self, path: str) -> bool:
        """Whether a file is the system's or declared."""
        return is_below(path, (*SYSTEM, *self.declared))


def is_below(path: str, places: tuple[str, ...]) -> bool:
    """Whether a path is one of these, or inside one."""
    return any(path == place or path.startswith(place + "/") for place in places)


def check_declared(sandbox: Sandbox) -> None:
    """Raises SandboxError for a path that is not there, or is not what it seems to be."""
    for path in sandbox.declared:
        real = os.path.realpath(path)
        if not os.path.lexists(path):
            raise SandboxError(f"the sandbox cannot show {path}: it does not exist; make it first")
        if real != path:  # whoever may write the folder that the link is in would choose what is shown
            raise SandboxError(
                f"the sandbox does not follow links: {path} leads to {real}; declare that if it is meant"
            )
        if os.path.basename(path) == FOLDER:
            raise SandboxError(
                f"the sandbox cannot be given {path}: a project's store is in it; declare a folder inside"
            )


def hidden(sandbox: Sandbox) -> list[str]:
    """The homes of projects within what is declared: what is stored there is not for those inside."""
    homes = {os.path.join(path, FOLDER) for path in sandbox.declared}
    homes |= {os.path.realpath(home) for start in (None, *sandbox.declared) if (home := find_home(start)) is not None}
    return sorted(home for home in homes if os.path.isdir(home) and is_below(home, sandbox.declared))
