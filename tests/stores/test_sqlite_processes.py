"""The file survives the deaths of its processes, shares itself among them, and says when it cannot be written."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.stores import SqliteStore
from holdfast.testing._journal_base import NOW, SECOND, make_info, open_run, positions, written

PROGRAM = [sys.executable, str(Path(__file__).with_name("crash.py"))]


def run(*arguments: str | Path) -> str:
    done = subprocess.run([*PROGRAM, *map(str, arguments)], check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill_after(path: Path, acknowledged: int) -> int:
    """Kill an appending process once it has acknowledged so many batches; return the last row it acknowledged."""
    last = 0
    with subprocess.Popen([*PROGRAM, "append_for_ever", str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(acknowledged):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:
            last = int(line) if line.endswith(b"\n") else last
    return last


@pytest.mark.parametrize("acknowledged", [1, 2, 17, 150, 400])
async def test_what_was_acknowledged_before_kill_9_is_there(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "journal.db"
    for _ in range(2):  # the second time the file is one that a killed process left
        last = kill_after(path, acknowledged)
        store = SqliteStore(path)
        rows = await positions(store, "victim")
        assert rows == list(range(1, len(rows) + 1))
        assert len(rows) % 3 == 0  # whole batches only
        assert last <= len(rows) <= last + 3
        session = await open_run(store, make_info("victim"), owner="survivor")
        await store.append(written(session, session.head + 1, session.head + 3))
        await store.close_session(session)
        await store.aclose()


def start_beside(path: Path, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, "append_beside", str(path), name, "60"])


async def test_several_processes_fill_one_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    names = [f"run {n}" for n in range(4)]
    processes = [start_beside(path, name) for name in names]
    assert [await asyncio.to_thread(process.wait, 50) for process in processes] == [0] * 4
    store = SqliteStore(path)
    for name in names:
        assert await positions(store, name) == list(range(1, 61))
    fences = {(await open_run(store, make_info(name), owner=name)).fence for name in names}
    assert fences == {5, 6, 7, 8}
    await store.aclose()


async def test_a_run_held_by_one_process_is_busy_for_another(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await open_run(store, make_info("held"), owner="parent")
    assert run("open_held", tmp_path / "journal.db") == "busy\n"
    await store.aclose()


async def test_a_full_disk_stores_nothing_by_halves_and_can_be_used_once_there_is_room(tmp_path: Path) -> None:
    last = int(run("fill_the_disk", tmp_path / "journal.db"))
    assert last > 5
    store = SqliteStore(tmp_path / "journal.db")
    assert await positions(store, "full") == list(range(1, last + 1))
    await store.aclose()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach; pytest's own they cannot."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
async def test_a_file_that_may_only_be_read_says_so(open_folder: Path) -> None:
    assert run("lose_the_right_to_write", open_folder / "journal.db") == "StoreUnavailableError\n"


async def test_parent_and_child_of_a_fork_do_not_share_a_connection(tmp_path: Path) -> None:
    run("fork_in_the_middle", tmp_path / "journal.db")
    store = SqliteStore(tmp_path / "journal.db")
    assert await positions(store, "parent") == [1, 2, 3, 4]
    assert await positions(store, "child") == list(range(1, 101))
    assert (await open_run(store, make_info("child"), owner="three", now_us=NOW + SECOND)).incarnation == 2
    await store.aclose()
