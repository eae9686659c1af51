"""Control groups: where one can be made, each process tree has one of its own, which nobody leaves by forking.

It is one more way to find and to kill all of a tree, and nothing depends on it: a group that cannot be made, joined or removed is
passed over. Version 2 is preferred; of version 1 those hierarchies serve that need no settings.

Part of the keepers' program: few modules, on purpose.
"""

import _signal  # type: ignore[import-not-found]
import os

from holdfast.resources._below import is_alive, read_file, send

MOUNTS, OWN = "/proc/self/mountinfo", "/proc/self/cgroup"
PREFIX = "holdfast-"
KINDS = ("", "freezer", "pids")
"""As /proc/PID/cgroup has them, the best first; version 2 has no name."""


def group_name(tag: int) -> str:
    return f"{PREFIX}{tag}"


def holds(pid: int, tag: int) -> bool:
    """Whether a process is in the group of that tag, or below. Raises OSError if it is gone."""
    return f"/{group_name(tag)}".encode() in read_file(f"/proc/{pid}/cgroup")  # all tags have the same length


# -- where they are ----------------------------------------------------------------------------------------------------


def hierarchies() -> list[tuple[str, str, str]]:
    """Kind, mount point, and which part of it is mounted there; the best first."""
    found = []
    for line in read_lines(MOUNTS):
        where, _, what = line.partition(" - ")
        words, (system, *rest) = where.split(), what.split(" ")
        kinds = {"cgroup2": [""], "cgroup": rest[-1:] and rest[-1].split(",")}.get(system, [])
        found += [(kind, words[4], words[3]) for kind in kinds if kind in KINDS and len(words) > 4]
    return sorted(found, key=lambda one: KINDS.index(one[0]))


def read_lines(path: str) -> list[str]:
    try:
        return read_file(path).decode(errors="replace").splitlines()
    except OSError:  # a kernel without groups
        return []


def own_groups() -> list[str]:
    """The directories of the groups that this process is in, as far as they can be seen."""
    paths = {}
    for line in read_lines(OWN):
        kinds, _, path = line.partition(":")[2].partition(":")
        paths.update(dict.fromkeys(kinds.split(","), path))
    return [
        os.path.normpath(f"{point}/{os.path.relpath(paths[kind], root)}")
        for kind, point, root in hierarchies()
        if paths.get(kind) and f"{paths[kind]}/".startswith(f"{root.rstrip('/')}/")
    ]


def places() -> list[str]:
    """Where a group may be made and joined: below our own, if they are ours to write."""
    return [
        group
        for group in own_groups()
        if os.access(group, os.W_OK) and os.access(f"{group}/cgroup.procs", os.W_OK)  # both are needed to join one
    ]


def find_groups(tag: int) -> list[str]:
    """Groups of that tag, wherever they are: a dead owner's need not be below ours."""
    name = group_name(tag)
    points = [point for _, point, _ in hierarchies()]
    return [f"{folder}/{name}" for point in points for folder, names, _ in os.walk(point) if name in names]


# -- what is done with them --------------------------------------------------------------------------------------------


def enter(where: list[str], tag: int) -> str:
    """Put this process into a group of that tag, in the first place that has it: which one. Raises OSError if none has."""
    why = "no control group is writable here"
    for place in where:
        group = f"{place}/{group_name(tag)}"
        try:
            os.mkdir(group)
            write(f"{group}/cgroup.procs", b"0")
            return place
        except OSError as error:
            why = str(error)
            remove(group)
    raise OSError(why)  # the one that was caught would hold this frame, if kept until now: a stub collects no garbage


def leave(place: str) -> None:
    """Go back to where this process was before it entered a group made there."""
    write(f"{place}/cgroup.procs", b"0")


def kill(group: str, tag: int) -> None:
    """Kill all that is in it, and below. Version 1 may miss those that fork meanwhile."""
    try:
        write(f"{group}/cgroup.kill", b"1")
    except OSError:  # version 1, or before Linux 5.14, or there is none
        for folder, _, _ in os.walk(group):
            for pid in members(folder):
                kill_member(pid, tag)
            thaw(folder)


def thaw(group: str) -> None:
    """In version 1 the frozen do not die, and a tree may have frozen itself."""
    try:
        write(f"{group}/freezer.state", b"THAWED")
    except OSError:  # of another kind, or gone
        return


def members(group: str) -> list[int]:
    try:
        return [int(word) for word in read_file(f"{group}/cgroup.procs").split()]
    except OSError:  # removed meanwhile
        return []


def kill_member(pid: int, tag: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if holds(pid, tag) and is_alive(handle):  # alive after the look: the number was its own all the while
            send(handle, _signal.SIGKILL)
    except OSError:  # it is gone
        return
    finally:
        os.close(handle)


def remove(group: str) -> None:
    """And those that the tree itself made below it. The kernel keeps what is not empty."""
    if remove_one(group):
        return
    for folder, _, _ in os.walk(group, topdown=False):
        remove_one(folder)


def remove_empty(place: str) -> None:
    """Remove what keepers that were killed left there."""
    try:
        names = os.listdir(place)
    except OSError:
        return
    for name in names:
        if name.startswith(PREFIX) and name[len(PREFIX) :].isdigit():
            remove_one(f"{place}/{name}")


def remove_one(group: str) -> bool:
    """Whether it is not there any more."""
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:  # not empty
        return False
    return True


def write(path: str, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)
