"""As much of a Mac as can be had on Linux: the name, and none of what only Linux has.

`python -I darwin.py SCRIPT ARGUMENTS` runs a script so. The keeper that the script starts is started so too.
"""

from __future__ import annotations

import importlib
import os
import runpy
import stat
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

GONE = {
    "os": (
        "O_PATH O_TMPFILE P_PIDFD copy_file_range eventfd fdatasync getrandom getresuid memfd_create pidfd_open pipe2 "
        "posix_fadvise posix_fallocate sched_getaffinity sched_setaffinity setns setresuid splice unshare waitid"
    ),
    "resource": "prlimit RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_SIGPENDING",
    "select": "epoll",
    "signal": "pidfd_send_signal sigtimedwait sigwaitinfo",
    "socket": "MSG_CMSG_CLOEXEC SOCK_CLOEXEC SOCK_NONBLOCK SOCK_SEQPACKET SO_PEERCRED",
}
"""What Python does not have on macOS, or the system refuses there."""
LINUX_FILES = ("/proc", "/sys", "/etc/machine-id", "/dev/shm")


def become() -> None:
    """From now on this process is on a Mac, as far as Python can tell."""
    sysconfig.get_config_vars()  # read while Python still finds its own
    sys.platform = "darwin"
    scproxy: Any = types.ModuleType("_scproxy")  # urllib asks it for the system's proxies
    scproxy._get_proxies, scproxy._get_proxy_settings = dict, dict
    sys.modules["_scproxy"] = scproxy
    for module, names in GONE.items():
        for name in names.split():
            for place in (module, f"_{module}", "posix"):
                _take_away(place, name)
    sys.addaudithook(_hide)


def _take_away(module: str, name: str) -> None:
    try:
        delattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return


def _hide(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(LINUX_FILES):
        raise FileNotFoundError(2, "not on a Mac", arguments[0])


def disguise_python(folder: Path) -> None:
    """Have programs that this process starts with its own Python believe it too."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {Path(__file__).resolve()} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    sys.executable = str(program)


def main(arguments: list[str]) -> None:
    become()
    if "-c" in arguments:  # a keeper
        start = arguments.index("-c") + 1
        sys.argv = ["-c", *arguments[start + 1 :]]
        exec(arguments[start], {"__name__": "__main__"})  # what `python -c` does
        return
    sys.argv = arguments
    disguise_python(Path(os.environ["TMPDIR"]))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
