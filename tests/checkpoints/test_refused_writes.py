"""A journal that cannot be written fails the run, loudly; what was recorded goes on once there is room."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from tests.checkpoints.orders import Order, World, finish_order

from holdfast import CheckpointConfig, Pending, Runtime
from holdfast.errors import RunUnrecordedError, StoreUnavailableError
from holdfast.ports import JournalStore, RunInfo
from holdfast.stores import MemoryStore, SqliteStore
from holdfast.testing import CrashingStore, CrashPoint, refuse_write


def known_run(store: JournalStore) -> RunInfo | None:
    return next(iter(asyncio.run(store.runs())), None)


def play(*arguments: object) -> str:
    command = [sys.executable, "-m", "tests.checkpoints.crash", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def check_ends(store: JournalStore, folder: Path, runtime: Runtime) -> None:
    flow = finish_order(store, World(folder), runtime)
    assert (flow.state.total, flow.state.rounds, flow.state.who) == (1111, 3, ("Ann", "30"))


def error_of(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except (StoreUnavailableError, RunUnrecordedError) as error:
        return error
    return None


def count_writes(folder: Path, runtime: Runtime) -> int:
    store = CrashingStore(MemoryStore())
    finish_order(store, World(folder), runtime)
    return len(store.writes)


@pytest.mark.parametrize(("moment", "every"), [("before", 1), ("after", 3)])
def test_a_write_that_is_refused_fails_the_run_with_its_reason_and_the_run_goes_on(
    tmp_path: Path, runtime: Runtime, moment: Literal["before", "after"], every: int
) -> None:
    for number in range(2, count_writes(tmp_path, runtime), every):
        memory = MemoryStore()
        store = CrashingStore(memory, CrashPoint(number, moment), refuse_write)
        error = error_of(partial(finish_order, store, World(tmp_path), runtime))
        if error is None:  # letting go of what is stored is no reason to fail
            assert store.writes[number - 1 : number] in ([], ["close_session"])
        else:
            assert "was refused by a crash point" in str(error)
        if (moment, store.writes[-1]) != ("after", "open"):  # a hold that nobody knows of runs out by itself
            run = known_run(memory)
            assert run is not None
            assert (run.status in ("running", "waiting", "completed"), run.held_until_us) == (True, 0)
            check_ends(memory, tmp_path, runtime)


@pytest.mark.parametrize("limit", [280_000, 320_000, 360_000, 400_000])
def test_a_full_disk_fails_the_run_with_its_reason_and_the_run_goes_on_once_there_is_room(
    tmp_path: Path, runtime: Runtime, limit: int
) -> None:
    said = play("order_until_full", tmp_path, limit)
    assert "journal.db" in said
    with SqliteStore(tmp_path / "journal.db") as store:
        run = known_run(store)
        assert run is not None
        assert run.status in ("running", "waiting")  # as it was when the last write fitted
        check_ends(store, tmp_path, runtime)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for half an order."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "none", disk], capture_output=True, check=False
    ).returncode:
        pytest.skip("only root, where it may, can mount a file system")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_disk_that_is_really_full_does_too(small_disk: Path, tmp_path: Path, runtime: Runtime) -> None:
    said = play("order_on", small_disk, tmp_path)
    assert "full" in said
    with SqliteStore(small_disk / "journal.db") as store:
        run = known_run(store)
        assert run is not None
        assert run.status == "running"
    subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
    with SqliteStore(small_disk / "journal.db") as store:
        check_ends(store, tmp_path, runtime)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter; those of pytest are its owner's alone."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_journal_that_may_only_be_read_is_no_place_to_go_on_and_stays_as_it_was(
    open_folder: Path, runtime: Runtime
) -> None:
    journal = open_folder / "journal.db"
    with SqliteStore(journal) as store:
        flow = Order(World(open_folder), checkpoint=CheckpointConfig(store), runtime=runtime)
        assert isinstance(flow.kickoff(), Pending)
    journal.chmod(0o444)
    open_folder.chmod(0o555)
    assert play("order_without_rights", open_folder).startswith("StoreUnavailableError: ")
    with SqliteStore(journal) as store:
        run = known_run(store)
        assert run is not None
        assert run.status == "waiting"
        check_ends(store, open_folder, runtime)
