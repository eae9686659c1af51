"""`holdfast resources`, as a user runs it, beside a live owner and after a dead one."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_cli import holdfast
from tests.resources.killing import all_end, heard, owner

from holdfast.testing import process_audit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kept processes are refused elsewhere, in words")


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    with process_audit():
        yield


def run(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return holdfast("resources", *arguments, "--store", str(store))


def test_what_is_held_is_listed_with_run_time_and_memory_and_swept_once_its_owner_is_dead(tmp_path: Path) -> None:
    store = tmp_path / "holdfast.db"
    with owner("leases", str(store)) as process:
        said = heard(process)
        shown = {one["kind"]: one for one in json.loads(run(store, "--json").stdout)}
        assert set(shown) == {"process", "directory"}
        tree = shown["process"]
        assert (tree["state"], tree["runs"], tree["owner_pid"]) == ("held", [said["run"]], process.pid)
        assert {use["pid"] for use in tree["processes"]} == set(said["pids"])
        assert tree["memory_bytes"] > 0
        assert shown["directory"]["path"] == said["folder"]
        lines = run(store).stdout.splitlines()
        assert [line.split("\t")[:4] for line in lines] == [
            ["process", "sh", "held", said["run"]],
            ["directory", "scratch", "held", said["run"]],
        ]
        assert run(store, "sweep").stdout == "ended 0, left 0\n"
        for keeper in said["keepers"]:
            os.kill(keeper, signal.SIGSTOP)
        process.kill()
        process.wait()
        for keeper in said["keepers"]:
            os.kill(keeper, signal.SIGKILL)
        assert {one["state"] for one in json.loads(run(store, "--json").stdout)} == {"orphaned"}
        report = json.loads(holdfast("resources", "sweep", "--json", "--store", str(store)).stdout)
        assert [row["kind"] for row in report["ended"]] == ["process", "directory"]
        assert (report["left"], report["problem"]) == ([], "")
        assert all_end(said["pids"], 10)
        assert not Path(said["folder"]).exists()
        assert json.loads(run(store, "--json").stdout) == []


def test_a_ledger_that_cannot_be_read_means_that_nothing_is_done_and_exit_code_1(tmp_path: Path) -> None:
    store = tmp_path / "holdfast.db"
    with owner("leases", str(store)) as process:
        heard(process)
        connection = sqlite3.connect(store)
        connection.execute("INSERT INTO resource (id, data) VALUES ('odd', '{}')")
        connection.commit()
        connection.close()
        done = run(store, "sweep")
        assert done.returncode == 1
        assert done.stdout.startswith("nothing was swept: ")
        assert run(store).returncode == 1
        os.kill(process.pid, signal.SIGKILL)
    connection = sqlite3.connect(store)
    connection.execute("DELETE FROM resource WHERE id = 'odd'")
    connection.commit()
    connection.close()
    assert run(store, "sweep").returncode == 0


def test_without_a_store_nothing_is_held_and_none_is_made(tmp_path: Path) -> None:
    store = tmp_path / "holdfast.db"
    assert (run(store).stdout, run(store, "--json").stdout) == ("", "[]\n")
    assert run(store, "sweep").stdout == "ended 0, left 0\n"
    assert not store.exists()


def test_outside_a_project_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)
    done = holdfast("resources")
    assert done.returncode == 3
    assert "there is no .holdfast/ here or in a folder above" in done.stderr
