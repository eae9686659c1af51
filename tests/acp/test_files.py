"""`FileDoor`: what an agent reads and writes stays inside the folders it was given."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from holdfast.acp import _files
from holdfast.acp._files import FileDoor
from holdfast.acp._peer import RefusedError


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "inside-not").mkdir()
    (tmp_path / "inside-not" / "secret").write_text("secret")
    return folder


@pytest.fixture
def door(inside: Path) -> FileDoor:
    return FileDoor((), (str(inside),))


@pytest.mark.parametrize("path", ["../secret", "sub/../../secret", "../inside-not/secret", "link", "links/secret"])
def test_no_path_leads_out(door: FileDoor, inside: Path, path: str) -> None:
    (inside / "sub").mkdir()
    (inside / "link").symlink_to("../secret")
    (inside / "links").symlink_to("..")
    for attempt in (door.read, lambda path: door.write(path, "mine")):
        with pytest.raises(RefusedError):
            attempt(f"{inside}/{path}")
    assert (inside.parent / "secret").read_text() == "secret"


@pytest.mark.parametrize("path", ["inside/a", "", "a\0b", "~/a"])
def test_a_path_that_is_not_absolute_is_refused(door: FileDoor, path: str) -> None:
    with pytest.raises(RefusedError, match="is not an absolute path"):
        door.read(path)


def test_a_link_that_stays_inside_works_and_the_file_behind_it_is_written(door: FileDoor, inside: Path) -> None:
    (inside / "real").write_text("old")
    (inside / "link").symlink_to("real")
    door.write(f"{inside}/link", "new")
    assert (inside / "link").is_symlink()
    assert (inside / "real").read_text() == door.read(f"{inside}/link") == "new"


def test_folders_that_are_missing_are_made_and_a_mode_is_kept(door: FileDoor, inside: Path) -> None:
    door.write(f"{inside}/a/b/script", "one")
    (inside / "a/b/script").chmod(0o750)
    door.write(f"{inside}/a/b/script", "two")
    assert (inside / "a/b/script").stat().st_mode & 0o777 == 0o750
    assert [path.name for path in (inside / "a/b").iterdir()] == ["script"]


def test_a_hard_link_to_the_outside_is_replaced_not_written_through(door: FileDoor, inside: Path) -> None:
    os.link(inside.parent / "secret", inside / "same")
    door.write(f"{inside}/same", "mine")
    assert (inside.parent / "secret").read_text() == "secret"


def test_a_folder_swapped_for_a_link_after_the_check_is_an_error_not_a_way_out(
    door: FileDoor, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inside / "sub").mkdir()
    (inside / "sub" / "secret").write_text("harmless")
    real = FileDoor._place

    def swap(self: FileDoor, path: str, roots: tuple[str, ...]) -> tuple[str, list[str]]:
        place = real(self, path, roots)
        (inside / "sub").rename(inside / "was")
        (inside / "sub").symlink_to(inside.parent)
        return place

    monkeypatch.setattr(FileDoor, "_place", swap)
    with pytest.raises(RefusedError, match=r"Not a directory|symbolic links"):
        door.read(f"{inside}/sub/secret")


def test_swapping_as_fast_as_one_can_never_lets_anything_through(door: FileDoor, inside: Path) -> None:
    outside = inside.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    (inside / "real").mkdir()
    (inside / "real" / "file").write_text("harmless")
    (inside / "sub").symlink_to("real")
    (inside / "evil").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in ("real", str(outside)):
                os.symlink(target, inside / "next")
                os.replace(inside / "next", inside / "sub")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(300):
            try:
                assert door.read(f"{inside}/sub/file") in ("harmless", "mine")
                door.write(f"{inside}/sub/file", "mine")
            except RefusedError:
                continue
    finally:
        stop.set()
        swapping.join()
    assert (outside / "file").read_text() == "secret"


def test_a_link_to_itself_is_no_file(door: FileDoor, inside: Path) -> None:
    (inside / "loop").symlink_to("loop")
    with pytest.raises(RefusedError, match="symbolic links"):
        door.read(f"{inside}/loop")


def test_what_is_no_file_is_refused_without_waiting(door: FileDoor, inside: Path) -> None:
    os.mkfifo(inside / "pipe")
    for path in ("pipe", ""):
        with pytest.raises(RefusedError, match=r"no regular file|outside|directory"):
            door.read(f"{inside}/{path}")
        with pytest.raises(RefusedError):
            door.write(f"{inside}/{path}", "x")


def test_what_is_too_large_is_refused(door: FileDoor, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (inside / "big").write_text("x" * 100)
    monkeypatch.setattr(_files, "FILE_BYTES", 10)
    with pytest.raises(RefusedError, match="100 bytes, more than the 10 that may be read"):
        door.read(f"{inside}/big")
    with pytest.raises(RefusedError, match="11 bytes are more than the 10 that may be written"):
        door.write(f"{inside}/big", "x" * 11)


@pytest.mark.parametrize(
    ("line", "limit", "text"),
    [(None, None, "a\nb\nc\n"), (2, None, "b\nc\n"), (2, 1, "b\n"), (None, 2, "a\nb\n"), (9, 1, ""), (0, 1, "a\n")],
)
def test_lines_are_counted_from_one(
    door: FileDoor, inside: Path, line: int | None, limit: int | None, text: str
) -> None:
    (inside / "file").write_text("a\nb\nc\n")
    assert door.read(f"{inside}/file", line, limit) == text


def test_reading_may_be_allowed_where_writing_is_not(inside: Path) -> None:
    (inside / "file").write_text("text")
    door = FileDoor((str(inside / "file"),), ())
    assert door.read(f"{inside}/file") == "text"
    with pytest.raises(RefusedError, match="outside the folders"):
        door.write(f"{inside}/file", "x")
    with pytest.raises(RefusedError, match="outside the folders"):
        door.read(f"{inside}/other")
