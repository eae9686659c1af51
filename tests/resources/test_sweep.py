"""The sweep ends what dead owners left, and only what it can prove to be theirs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.resources.killing import all_end, heard, owner
from tests.resources.things import BrokenLedger
from tests.resources.trees import is_alive, no_file_is_left, plant

from holdfast.errors import PlatformError
from holdfast.ids import new_id
from holdfast.ports import LedgerRow, Owner, ProcessIdentity
from holdfast.resources import (
    Command,
    DirectoryManager,
    Keeper,
    ProcessManager,
    ProcessSpec,
    SystemProcessTable,
    _table,
    list_held,
    sweep_everything,
    sweep_ledger,
)
from holdfast.resources._keeper import new_tag
from holdfast.resources._sweep import is_same
from holdfast.stores import MemoryLedger, SqliteLedger
from holdfast.testing.resource_conformance import Borrower

TABLE = SystemProcessTable()


@pytest.fixture
def stranger() -> Iterator[int]:
    """Somebody else's process."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        assert process.poll() is None, "a stranger was signalled"
        process.kill()


@pytest.fixture
def dead() -> ProcessIdentity:
    """Who a process was that is gone."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        found = TABLE.identify(process.pid)
        process.kill()
    assert found is not None
    return found


def row_of(owner: ProcessIdentity, **changes: Any) -> LedgerRow:
    values: dict[str, Any] = {"tag": new_tag(), "kind": "process", "name": "agent"}
    return LedgerRow(id=new_id(), owner=Owner(new_id(), owner), since_us=1, **(values | changes))


async def swept(*rows: LedgerRow, table: SystemProcessTable = TABLE) -> tuple[list[str], list[str], list[str]]:
    """Sweep a ledger with these rows. Returns the ids that were ended, the reasons why others were left, what is still there."""
    ledger = MemoryLedger()
    for row in rows:
        await ledger.put(row)
    manager = ProcessManager(ledger, table=table)
    report = await manager.sweep()
    await manager.release_all()
    assert report.problem == ""
    left = [why for _, why in report.left]
    return [row.id for row in report.ended], left, [row.id for row in await ledger.rows()]


def exists(path: str) -> bool:
    return os.path.exists(path)


def me() -> ProcessIdentity:
    found = TABLE.identify(os.getpid())
    assert found is not None
    return found


async def test_s3_6_orphans_of_an_owner_killed_with_all_its_keepers_are_found_by_their_tag(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    with owner("leases", str(path)) as process:
        said = heard(process)
        for keeper in said["keepers"]:
            os.kill(keeper, signal.SIGSTOP)
        process.kill()
        process.wait()
        for keeper in said["keepers"]:
            os.kill(keeper, signal.SIGKILL)
        assert all_end([said["leader"]], 10)
        assert any(is_alive(pid) for pid in said["pids"])
        assert exists(said["folder"])
        async with SqliteLedger(path) as ledger:
            assert {row.kind: row.runs for row in await ledger.rows()} == {
                "process": (said["run"],),
                "directory": (said["run"],),
            }
            for manager in (ProcessManager(ledger), DirectoryManager(ledger)):
                report = await manager.sweep()
                assert [row.kind for row in report.ended] == [manager.kind]
                await manager.release_all()
            assert await ledger.rows() == []
        assert all_end(said["pids"], 10)
        assert not exists(said["folder"])


async def test_s3_6_an_owner_that_cannot_be_looked_at_is_not_taken_for_dead(tmp_path: Path) -> None:
    row = row_of(me())
    folder = tmp_path / f"holdfast-{row.id}"
    folder.mkdir()
    ledger = MemoryLedger()
    await ledger.put(replace(row, kind="directory", path=str(folder)))
    manager = DirectoryManager(ledger)
    with no_file_is_left():
        report = await manager.sweep()
    await manager.release_all()
    ((_, why),) = report.left
    assert "whether its owner is alive cannot be told" in why
    assert "Too many open files" in why
    assert exists(str(folder))


async def test_a_process_that_cannot_be_looked_at_is_not_said_to_carry_nothing() -> None:
    with no_file_is_left(), pytest.raises(OSError, match="Too many open files"):
        _table._carries(os.getpid(), new_tag())


async def test_a_row_whose_end_breaks_does_not_keep_the_sweep_from_the_others(dead: ProcessIdentity) -> None:
    ledger = MemoryLedger()
    rows = [row_of(dead, kind="thing", name=name) for name in ("breaks", "ends")]
    for row in rows:
        await ledger.put(row)

    async def end(row: LedgerRow) -> str:
        if row.name == "breaks":
            raise RuntimeError("it broke")
        return ""

    report = await sweep_ledger(ledger, TABLE, {"thing": end})
    assert [(row.name, why) for row, why in report.left] == [("breaks", "it broke")]
    assert [row.name for row in report.ended] == ["ends"]


async def test_s3_6_two_owners_on_one_host_leave_each_other_alone(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    with owner("leases", str(path)) as process:
        said = heard(process)
        async with SqliteLedger(path) as ledger:
            manager = ProcessManager(ledger)
            lease = await manager.acquire(ProcessSpec(Command(("cat",))), Borrower())
            report = await manager.sweep()
            assert (report.ended, report.left, report.problem) == ([], [], "")
            assert len(await ledger.rows()) == 3
            assert all(is_alive(pid) for pid in [*said["pids"], lease.resource.pid])
            await manager.release_all()
            await DirectoryManager(ledger).sweep()
            assert exists(said["folder"])
        process.kill()
        process.wait()
        async with SqliteLedger(path) as ledger:
            await DirectoryManager(ledger).sweep()


async def test_s3_6_a_pid_that_was_given_to_a_stranger_is_not_signalled(stranger: int, dead: ProcessIdentity) -> None:
    now = TABLE.identify(stranger)
    assert now is not None
    row = row_of(dead, leader=replace(now, inode=now.inode + 1), keeper=now)
    assert await swept(row) == ([row.id], [], [])


async def test_s3_6_an_owner_whose_pid_was_given_to_a_stranger_is_dead(stranger: int) -> None:
    class Recycled(SystemProcessTable):
        """Everybody is somebody else than before."""

        def identify(self, pid: int) -> ProcessIdentity | None:
            found = super().identify(pid)
            return found and replace(found, inode=found.inode + 1)

    row = row_of(me(), leader=TABLE.identify(stranger))
    assert await swept(row, table=Recycled()) == ([row.id], [], [])
    assert await swept(row) == ([], [], [row.id])


async def test_s3_6_a_process_that_turns_out_not_to_carry_the_tag_is_not_signalled(
    stranger: int, dead: ProcessIdentity
) -> None:
    class Mistaken(SystemProcessTable):
        """The pid was given to a stranger after the look."""

        def carriers(self, tag: int) -> list[int]:
            return [stranger]

    row = row_of(dead)
    assert await swept(row, table=Mistaken()) == ([], [f"process {stranger} cannot be killed"], [row.id])


async def test_s3_6_what_carries_the_tag_of_a_dead_owner_is_ended(keeper: Keeper, dead: ProcessIdentity) -> None:
    process = await plant(keeper, "echo ready; sleep 1000 & wait")
    row = row_of(dead, tag=process.tag)
    assert await swept(row) == ([row.id], [], [])
    await process.gone()
    await process.end()


async def test_s3_6_what_belongs_to_another_place_is_left_alone(keeper: Keeper, dead: ProcessIdentity) -> None:
    process = await plant(keeper, "echo ready; exec cat")
    elsewhere = replace(dead, place=replace(dead.place, machine="elsewhere"))
    contained = replace(dead, place=replace(dead.place, namespace="pid:[1]"))
    for identity, why in ((elsewhere, "on another machine, elsewhere"), (contained, "in another container")):
        row = row_of(identity, tag=process.tag)
        ended, (reason,), there = await swept(row)
        assert (ended, there) == ([], [row.id])
        assert why in reason
    await process.write(b"still here\n")
    assert await process.readline() == b"still here\n"
    await process.end()


def test_machines_of_one_name_are_told_apart_by_their_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").write_text("0123456789abcdef\n")
    (tmp_path / "two").write_text("fedcba9876543210\n")
    names = set()
    for ids in ([tmp_path / "one"], [tmp_path / "none", tmp_path / "two"], [tmp_path / "none"]):
        monkeypatch.setattr(_table, "MACHINE_IDS", ids)
        names.add(_table._machine())
    assert len(names) == 3
    assert os.uname().nodename in names
    assert not any("0123456789abcdef" in name for name in names)  # it is said to be confidential


async def test_rows_from_before_a_reboot_are_struck_out_and_nobody_is_signalled(keeper: Keeper) -> None:
    process = await plant(keeper, "echo ready; exec cat")
    before = replace(me(), place=replace(me().place, boot="another"))
    row = row_of(before, tag=process.tag)
    assert await swept(row) == ([row.id], [], [])
    await process.write(b"still here\n")
    assert await process.readline() == b"still here\n"
    await process.end()


async def test_other_kinds_of_rows_are_not_looked_at(dead: ProcessIdentity) -> None:
    row = row_of(dead, kind="virtual machine")
    assert await swept(row) == ([], [], [row.id])


async def test_s3_6_a_sweep_of_everything_ends_all_kinds_that_we_make(
    keeper: Keeper, dead: ProcessIdentity, tmp_path: Path
) -> None:
    ledger = MemoryLedger()
    processes = {kind: await plant(keeper, "echo ready; exec cat") for kind in ("process", "mcp")}
    for kind, process in processes.items():
        await ledger.put(row_of(dead, kind=kind, tag=process.tag))
    folder = row_of(dead, kind="directory")
    await ledger.put(replace(folder, path=str(tmp_path / f"holdfast-{folder.id}")))
    await ledger.put(row_of(dead, kind="virtual machine"))
    report = await sweep_everything(ledger, TABLE)
    assert [row.kind for row in report.ended] == ["process", "mcp", "directory"]
    assert [row.kind for row in await ledger.rows()] == ["virtual machine"]
    for process in processes.values():
        await process.gone()
        await process.end()


async def test_s3_12_where_owners_cannot_be_looked_for_nothing_is_swept_and_that_is_said(
    dead: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = MemoryLedger()
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("holdfast.resources._portable_ps.PLACES", ())
    assert await list_held(ledger, TABLE) == []
    await ledger.put(row_of(dead))
    with pytest.raises(PlatformError, match="kept processes need the command ps"):
        await list_held(ledger, TABLE)
    with pytest.raises(PlatformError, match="kept processes need the command ps"):
        await sweep_everything(ledger, TABLE)
    assert len(await ledger.rows()) == 1


async def test_s3_6_a_ledger_that_cannot_be_read_means_that_nothing_is_done(
    keeper: Keeper, dead: ProcessIdentity
) -> None:
    process = await plant(keeper, "echo ready; exec cat")
    ledger = BrokenLedger()
    await ledger.put(row_of(dead, tag=process.tag))
    ledger.broken = {"rows"}
    manager = ProcessManager(ledger)
    report = await manager.sweep()
    assert (report.ended, report.left) == ([], [])
    assert report.problem == "nothing was swept: the disk is full"
    assert process.returncode is None
    ledger.broken = {"remove"}  # out of reach in the middle: ended, but still written down
    report = await manager.sweep()
    assert [why for _, why in report.left] == ["the disk is full"]
    await process.end()
    await manager.release_all()


async def test_a_directory_is_removed_only_if_its_name_is_one_that_we_give(
    tmp_path: Path, dead: ProcessIdentity
) -> None:
    ledger = MemoryLedger()
    manager = DirectoryManager(ledger)
    row = row_of(dead, kind="directory", path=str(tmp_path))
    await ledger.put(row)
    target = tmp_path / "target"
    target.mkdir()
    linked = row_of(dead, kind="directory")
    linked = replace(linked, path=str(tmp_path / f"holdfast-{linked.id}"))
    os.symlink(target, linked.path)
    await ledger.put(linked)
    report = await manager.sweep()
    assert report.ended == []
    first, second = (why for _, why in report.left)
    assert "is not a name that we give" in first
    assert "is a link" in second
    assert target.is_dir()
    await manager.release_all()


def test_two_identities_are_one_process_only_if_all_that_is_known_is_the_same() -> None:
    one = me()
    assert is_same(one, one)
    assert is_same(one, replace(one, inode=0))
    assert not is_same(one, replace(one, inode=one.inode + 1))
    assert not is_same(one, replace(one, started=one.started + 1))
    assert not is_same(one, replace(one, place=replace(one.place, boot="x")))


async def test_sweeps_may_run_at_once(dead: ProcessIdentity) -> None:
    ledger = MemoryLedger()
    for _ in range(5):
        await ledger.put(row_of(dead))
    manager = ProcessManager(ledger)
    reports = await asyncio.gather(manager.sweep(), manager.sweep())
    assert all(report.left == [] for report in reports)
    assert await ledger.rows() == []
    await manager.release_all()
