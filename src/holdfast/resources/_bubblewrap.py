"""Commands inside bubblewrap. What cannot be confined is not run."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

from msgspec import Struct

from holdfast.errors import SandboxError, UsageError
from holdfast.resources._kept import Command
from holdfast.resources._sandbox import ETC, MIB, NEVER, SYSTEM, Sandbox, check_declared, hidden, is_below

PASSED_ON = ("PATH", "LANG", "LANGUAGE", "TERM", "TZ")
"""Of our own environment, if the command brings none; and LC_… too."""
PATH = "/usr/local/bin:/usr/bin:/bin"
OTHER_HOME = "/home/user"
SHARED_MEMORY_BYTES = 64 * MIB
PROBE_SECONDS = 30.0

INSTALL = "install it: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora)"
ALLOW = (
    "allow user namespaces: see sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone and "
    "kernel.apparmor_restrict_unprivileged_userns; in a container, allow unshare, mount and an unmasked /proc"
)


class Enclosed(Struct, frozen=True):
    """A command line for the wrapper, in two parts."""

    argv: tuple[str, ...]
    options: tuple[str, ...]
    """Given through a file, so that nobody reads them on a command line: the environment is among them. The wrapper's own is empty,
    or what is meant for those inside, such as LD_PRELOAD, would work on it, outside."""


def enclose(command: Command, sandbox: Sandbox) -> Enclosed:
    """What runs `command` inside. Raises SandboxError where that cannot be, with the reason and what to do.

    Looks at files, and at first use starts a process: for a thread.
    """
    if command.may_gain_privileges:
        raise UsageError("a command in a sandbox cannot gain privileges; leave may_gain_privileges out, or the sandbox")
    wrapper, limiter = find_tool("bwrap", INSTALL), find_tool("prlimit", "install util-linux")
    check_declared(sandbox)
    env = environment(command)
    check_program(command, sandbox, env["PATH"])
    prove(wrapper)
    options = [*walls(sandbox), *view(sandbox, env["HOME"]), *_folder(command, sandbox)]
    for name, value in env.items():
        options += ["--setenv", name, value]
    if any("\0" in option for option in options):  # what follows it would be taken for an option
        raise UsageError("paths and environment of a command cannot hold a null character")
    return Enclosed((wrapper, "--", *limits(limiter, sandbox), "--", *command.argv), tuple(options))


def find_tool(name: str, advice: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SandboxError(f"a sandbox was asked for, and {name} is not installed, so nothing was run; {advice}")
    return found


@cache
def prove(wrapper: str) -> None:
    """See that it works here; once it did, that is known. Raises SandboxError with what it said."""
    sandbox = Sandbox()
    alone = "--as-pid-1"  # else there is one more, for somebody else to wait for
    argv = [wrapper, *walls(sandbox), *view(sandbox, OTHER_HOME), alone, "--", "/usr/bin/env", "true"]
    try:
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"a sandbox was asked for, and {wrapper} does not run, so nothing was: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or f"it ended with {done.returncode}"
        advice = "bubblewrap 0.8 or newer is needed" if "nknown option" in said else ALLOW
        raise SandboxError(f"a sandbox was asked for, and none can be made, so nothing was run: {said}; {advice}")


# -- what it is made of ------------------------------------------------------------------------------------------------


def walls(sandbox: Sandbox) -> list[str]:
    """Spaces of its own, no rights, and an end with us."""
    spaces = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    network = [] if sandbox.network == "host" else ["--unshare-net"]
    return [*spaces, *network, "--disable-userns", "--cap-drop", "ALL", "--die-with-parent", "--hostname", "sandbox"]


def view(sandbox: Sandbox, home: str) -> list[str]:
    """The files it sees; what comes later covers what came before."""
    words = _system()
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += [*_scratch("/dev/shm", SHARED_MEMORY_BYTES), *_scratch("/tmp", sandbox.scratch_bytes)]
    words += _scratch(home, sandbox.scratch_bytes)
    covers = hidden(sandbox)
    places = [("--bind", path) for path in sandbox.writable] + [("--ro-bind", path) for path in sandbox.readable]
    places += [("--tmpfs", path) for path in covers]
    for how, path in sorted(places, key=lambda place: place[1].count("/")):  # the outer before the inner
        words += [how, path] if how == "--tmpfs" else [how, path, path]
    # Whoever fills the others fills memory. And to root the kernel's settings are its own files, whatever its rights.
    for path in (*covers, "/dev", "/", "/proc"):
        words += ["--remount-ro", path]
    return words


def _system() -> list[str]:
    words: list[str] = []
    for path in SYSTEM:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    for path in (f"/etc/{name}" for name in ETC):
        words += ["--ro-bind", path, path] if os.path.exists(path) else []
    return words


def _scratch(path: str, size: int) -> list[str]:
    return ["--size", str(size), "--tmpfs", path]


def limits(limiter: str, sandbox: Sandbox) -> list[str]:
    """Set inside, where only what is inside is counted."""
    words = [limiter, "--core=0", f"--data={sandbox.memory_bytes}", f"--nproc={sandbox.processes}"]
    words.append(f"--fsize={sandbox.file_bytes}")
    return words + ([f"--cpu={sandbox.cpu_seconds}"] if sandbox.cpu_seconds else [])


def environment(command: Command) -> dict[str, str]:
    """What the command brings; else the little that programs need."""
    if command.env is None:
        given = {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")}
    else:
        given = dict(command.env)
    home = os.path.normpath(given.get("HOME") or os.environ.get("HOME") or OTHER_HOME)
    if not os.path.isabs(home) or home == "/" or is_below(home, (*SYSTEM, *NEVER, "/etc", "/tmp")):
        home = OTHER_HOME
    return {"PATH": PATH} | given | {"HOME": home}


def check_program(command: Command, sandbox: Sandbox, path: str) -> None:
    """Raises SandboxError if the program is not among what the sandbox shows."""
    name = command.argv[0]
    if "/" in name:
        found = os.path.join(command.cwd or os.getcwd(), name)
        places = [found] if sandbox.shows(os.path.normpath(found)) else []
    else:
        folders = [folder for folder in path.split(os.pathsep) if sandbox.shows(os.path.normpath(folder))]
        places = [place for folder in folders if os.access(place := os.path.join(folder, name), os.X_OK)]
    if not places:
        raise SandboxError(f"cannot start {name} in the sandbox, which does not show it; declare its folder readable")
    real = os.path.realpath(places[0])
    if not sandbox.shows(real):
        raise SandboxError(
            f"cannot start {name} in the sandbox: it is {real}, which it does not show; declare it readable"
        )


def _folder(command: Command, sandbox: Sandbox) -> list[str]:
    if command.cwd is None:
        return []  # it begins where we are, if that is shown, else at home
    folder = os.path.abspath(command.cwd)
    if folder not in ("/", "/tmp") and not sandbox.shows(folder):
        raise SandboxError(f"cannot start {command.argv[0]} in {command.cwd}: the sandbox does not show it; declare it")
    return ["--chdir", folder]
