"""Files: private, whole whatever happens, and read no further than needed."""
# ruff: noqa: ASYNC240 - the files are what the tests are about, and nothing else is on the loop

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.checkpoints import JsonProvider
from holdfast.errors import CorruptStoreError, StorageError, StoreUnavailableError
from holdfast.testing._checkpoint_base import Story, short_story
from holdfast.testing._journal_base import NOW


def documents(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.json"))


def leftovers(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.tmp"))


async def test_files_have_a_time_and_an_id_and_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "checkpoints"
    mark, document = await short_story(at_us=NOW + 1)
    where = Path(JsonProvider(folder).write(document))
    assert where == folder / mark.root_run_id / f"20250615T150640.000001Z_{mark.id}.json"
    assert where.read_bytes() == document
    assert stat.S_IMODE(where.stat().st_mode) == 0o600
    for made in (where.parent, folder, folder.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert JsonProvider(folder).list()[0].size == len(document)


@pytest.mark.parametrize(("command", "plain"), [("F_GETFD", False), ("F_NOTHING", True)])
async def test_where_the_drive_can_be_flushed_it_is_and_else_fsync_must_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, plain: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(
        "fcntl.F_FULLFSYNC", getattr(fcntl, command, 9999), raising=False
    )  # as on macOS; 9999 is refused
    monkeypatch.setattr("os.fsync", synced.append)
    _, document = await short_story()
    assert Path(JsonProvider(tmp_path).write(document)).read_bytes() == document
    assert bool(synced) is plain


async def test_hostile_ids_stay_inside_the_directory(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    story = Story("../../run")
    await story.fork("../../branch", await story.go())
    mark = await story.go(branch="../../branch", id="../../mark.json")
    where = Path(JsonProvider(folder).write(await story.document(mark)))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [where]
    assert where.parent.parent == folder


async def test_only_files_inside_the_directory_are_read(tmp_path: Path) -> None:
    provider = JsonProvider(tmp_path / "mine")
    _, document = await short_story()
    where = Path(provider.write(document))
    outside = tmp_path / "outside.json"
    outside.write_bytes(document)
    link = where.with_name("link.json")
    link.symlink_to(outside)
    for path in (outside, Path("../outside.json"), link):
        with pytest.raises(StorageError, match="no checkpoint in"):
            provider.read(str(path))
    assert [info.location for info in provider.list()] == [str(where)]
    assert provider.read(str(where.relative_to(tmp_path / "mine"))) == document


@pytest.mark.parametrize("moment", range(12))
async def test_s1_6_a_writer_killed_at_any_call_leaves_the_old_file_or_the_new_one(tmp_path: Path, moment: int) -> None:
    folder = tmp_path / "checkpoints"
    story = Story()
    old, new = await story.go(), await story.go()
    provider = JsonProvider(folder)
    provider.write(await story.document(old))
    (tmp_path / "new").write_bytes(await story.document(new))
    command = [sys.executable, "-m", "tests.checkpoints.crash", "write_until"]
    command += [str(folder), str(tmp_path / "new"), str(moment)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=50)
    assert done.returncode in (-signal.SIGKILL, 0), done.stderr
    assert done.returncode == -signal.SIGKILL or moment > 3, "too few moments: the test kills nothing"
    ids = [info.id for info in provider.list()]
    assert ids in ([old.id], [new.id, old.id])
    assert len(documents(folder)) == len(ids)
    for checkpoint in ids:
        provider.read(checkpoint)
    provider.prune(keep=9)
    assert leftovers(folder) == []
    provider.write((tmp_path / "new").read_bytes())
    assert [info.id for info in provider.list()] == [new.id, old.id]


async def test_a_sweep_leaves_a_writer_that_is_at_work_alone(tmp_path: Path) -> None:
    import fcntl

    provider = JsonProvider(tmp_path)
    where = Path(provider.write((await short_story())[1]))
    busy, dead = (where.with_name(f".{name}.json.0.tmp") for name in ("busy", "dead"))
    dead.touch()
    with busy.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        provider.prune(keep=1)
        assert leftovers(tmp_path) == [busy]
    provider.prune(keep=1)
    assert leftovers(tmp_path) == []


async def test_foreign_and_torn_files_are_skipped_with_a_warning_that_names_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = JsonProvider(tmp_path)
    mark, document = await short_story()
    where = Path(provider.write(document))
    bad = {
        "empty.json": b"",
        "foreign.json": b'{"name": "package"}',
        "torn.json": document[:-40],
        "torn early.json": document[:200],
        "binary.json": bytes(range(256)),
        "newer.json": document.replace(b'"holdfast_checkpoint": 1', b'"holdfast_checkpoint": 9'),
    }
    for name, data in bad.items():
        where.with_name(name).write_bytes(data)
    where.with_name("notes.txt").write_text("not looked at")
    (tmp_path / "folder.json").mkdir()
    with caplog.at_level(logging.WARNING, "holdfast.checkpoints"):
        assert [info.id for info in provider.list()] == [mark.id]
    assert {Path(record.args[0]).name for record in caplog.records if isinstance(record.args, tuple)} == {*bad}  # type: ignore[arg-type]
    with pytest.raises(CorruptStoreError, match=r"torn\.json.*ends early"):
        provider.read(str(where.with_name("torn.json")))
    assert provider.prune(keep=0) == 1
    assert {path.name for path in documents(tmp_path) if path.is_file()} == {*bad}


async def test_a_document_that_was_copied_or_written_anew_is_listed(tmp_path: Path) -> None:
    provider = JsonProvider(tmp_path)
    story = Story()
    copied, changed = await story.go(), await story.go()
    (tmp_path / "copied.json").write_bytes(await story.document(copied))
    plain = json.loads(await story.document(changed))
    del plain["sha256"]
    (tmp_path / "changed.json").write_text(json.dumps(plain, indent=2))
    assert [(info.id, info.parent_id) for info in provider.list()] == [(changed.id, copied.id), (copied.id, None)]
    assert provider.prune(keep=1) == 1
    assert [path.name for path in documents(tmp_path)] == ["changed.json"]


async def test_a_list_reads_the_first_and_the_last_lines_only(tmp_path: Path) -> None:
    provider = JsonProvider(tmp_path)
    mark, document = await short_story(2_000)
    where = Path(provider.write(document))
    damaged = bytearray(document)
    damaged[len(damaged) // 2] ^= 1  # in the middle, where a list has no business
    where.write_bytes(damaged)
    assert [info.id for info in provider.list()] == [mark.id]
    with pytest.raises(CorruptStoreError, match="checksum"):
        provider.read(mark.id)


async def test_pruning_does_not_go_by_the_files_own_times(tmp_path: Path) -> None:
    provider = JsonProvider(tmp_path)
    story = Story()
    marks = [await story.go() for _ in range(3)]
    for age, mark in enumerate(marks):
        os.utime(provider.write(await story.document(mark)), (9_000 - age, 9_000 - age))  # the oldest was touched last
    assert provider.prune(keep=1) == 2
    assert [info.id for info in provider.list()] == [marks[2].id]


async def test_a_pruned_run_leaves_no_folder(tmp_path: Path) -> None:
    provider = JsonProvider(tmp_path)
    provider.write((await short_story())[1])
    provider.prune(keep=0)
    assert list(tmp_path.iterdir()) == []


async def test_a_directory_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    provider = JsonProvider(tmp_path / "file")
    with pytest.raises(StoreUnavailableError, match="see to the path"):
        provider.write((await short_story())[1])
    assert provider.list() == []


async def test_a_full_disk_leaves_the_old_file_and_no_half_one(tmp_path: Path) -> None:
    provider = JsonProvider(tmp_path)
    story = Story()
    old, new = await story.go(), await story.go(2_000)
    provider.write(await story.document(old))
    large = await story.document(new)
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(StoreUnavailableError):
            provider.write(large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [info.id for info in provider.list()] == [old.id]
    assert leftovers(tmp_path) == []


def test_a_program_pays_only_for_the_provider_it_has() -> None:
    report = (
        "import sys, holdfast.checkpoints as c; c.JsonProvider; a = 'sqlite3' in sys.modules; c.SqliteProvider;"
        "c.PostgresProvider; print(a, 'sqlite3' in sys.modules, 'asyncpg' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", report], check=True, capture_output=True, text=True)
    assert done.stdout == "False True False\n"
