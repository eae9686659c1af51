"""Where processes can be kept, and where not."""

from __future__ import annotations

import os
import sys

from holdfast.errors import PlatformError


def check_platform() -> None:
    """Raises PlatformError where processes cannot be kept."""
    if sys.platform != "linux":
        raise PlatformError(
            f"kept processes need Linux: {sys.platform} has no way to adopt and find every process of a tree. "
            "Run Holdfast on Linux, or in a Linux container or virtual machine, for steps that start processes."
        )
    try:
        os.close(os.pidfd_open(os.getpid()))
        os.stat("/proc/self/stat")
    except OSError as error:
        raise PlatformError(
            f"kept processes need /proc and pidfds (Linux 5.4): {error.strerror}; mount /proc, or use a newer kernel"
        ) from error
