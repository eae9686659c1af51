"""How processes can be kept here: with all that Linux offers, with what every Unix has, or not at all."""

from __future__ import annotations

import os
import sys

from holdfast.errors import PlatformError
from holdfast.resources._portable_ps import find_ps

CHOICE = "HOLDFAST_KEEPER"
"""Set to `portable`, it has Linux do without what only Linux has. For tests of that path."""


def is_portable() -> bool:
    """Whether processes are kept with what every Unix has, as best that can."""
    return sys.platform != "linux" or os.environ.get(CHOICE) == "portable"


def check_platform() -> None:
    """Raises PlatformError where processes cannot be kept."""
    if is_portable():
        _check_ps()
    else:
        _check_linux()


def _check_ps() -> None:
    if not find_ps():
        raise PlatformError(
            f"kept processes need the command ps on {sys.platform}, which is neither in /bin nor in /usr/bin; install it, "
            "or run Holdfast on Linux, or in a Linux container or virtual machine, for steps that start processes"
        )


def _check_linux() -> None:
    try:
        os.close(os.pidfd_open(os.getpid()))
        os.stat("/proc/self/stat")
    except OSError as error:
        raise PlatformError(
            f"kept processes need /proc and pidfds (Linux 5.4): {error.strerror}; mount /proc, or use a newer kernel"
        ) from error
