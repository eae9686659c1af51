"""Both managers keep every promise of the port; what is special to each."""

from __future__ import annotations

import asyncio
import glob
import os
from pathlib import Path
from typing import Any

import pytest
from tests.resources.trees import CHAIN, is_alive, shell
from tests.runs.support import run_script

from holdfast.errors import HandshakeError, ResourceError, SpawnError
from holdfast.ports import ResourceManager
from holdfast.resources import (
    Command,
    DirectoryManager,
    DirectorySpec,
    KeptProcess,
    Limits,
    ProcessManager,
    ProcessSpec,
)
from holdfast.stores import MemoryLedger, SqliteLedger
from holdfast.testing._audit import started_here
from holdfast.testing.resource_conformance import Borrower, ResourceManagerConformance


class TestProcessManager(ResourceManagerConformance):
    def make_manager(self) -> ResourceManager:
        return ProcessManager(MemoryLedger(), limits=Limits(total=20))

    def make_spec(self, number: int) -> Any:
        return ProcessSpec(Command(("/bin/sh", "-c", "exec cat", str(number))))

    def is_there(self, lease: Any) -> bool:
        return is_alive(lease.resource.pid)


class TestExclusiveProcesses(TestProcessManager):
    def make_manager(self) -> ResourceManager:
        return ProcessManager(MemoryLedger(), limits=Limits(total=20, per_key=20, sharing=1))


class TestDirectoryManager(ResourceManagerConformance):
    def make_manager(self) -> ResourceManager:
        return DirectoryManager(MemoryLedger())

    def make_spec(self, number: int) -> Any:
        return DirectorySpec(f"scratch-{number}")

    def is_there(self, lease: Any) -> bool:
        return bool(lease.resource.is_dir())


async def greet(process: KeptProcess) -> None:
    assert await process.readline() == b"ready\n"


async def test_a_program_whose_name_is_no_text_can_be_written_down(tmp_path: Path) -> None:
    program = os.fsencode(tmp_path) + b"/odd-\xff"
    os.symlink("/bin/cat", program)
    async with SqliteLedger(tmp_path / "holdfast.db") as ledger:
        manager = ProcessManager(ledger)
        lease = await manager.acquire(ProcessSpec(Command((os.fsdecode(program),))), Borrower())
        assert [row.name for row in await ledger.rows()] == [lease.name] == ["odd-?"]
        await manager.release_all()


def dig(folder: Path, depth: int) -> None:
    """Folders in folders, more than a path has room for."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("x", dir_fd=at)
        below = os.open("x", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


async def test_a_directory_goes_however_deep_it_is() -> None:
    manager = DirectoryManager(MemoryLedger())
    lease = await manager.acquire(DirectorySpec(), Borrower())
    dig(lease.resource, 3000)
    await lease.release()
    assert manager.inventory() == []
    assert str(lease.resource) not in glob.glob(f"{lease.resource}*")
    await manager.release_all()


CHAINED = ProcessSpec(shell(CHAIN), handshake=greet)


async def test_s3_2_runs_that_ask_for_the_same_process_share_it_and_the_last_one_ends_all_of_it() -> None:
    manager = ProcessManager(MemoryLedger())
    one, two = Borrower(), Borrower()
    first, second = await manager.acquire(CHAINED, one), await manager.acquire(CHAINED, two)
    assert first.resource is second.resource
    (held,) = manager.inventory()
    assert held.runs == tuple(sorted((one.id, two.id)))
    assert len(held.processes) == 3
    assert held.memory_bytes > 0
    pids = [use.pid for use in held.processes]
    await first.release()
    assert all(is_alive(pid) for pid in pids)
    await second.release()
    assert [pid for pid in pids if is_alive(pid)] == []
    await manager.release_all()


@pytest.mark.parametrize(
    "other",
    [
        ProcessSpec(Command(("cat", "-"))),
        ProcessSpec(Command(("cat",), env={"PATH": "/bin:/usr/bin"})),
        ProcessSpec(Command(("cat",), cwd="/")),
        ProcessSpec(Command(("cat",), stderr="stdout")),
        ProcessSpec(Command(("cat",)), shaped_by=("model-b",)),
    ],
)
async def test_whatever_shapes_a_process_keeps_it_from_being_shared(other: ProcessSpec) -> None:
    manager = ProcessManager(MemoryLedger())
    first = await manager.acquire(ProcessSpec(Command(("cat",))), Borrower())
    second = await manager.acquire(other, Borrower())
    assert first.resource is not second.resource
    await manager.release_all()


async def test_s3_5_a_process_that_dies_by_itself_is_struck_out_with_all_it_left_and_not_given_out_again() -> None:
    ledger = MemoryLedger()
    manager = ProcessManager(ledger)
    lease = await manager.acquire(CHAINED, Borrower())
    pids = [use.pid for use in lease.resource.processes()]
    os.kill(lease.resource.pid, 9)
    await lease.resource.gone()
    again = await manager.acquire(CHAINED, Borrower())
    assert again.resource is not lease.resource
    assert [pid for pid in pids if is_alive(pid)] == []
    assert [row.leader for row in await ledger.rows()] == [again.resource.leader]
    await lease.release()
    assert is_alive(again.resource.pid)
    await manager.release_all()
    assert await ledger.rows() == []


async def hangs(process: KeptProcess) -> None:
    await asyncio.Event().wait()


async def breaks(process: KeptProcess) -> None:
    await process.readline()
    raise ValueError("it speaks another protocol")


async def test_s3_3_a_handshake_that_fails_leaves_nothing_and_says_what_was_said() -> None:
    ledger = MemoryLedger()
    manager = ProcessManager(ledger)
    spec = ProcessSpec(shell("echo sorry >&2; " + CHAIN), label="agent", handshake=breaks)
    with pytest.raises(HandshakeError, match="agent started, but it speaks another protocol; it said: sorry"):
        await manager.acquire(spec, Borrower())
    assert await ledger.rows() == []
    assert manager.inventory() == []
    assert [found for found in started_here() if "sleep" in found.command] == []
    await manager.release_all()


async def test_s3_3_a_handshake_that_hangs_is_given_up_and_leaves_nothing() -> None:
    manager = ProcessManager(MemoryLedger())
    spec = ProcessSpec(shell("sleep 1000"), handshake=hangs, handshake_timeout=0.05)
    with pytest.raises(HandshakeError, match=r"did not answer in 0\.05 s; it said nothing on standard error"):
        await manager.acquire(spec, Borrower())
    assert [found for found in started_here() if "sleep" in found.command] == []
    await manager.release_all()


async def test_a_command_that_cannot_start_is_told_to_everybody_who_waits_for_it() -> None:
    ledger = MemoryLedger()
    manager = ProcessManager(ledger)
    spec = ProcessSpec(Command(("no-such-command",)))
    told = await asyncio.gather(*(manager.acquire(spec, Borrower()) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in told] == [SpawnError] * 3
    assert await ledger.rows() == []
    await manager.release_all()


async def test_a_goodbye_is_said_before_the_end(tmp_path: Path) -> None:
    async def goodbye(process: KeptProcess) -> None:
        await process.write(b"bye\n")
        await process.readline()

    manager = ProcessManager(MemoryLedger())
    note = tmp_path / "note"
    spec = ProcessSpec(shell(f"read line; echo $line > {note}; echo done; exec cat"), goodbye=goodbye)
    await (await manager.acquire(spec, Borrower())).release()
    assert note.read_text() == "bye\n"
    await manager.release_all()


async def test_the_ledger_knows_of_a_process_before_during_and_after(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "holdfast.db")
    manager = ProcessManager(ledger)
    seen: list[Any] = []

    async def look(process: KeptProcess) -> None:
        seen.extend(await ledger.rows())

    run = Borrower()
    lease = await manager.acquire(ProcessSpec(Command(("cat",)), handshake=look), run)
    (intent,), (row,) = seen, await ledger.rows()
    assert (intent.leader, intent.tag) == (None, lease.resource.tag)
    assert (row.id, row.tag, row.runs) == (intent.id, intent.tag, (run.id,))
    assert (row.leader, row.keeper) == (lease.resource.leader, lease.resource.keeper)
    assert row.owner.process.pid == os.getpid()
    await lease.release()
    assert await ledger.rows() == []
    await manager.release_all()
    await ledger.aclose()


async def test_a_directory_is_new_private_and_gone_with_all_it_holds(tmp_path: Path) -> None:
    manager = DirectoryManager(MemoryLedger())
    lease = await manager.acquire(DirectorySpec(parent=str(tmp_path)), Borrower())
    folder = lease.resource
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    (folder / "deep").chmod(0o500)
    await lease.release()
    assert not folder.exists()
    assert (outside / "precious").exists()
    await manager.release_all()


def test_a_folder_that_a_program_locked_is_unlocked_and_removed() -> None:
    done = run_script(
        """
        import os, tempfile
        from pathlib import Path
        from holdfast.resources._directory_manager import remove_tree

        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o777)
            child = os.fork()
            if not child:
                if os.getuid() == 0:
                    os.setuid(65534)  # nobody: root may do anything
                folder = Path(place) / "x"
                (folder / "deep" / "er").mkdir(parents=True)
                (folder / "deep" / "link").symlink_to("/")
                (folder / "deep").chmod(0o000)
                folder.chmod(0o500)
                print(repr(remove_tree(folder)), folder.exists(), flush=True)
                os._exit(0)
            os.waitpid(child, 0)
        """
    )
    assert (done.stdout, done.stderr) == ("'' False\n", "")


async def test_s3_12_a_place_for_temporary_files_that_is_a_link_is_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "link"))
    manager = DirectoryManager(MemoryLedger())
    lease = await manager.acquire(DirectorySpec(), Borrower())
    assert lease.resource.parent == (tmp_path / "real").resolve()
    await manager.release_all()
    assert list((tmp_path / "real").iterdir()) == []


async def test_a_directory_that_cannot_be_made_says_why() -> None:
    ledger = MemoryLedger()
    manager = DirectoryManager(ledger)
    with pytest.raises(ResourceError, match="cannot be made: No such file or directory"):
        await manager.acquire(DirectorySpec(parent="/no/such/place"), Borrower())
    assert await ledger.rows() == []
    await manager.release_all()
