"""The project's home: found upwards, made for its owner alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast.errors import ConfigurationError
from holdfast.home import find_home, make_home, store_path


@pytest.fixture(autouse=True)
def _no_named_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)


def test_it_is_found_from_any_folder_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_home(tmp_path)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_home(deep) == home == tmp_path / ".holdfast"
    monkeypatch.chdir(deep)
    assert find_home() == home


def test_the_nearest_one_counts_and_a_file_of_that_name_does_not(tmp_path: Path) -> None:
    make_home(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    nearest = make_home(inner)
    below = inner / "below"
    below.mkdir()
    (below / ".holdfast").write_text("not a folder")
    assert find_home(below) == nearest


def test_without_one_there_is_none(tmp_path: Path) -> None:
    assert find_home(tmp_path) is None


def test_the_environment_names_it_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_home(tmp_path)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "elsewhere"))
    assert find_home(tmp_path) == tmp_path / "elsewhere"
    assert make_home(tmp_path) == tmp_path / "elsewhere"
    assert (tmp_path / "elsewhere").is_dir()


def test_only_its_owner_looks_inside_and_git_ignores_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = make_home()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert (home / ".gitignore").read_text() == "*\n"


def test_making_it_twice_changes_nothing(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    (home / ".gitignore").write_text("mine\n")
    assert make_home(tmp_path) == home
    assert (home / ".gitignore").read_text() == "mine\n"


def test_where_it_cannot_be_made_the_error_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ".holdfast").write_text("in the way")
    with pytest.raises(ConfigurationError, match="name another in HOLDFAST_HOME"):
        make_home(tmp_path)


def test_the_store_lies_in_it(tmp_path: Path) -> None:
    assert store_path(tmp_path) == tmp_path / "holdfast.db"
