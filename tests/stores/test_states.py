"""Where `@persist` flows keep their states: in memory, and in an SQLite file that processes share."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.errors import ClosedError, CorruptStoreError, StorageError, StoreUnavailableError, UsageError
from holdfast.ports import FlowPersistence
from holdfast.stores import MemoryPersistence, SqlitePersistence
from holdfast.testing import ManualClock
from holdfast.testing.persistence_conformance import FlowPersistenceConformance


class TestMemory(FlowPersistenceConformance):
    def make_persistence(self) -> FlowPersistence:
        return MemoryPersistence()


class TestSqlite(FlowPersistenceConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "a" / "b" / "states.db"

    def make_persistence(self) -> FlowPersistence:
        return SqlitePersistence(self.path)

    def make_twin(self, persistence: FlowPersistence) -> FlowPersistence | None:
        return SqlitePersistence(self.path)


def start_program(path: Path, body: str) -> subprocess.Popen[str]:
    code = f"from holdfast.stores import SqlitePersistence\nstates = SqlitePersistence({str(path)!r})\n"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code + textwrap.dedent(body)], stdout=subprocess.PIPE, text=True
    )


def test_the_file_its_folder_and_its_log_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with SqlitePersistence(tmp_path / "new" / "states.db") as states:
            states.save_state("one", "method", {"id": "one"})
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    finally:
        os.umask(before)
    assert set(modes) == {"states.db", "states.db-wal", "states.db-shm"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_every_commit_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    with SqlitePersistence(tmp_path / "states.db") as states:
        states.save_state("one", "method", {"id": "one"})
        assert states._connection is not None
        assert states._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert states._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_the_last_saves_of_each_id_are_kept_and_no_more(tmp_path: Path) -> None:
    clock = ManualClock()
    with SqlitePersistence(tmp_path / "states.db", keep=3, clock=clock) as states:
        states.save_state("other", "early", {"id": "other"})
        for n in range(8):
            states.save_state("one", f"method{n}", {"id": "one", "n": n})
        history = states.history("one")
        assert [(saved.method, saved.state["n"]) for saved in history] == [
            ("method7", 7),
            ("method6", 6),
            ("method5", 5),
        ]
        assert {saved.saved_us for saved in history} == {clock.time_ns() // 1000}
        assert [saved.method for saved in states.history("other")] == ["early"]
    with pytest.raises(UsageError, match="keep=0"):
        SqlitePersistence(tmp_path / "states.db", keep=0)


def test_processes_that_start_together_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "states.db"
    programs = [
        start_program(
            path,
            f"""
            with states:
                for n in range(40):
                    states.save_state("p{number}", "method", {{"id": "p{number}", "n": n}})
                    states.save_state("shared", "method", {{"id": "shared", "n": n}})
            """,
        )
        for number in range(3)
    ]
    assert [program.communicate(timeout=50)[0] for program in programs] == [""] * 3
    assert [program.returncode for program in programs] == [0, 0, 0]
    with SqlitePersistence(path) as states:
        assert [(states.load_state(f"p{number}") or {})["n"] for number in range(3)] == [39, 39, 39]
        assert (states.load_state("shared") or {})["n"] == 39
    assert [found.name for found in tmp_path.iterdir()] == ["states.db"]


def test_what_was_saved_before_kill_9_is_there(tmp_path: Path) -> None:
    path = tmp_path / "states.db"
    program = start_program(
        path,
        """
        n = 0
        while True:
            n += 1
            states.save_state("one", "method", {"id": "one", "n": n, "text": "x" * 20_000})
            print(n, flush=True)
        """,
    )
    last = 0
    with program:
        assert program.stdout is not None
        for _ in range(60):
            last = int(program.stdout.readline())
        program.send_signal(signal.SIGKILL)
        for line in program.stdout:
            last = int(line) if line.endswith("\n") else last
    with SqlitePersistence(path) as states:
        assert (states.load_state("one") or {})["n"] in (last, last + 1)


def test_a_forked_child_and_its_parent_both_go_on(tmp_path: Path) -> None:
    done = start_program(
        tmp_path / "states.db",
        """
        import os
        states.save_state("one", "method", {"id": "one", "n": 0})
        child = os.fork()
        assert states._connection is None  # SQLite's locks do not cross a fork
        with states:
            for n in range(30):
                states.save_state("child" if child == 0 else "parent", "method", {"n": n})
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """,
    )
    done.communicate(timeout=50)
    assert done.returncode == 0
    with SqlitePersistence(tmp_path / "states.db") as states:
        assert [states.load_state(name) for name in ("child", "parent")] == [{"n": 29}, {"n": 29}]


def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = path.read_bytes()
    with SqlitePersistence(path) as states, pytest.raises(StorageError, match=r"other\.db holds no flow states"):
        states.save_state("one", "method", {"id": "one"})
    assert path.read_bytes() == before


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "states.db"
    with SqlitePersistence(path) as states:
        states.save_state("one", "method", {"id": "one"})
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with SqlitePersistence(path) as states, pytest.raises(StorageError, match="schema 99; this one knows 1"):
        states.load_state("one")


def test_a_damaged_file_is_said_to_be_so(tmp_path: Path) -> None:
    path = tmp_path / "states.db"
    path.write_bytes(b"SQLite format 3\0" + b"rubbish" * 1000)
    with (
        SqlitePersistence(path) as states,
        pytest.raises(CorruptStoreError, match=r"states\.db is damaged .*\.recover"),
    ):
        states.load_state("one")
    assert path.read_bytes().endswith(b"rubbish")


def test_a_file_that_was_deleted_is_not_written_into_the_void(tmp_path: Path) -> None:
    path = tmp_path / "states.db"
    with SqlitePersistence(path) as states:
        states.save_state("one", "method", {"id": "one"})
        path.unlink()
        with pytest.raises(StoreUnavailableError, match="is gone"):
            states.save_state("one", "method", {"id": "one"})
    assert not path.exists()


def test_a_file_put_in_its_place_is_the_one_that_is_used(tmp_path: Path) -> None:
    path, backup = tmp_path / "states.db", tmp_path / "backup.db"
    with SqlitePersistence(backup) as other:
        other.save_state("one", "method", {"n": "from the backup"})
    with SqlitePersistence(path) as states:
        states.save_state("one", "method", {"n": "old"})
        for leftover in tmp_path.glob("states.db-*"):
            leftover.unlink()
        backup.replace(path)
        assert states.load_state("one") == {"n": "from the backup"}


def test_a_lock_that_stays_is_an_error_in_words_and_the_next_save_works(tmp_path: Path) -> None:
    path = tmp_path / "states.db"
    with SqlitePersistence(path, busy_seconds=0.01) as states:
        states.save_state("one", "method", {"n": 1})
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="another process kept it locked"):
            states.save_state("one", "method", {"n": 2})
        assert states.load_state("one") == {"n": 1}
        other.execute("ROLLBACK")
        other.close()
        states.save_state("one", "method", {"n": 3})
        assert states.load_state("one") == {"n": 3}


async def test_both_are_async_context_managers_too(tmp_path: Path) -> None:
    for backend in (SqlitePersistence(tmp_path / "states.db"), MemoryPersistence()):
        async with backend:
            backend.save_state("one", "method", {"n": 1})
        with pytest.raises(ClosedError):
            backend.load_state("one")


def test_one_left_open_is_a_resource_warning(tmp_path: Path) -> None:
    kept = [SqlitePersistence(tmp_path / "states.db")]
    kept[0].save_state("one", "method", {"n": 1})
    with pytest.warns(ResourceWarning, match="never closed"):
        kept.clear()
