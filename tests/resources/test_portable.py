"""Processes kept with what every Unix has. All of `tests/resources` can be run so too: see `tests.resources.portable`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.resources import test_keeper, test_managers
from tests.resources.killing import ROOT, all_end, heard, owner
from tests.resources.test_sweep import row_of
from tests.resources.trees import CHAIN, HOSTILE, SETSID, is_alive, left, plant, shell

from holdfast.errors import PlatformError, SandboxError, StuckError
from holdfast.ports import ProcessIdentity
from holdfast.resources import Command, Keeper, Sandbox, SystemProcessTable, sweep_everything
from holdfast.resources._portable_channel import line_pair
from holdfast.resources._portable_keeper import Tree
from holdfast.resources._portable_ps import Row, find_family, read_row
from holdfast.resources._sweep import ALIVE, why_not
from holdfast.resources._table import LinuxProcessTable
from holdfast.stores import MemoryLedger, SqliteLedger
from holdfast.testing._audit import outlast

MAC_LINE = b"  501     1   501   2048 Ss   Mon Nov  2 07:03:09 2026     /opt/bin/node /x.js HOLDFAST_TREE=77 PATH=/bin"
HIDDEN = "env -i setsid sleep 1000 & echo ready; read line"
"""A child that shows no mark and has a session of its own, but keeps its parent until that is told to leave."""


@pytest.fixture(autouse=True)
def _portable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_KEEPER", "portable")


def me() -> ProcessIdentity:
    found = SystemProcessTable().identify(os.getpid())
    assert found is not None
    return found


class TestPortableProcessManager(test_managers.TestProcessManager):
    """Every promise of the port."""


@pytest.mark.parametrize("name", ["double_fork", "setsid", "ignores_term", "leader_exits", "stderr_flood"])
async def test_s3_2_the_end_of_a_process_is_the_end_of_all_that_shows_its_mark(keeper: Keeper, name: str) -> None:
    process = await plant(keeper, HOSTILE[name])
    pids = [use.pid for use in process.processes()]
    assert len(pids) >= 2
    await process.end(grace=0.05)
    assert (process.is_gone, process.processes()) == (True, [])
    assert [pid for pid in pids if is_alive(pid)] == []
    assert left(keeper) == []


async def test_what_hides_its_mark_is_known_by_its_parent(keeper: Keeper) -> None:
    await (await plant(keeper, HIDDEN)).end(0)
    assert left(keeper) == []


async def test_what_was_seen_below_its_parent_is_remembered_when_that_is_gone(keeper: Keeper) -> None:
    process = await plant(keeper, HIDDEN)
    await (await keeper.spawn(Command(("true",)))).gone()  # every start and end has the keeper look at all
    await process.write(b"leave\n")
    assert await process.wait() == 0
    assert not process.is_gone
    await process.end(0)
    assert left(keeper) == []


async def test_s3_5_when_the_keeper_is_killed_its_owner_ends_what_shows_its_mark(keeper: Keeper) -> None:
    trees = [await plant(keeper, SETSID) for _ in range(2)]
    pids = [use.pid for tree in trees for use in tree.processes()]
    assert keeper.pid is not None
    os.kill(keeper.pid, signal.SIGKILL)
    for tree in trees:
        await tree.gone()
    assert [pid for pid in pids if is_alive(pid)] == []
    await (await plant(keeper, CHAIN)).end(0)


async def test_what_cannot_be_killed_is_never_said_to_be_gone() -> None:
    class Hopeless(SystemProcessTable):
        """Something with the tag is there, whatever is done about it."""

        def carriers(self, tag: int) -> list[int]:
            return [os.getpid()]

        def kill_carrier(self, pid: int, tag: int) -> bool:
            return False

    with Keeper(Hopeless()) as keeper:
        process = await plant(keeper, "echo ready; exec cat")
        assert keeper.pid is not None
        os.kill(keeper.pid, signal.SIGKILL)
        with pytest.raises(StuckError, match=r"sh could not be ended: process \d+ left"):
            await process.end(grace=20)
        assert not process.is_gone
        os.kill(process.pid, signal.SIGKILL)


async def test_signals_that_end_a_server_do_not_end_its_keeper(keeper: Keeper) -> None:
    process = await plant(keeper, "echo ready; exec cat")
    assert keeper.pid is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(keeper.pid, number)
    await process.write(b"still here\n")
    assert await process.readline() == b"still here\n"
    await process.end()


async def test_what_is_started_gets_neither_files_nor_ignored_signals_of_the_keeper(keeper: Keeper) -> None:
    async with await keeper.spawn(shell("ls /proc/self/fd | wc -l")) as process:
        assert int(await process.read()) == 4  # the three, and the folder being listed
    await test_keeper.test_no_signal_that_the_keeper_ignores_is_ignored_by_what_it_starts(keeper)


@pytest.mark.parametrize("how", ["hold", "forks", "execs"])
def test_s3_10_however_its_owner_goes_a_tree_goes_with_it(how: str) -> None:
    """Killed; killed while a fork of it holds every file; become another program."""
    with owner(how, *(["4"] if how != "execs" else [])) as process:
        said = heard(process)
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        if how != "execs":
            process.kill()
        try:
            assert all_end(said["pids"], 10)
        finally:
            if "child" in said:
                os.kill(said["child"], signal.SIGKILL)


async def test_s3_6_what_an_owner_killed_with_its_keeper_left_is_found_by_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    with owner("leases", str(path)) as process:
        said = heard(process)
        keeper = said["keepers"][0]
        os.kill(keeper, signal.SIGSTOP)
        process.kill()
        process.wait()
        os.kill(keeper, signal.SIGKILL)
        outlast(keeper, 10)
        assert any(is_alive(pid) for pid in said["pids"])
        async with SqliteLedger(path) as ledger:
            report = await sweep_everything(ledger, SystemProcessTable())
            assert sorted(row.kind for row in report.ended) == ["directory", "process"]
        assert all_end(said["pids"], 10)


def test_s3_6_a_pid_that_another_process_has_now_is_told_by_its_start() -> None:
    table = SystemProcessTable()
    assert why_not(me(), table) == ALIVE
    assert why_not(replace(me(), started=me().started - 1), table) == ""


def test_s3_6_one_machine_seen_in_two_ways_is_two_so_that_neither_takes_the_other_for_dead() -> None:
    native = LinuxProcessTable().identify(os.getpid())
    assert native is not None
    assert "on another machine" in why_not(native, SystemProcessTable())
    assert "on another machine" in why_not(me(), LinuxProcessTable())


async def test_s3_6_where_ps_does_not_answer_nobody_is_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = MemoryLedger()
    await ledger.put(row_of(me()))
    (tmp_path / "ps").write_text("#!/bin/sh\necho not today >&2\n")
    (tmp_path / "ps").chmod(0o755)
    monkeypatch.setattr("holdfast.resources._portable_ps.PLACES", (str(tmp_path / "ps"),))
    with pytest.raises(PlatformError, match="ps does not show this process; it said: not today"):
        await sweep_everything(ledger, SystemProcessTable())
    assert len(await ledger.rows()) == 1


async def test_a_sandbox_is_refused_and_nothing_is_run(keeper: Keeper, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="sandboxes need Linux, so nothing was run"):
        await keeper.spawn(Command(("touch", str(tmp_path / "ran")), sandbox=Sandbox(writable=(str(tmp_path),))))
    assert os.listdir(tmp_path) == []


def test_a_line_of_ps_is_read_as_macos_writes_it() -> None:
    row = read_row(MAC_LINE)
    assert row is not None
    assert (row.pid, row.parent, row.pgid, row.memory, row.started) == (501, 1, 501, 2048 * 1024, 1793602989)
    assert (row.name, row.tag) == ("node", 77)
    assert read_row(MAC_LINE.replace(b" Ss ", b" Z  ")) is None
    for other in (b"", b"PID PPID", b"1 2 3 4 S - /x", b"HOLDFAST_TREE=77 in a line of its own"):
        assert read_row(other) is None


def rows_of(*described: tuple[int, int, int, int]) -> list[Row]:
    """Pid, parent, group, tag."""
    return [Row(pid, parent, pgid, 0, 0, b"x HOLDFAST_TREE=%d" % tag) for pid, parent, pgid, tag in described]


@pytest.mark.parametrize(
    ("stranger", "known"),
    [((50, 1, 50, 8), {10}), ((50, 9, 9, 0), {10}), ((50, 1, 11, 0), {10}), ((50, 1, 1, 0), set())],
    ids=["another's mark", "the keeper's group", "a group that has a member's number", "no tie at all"],
)
def test_a_family_takes_in_no_stranger(stranger: tuple[int, int, int, int], known: set[int]) -> None:
    rows = rows_of(
        (1, 0, 1, 0), (9, 1, 9, 0), stranger, (10, 9, 10, 7), (11, 10, 10, 0), (12, 11, 12, 0), (13, 1, 12, 0)
    )
    assert {row.pid for row in find_family(rows, known, 7)} == {10, 11, 12, 13}


def test_a_tree_knows_again_who_left_its_group_and_its_parent_and_forgets_numbers_that_nobody_has() -> None:
    channel, other = line_pair()
    with channel, other, subprocess.Popen(["true"]) as leader:
        tree = Tree(channel, 7, leader)
        tree.look(rows_of((leader.pid, 1, leader.pid, 7), (50, leader.pid, leader.pid, 0)))
        leader.wait()
        tree.reap()
        tree.look(rows_of((50, 1, 50, 0), (60, 1, leader.pid, 0)))
        assert [row.pid for row in tree.members] == [50, 60]
        tree.look(rows_of((60, 1, leader.pid, 0)))
        tree.look(rows_of((50, 1, 50, 0)))  # a stranger by now
        assert tree.members == []


def test_lines_that_come_at_once_are_heard_one_by_one() -> None:
    one, other = line_pair()
    with one, other:
        for word in (b"started 1 2", b"exit 0", b"gone"):
            one.send(word)
        one.shutdown(1)
        assert [other.recv(65536) for _ in range(4)] == [b"started 1 2", b"exit 0", b"gone", b""]


def test_s3_12_without_anything_that_only_linux_has_flows_jobs_and_held_processes_work(tmp_path: Path) -> None:
    here = Path(__file__).parent
    words = [sys.executable, "-I", str(here / "darwin.py"), str(here / "mac_user.py")]
    env: dict[str, Any] = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(words, env=env, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith('"all is well"\n')
    assert '"greeting": "hello"' in done.stdout
