"""Control groups: one for each tree where that can be, gone with it, and nothing depends on them.

Real groups of this machine. A mount space of its own hides kinds of them from an owner, so that each is tested alone.
"""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.resources.killing import all_end, heard, owner
from tests.resources.trees import is_alive, plant

from holdfast.ids import new_id
from holdfast.ports import LedgerRow, Owner, ProcessIdentity
from holdfast.resources import Command, Keeper, SystemProcessTable, _cgroup, sweep_everything
from holdfast.resources._keeper import new_tag
from holdfast.stores import MemoryLedger
from holdfast.testing._audit import wait_for_the_end

NOBODY = 65534
KINDS = {"version 2": "", "version 1, freezer": "freezer", "version 1, pids": "pids"}
HIDE = """
while [ "$1" != -- ]; do umount -R "$1" || exit 1; shift; done
shift
exec "$@"
"""

DODGER = """
import os, resource, signal
resource.setrlimit(10, (5, resource.getrlimit(10)[1]))  # as a daemon may that resets all limits
if os.fork():
    signal.pause()
os.setsid()
print(os.getpid(), flush=True)
signal.pause()
"""


@pytest.fixture
def place() -> str:
    """Where the groups of our own keepers are made."""
    places = _cgroup.places()
    if not places:
        pytest.skip("no control group of this process may be written; run as root on a machine, or delegate one")
    return places[0]


def hiding(*kinds: str) -> tuple[str, ...]:
    """A wrapper that shows an owner none of these kinds."""
    if os.getuid() or shutil.which("unshare") is None:
        pytest.skip("hiding kinds of control groups takes root and `unshare`")
    points = [point for kind, point, _ in _cgroup.hierarchies() if kind in kinds]
    wrapper = ("unshare", "--mount", "sh", "-c", HIDE, "sh", *points, "--")
    if subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount space of its own, or no unmounting in it, is allowed here")
    return wrapper


def only(kind: str) -> tuple[str, ...]:
    """A wrapper that shows an owner one kind alone."""
    if not any(found == kind for found, _, _ in _cgroup.hierarchies()):
        pytest.skip(f"no control groups of {kind or 'version 2'} are mounted here")
    return hiding(*(other for other in KINDS.values() if other != kind))


def line_of(kind: str, inside: str) -> str:
    return next(line for line in inside.splitlines() if line.split(":")[1] == kind)


def groups_of(tags: list[int]) -> list[str]:
    return [group for tag in tags for group in _cgroup.find_groups(tag)]


def exists(group: str) -> bool:
    return os.path.exists(group)


def release(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return heard(process)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_s3_2_trees_that_fork_and_hide_are_in_a_group_and_leave_none_when_they_are_released(kind: str) -> None:
    with owner("group", wrapper=only(kind)) as process:
        said = heard(process)
        assert [line_of(kind, text).endswith(f"/holdfast-{said['tags'][2]}") for text in said["inside"]] == [True] * 4
        assert len({*groups_of(said["tags"])}) >= 4
        assert said["logged"] == []
        assert release(process) == {"gone": True}
        assert all_end(said["pids"], 10)
        assert groups_of(said["tags"]) == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_s3_10_an_owner_killed_with_kill_9_leaves_neither_trees_nor_groups(kind: str) -> None:
    with owner("group", wrapper=only(kind)) as process:
        said = heard(process)
        process.kill()
        assert all_end(said["pids"], 10)
        process.wait()
        assert wait_for_the_end(set(), 10) == []
        assert groups_of(said["tags"]) == []


def test_without_any_group_the_same_holds_and_the_log_says_so_once_for_each_tree() -> None:
    with owner("group", wrapper=hiding(*KINDS.values())) as process:
        said = heard(process)
        assert len(said["logged"]) == 4
        assert all("no control group of its own, which changes nothing" in line for line in said["logged"])
        assert release(process) == {"gone": True}
        assert all_end(said["pids"], 10)


@pytest.fixture
def delegated() -> Iterator[Path]:
    """A group that belongs to nobody, as a service manager delegates one."""
    kinds = [kind for kind, _, _ in _cgroup.hierarchies()]
    if os.getuid() or "" not in kinds:
        pytest.skip("delegating a control group takes root, and version 2")
    group = Path(_cgroup.own_groups()[kinds.index("")], f"test-of-holdfast-{os.getpid()}")
    group.mkdir()
    for path in (group, group / "cgroup.procs"):
        os.chown(path, NOBODY, NOBODY)
    yield group
    _cgroup.remove(str(group))


def as_nobody(first: str = ":") -> tuple[str, ...]:
    """A wrapper that runs an owner as nobody, after a shell command, with a Python that nobody may run."""
    become = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
    if os.getuid() or shutil.which("setpriv") is None:
        pytest.skip("becoming nobody takes root and `setpriv`")
    path = ("env", f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}")
    twice = "import subprocess, sys, holdfast; subprocess.run([sys.executable, '-c', ''], check=True)"
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        if not subprocess.run([*become, *path, python, "-c", twice], capture_output=True, check=False).returncode:
            return ("sh", "-c", f'{first}; shift; exec {shlex.join([*become, *path, python])} "$@"', "sh")
    pytest.skip("nobody may run no Python here, or may not read what is tested")


def test_nobody_works_as_ever_without_groups() -> None:
    with owner("group", wrapper=as_nobody()) as process:
        said = heard(process)
        assert len(said["logged"]) == 4
        assert release(process) == {"gone": True}
        assert all_end(said["pids"], 10)
        assert groups_of(said["tags"]) == []


def test_nobody_has_groups_where_they_are_delegated(delegated: Path) -> None:
    with owner("group", wrapper=as_nobody(f"echo 0 > {delegated}/cgroup.procs")) as process:
        said = heard(process)
        assert said["logged"] == []
        assert {Path(group).parent for group in groups_of(said["tags"])} == {delegated}
        assert release(process) == {"gone": True}
        assert [path for path in delegated.iterdir() if path.is_dir()] == []
        process.kill()
        process.wait()
        assert wait_for_the_end(set(), 10) == []


@pytest.mark.usefixtures("place")
async def test_s3_5_one_that_dodged_its_tag_is_found_by_its_group_when_all_keepers_were_killed(keeper: Keeper) -> None:
    process = await keeper.spawn(Command((sys.executable, "-I", "-S", "-c", DODGER)))
    dodger = int(await process.readline())
    assert process.keeper is not None
    assert keeper.pid is not None
    os.kill(keeper.pid, signal.SIGSTOP)  # so that it cannot help
    os.kill(process.keeper.pid, signal.SIGKILL)
    os.kill(keeper.pid, signal.SIGKILL)
    await process.gone()
    assert not is_alive(dodger)
    assert groups_of([process.tag]) == []
    await process.end()


async def test_a_group_that_vanished_changes_nothing(keeper: Keeper, place: str) -> None:
    process = await plant(keeper, "sleep 1000 & echo ready; wait")
    group = groups_of([process.tag])[0]
    for pid in _cgroup.members(group):
        _cgroup.write(f"{place}/cgroup.procs", b"%d" % pid)
    os.rmdir(group)
    await process.end(0.05)
    assert process.is_gone


async def test_groups_that_the_tree_made_in_its_own_go_with_it(keeper: Keeper, place: str) -> None:
    process = await plant(keeper, "echo ready; exec cat")
    inner = f"{place}/{_cgroup.group_name(process.tag)}/inner/innermost"
    os.makedirs(inner)
    _cgroup.write(f"{inner}/cgroup.procs", b"%d" % process.pid)
    await process.end(0)
    assert groups_of([process.tag]) == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_killing_a_group_kills_those_inside_and_no_other(kind: str) -> None:
    found = [group for one, group in zip(_cgroup.hierarchies(), _cgroup.own_groups(), strict=False) if one[0] == kind]
    if not found or not os.access(found[0], os.W_OK):
        pytest.skip(f"no group of {kind or 'version 2'} may be made here")
    tag = new_tag()
    group = f"{found[0]}/{_cgroup.group_name(tag)}"
    with sleeper_in(group) as inside, subprocess.Popen(["sleep", "1000"]) as outside:
        _cgroup.kill_member(outside.pid, tag)  # as if its number had been one of the group's
        _cgroup.kill(group, tag)
        assert inside.wait() == -signal.SIGKILL
        assert outside.poll() is None
        outside.kill()
    assert groups_of([tag]) == []


FROZEN = {"version 2": ("", "cgroup.freeze", b"1"), "version 1": ("freezer", "freezer.state", b"FROZEN")}


@pytest.mark.parametrize(("kind", "file", "word"), FROZEN.values(), ids=FROZEN.keys())
def test_a_tree_that_froze_itself_is_ended_all_the_same(kind: str, file: str, word: bytes) -> None:
    with owner("group", wrapper=only(kind)) as process:
        said = heard(process)
        frozen = {group for group in groups_of(said["tags"]) if os.path.exists(f"{group}/{file}")}
        assert len(frozen) >= 4
        for group in frozen:
            _cgroup.write(f"{group}/{file}", word)
        assert release(process) == {"gone": True}
        assert all_end(said["pids"], 10)


ODD = ["", "\n\n", "garbage", "1 2 3 - cgroup2", "1 2 3 / /no/such/place rw - cgroup2 x rw\n4 5 - cgroup", "\xff\0:::"]


@pytest.mark.parametrize("mounts", ODD)
@pytest.mark.parametrize("own", ["", "garbage", "0::", "0::/\n", ":::::", "7:freezer:/elsewhere"])
def test_whatever_the_kernel_says_about_groups_there_is_just_none(
    mounts: str, own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("MOUNTS", mounts), ("OWN", own)):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(_cgroup, name, str(tmp_path / name))
    assert _cgroup.places() == _cgroup.find_groups(1) == []


def test_a_kernel_without_groups_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cgroup, "MOUNTS", "/no/such/file")
    monkeypatch.setattr(_cgroup, "OWN", "/no/such/file")
    assert _cgroup.places() == _cgroup.find_groups(1) == []


def test_a_part_of_a_hierarchy_that_is_mounted_as_in_a_container_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounts").write_text(f"1 2 0:3 /box {tmp_path} rw shared:1 - cgroup2 cgroup2 rw,nsdelegate\n")
    (tmp_path / "own").write_text("1:pids:/other\n0::/box/server\n")
    monkeypatch.setattr(_cgroup, "MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setattr(_cgroup, "OWN", str(tmp_path / "own"))
    assert _cgroup.own_groups() == [f"{tmp_path}/server"]
    (tmp_path / "own").write_text("0::/box-of-another\n")
    assert _cgroup.own_groups() == []


def test_entering_a_group_that_cannot_be_made_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no control group is writable here"):
        _cgroup.enter([], 1)
    with pytest.raises(OSError, match="No such file"):  # a folder can be made there, and is no group
        _cgroup.enter([str(tmp_path)], 1)
    assert list(tmp_path.iterdir()) == []


@contextmanager
def sleeper_in(group: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group that is made for it."""
    os.mkdir(group)
    with subprocess.Popen(["sleep", "1000"]) as process:
        _cgroup.write(f"{group}/cgroup.procs", b"%d" % process.pid)
        try:
            yield process
        finally:
            process.kill()
    _cgroup.remove(group)


def dead() -> ProcessIdentity:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        found = SystemProcessTable().identify(process.pid)
        process.kill()
    assert found is not None
    return found


async def test_s3_6_the_sweep_ends_a_dead_owners_group_by_the_tag_of_its_row_and_leaves_others(place: str) -> None:
    ours, other = new_tag(), new_tag()
    groups = [f"{place}/{_cgroup.group_name(tag)}" for tag in (ours, other)]
    ledger = MemoryLedger()
    row = LedgerRow(id=new_id(), owner=Owner(new_id(), dead()), since_us=1, tag=ours, kind="process", name="agent")
    await ledger.put(row)
    with sleeper_in(groups[0]) as orphan, sleeper_in(groups[1]) as stranger:
        report = await sweep_everything(ledger, SystemProcessTable())
        assert [found.id for found in report.ended] == [row.id]
        assert orphan.wait() == -signal.SIGKILL
        assert stranger.poll() is None
        assert [exists(group) for group in groups] == [False, True]


async def test_s3_6_empty_groups_of_killed_keepers_are_removed_by_the_next_keeper(place: str) -> None:
    left, foreign = f"{place}/{_cgroup.group_name(new_tag())}", f"{place}/holdfast-of-somebody-{os.getpid()}"
    os.mkdir(left)
    os.mkdir(foreign)
    try:
        with Keeper() as keeper:
            await (await plant(keeper, "echo ready; exec cat")).end(0)
        assert not exists(left)
        assert exists(foreign)
    finally:
        os.rmdir(foreign)


class Order:
    """What a stub has in its hands when it tries to enter a group: a command and its environment."""


def try_to_enter() -> weakref.ref[Order]:
    order = Order()
    with suppress(OSError):
        _cgroup.enter(["/no/such/group"], new_tag())
    return weakref.ref(order)


def test_a_stub_that_may_enter_no_group_keeps_nothing_of_the_order() -> None:
    gc.disable()  # as in a stub: what a circle holds it would hold until it leaves
    try:
        assert try_to_enter()() is None
    finally:
        gc.enable()
