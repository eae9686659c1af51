from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import ConfigurationError, UsageError
from holdfast.server import Identity, Tokens


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.json")


def test_a_token_is_known_again_by_its_hash(tokens: Tokens) -> None:
    made = tokens.make("mine", "operate", now_us=5)
    (kept,) = tokens.all()
    assert tokens.check(made, now_us=6) == Identity(kept.id, "mine", "operate")
    assert made.split("_", 2)[2] not in tokens.path.read_text()
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600


def test_roles_include_those_below(tokens: Tokens) -> None:
    who = tokens.check(tokens.make("mine", "operate", now_us=0), now_us=0)
    assert who is not None
    assert [who.may("read"), who.may("operate"), who.may("admin")] == [True, True, False]


def test_a_token_counts_until_it_runs_out_or_is_revoked_by_any_process(tokens: Tokens) -> None:
    made = tokens.make("short", "read", now_us=0, seconds=10)
    assert tokens.check(made, now_us=9_999_999) is not None
    assert tokens.check(made, now_us=10_000_000) is None
    other = Tokens(tokens.path)
    (token,) = other.all()
    assert other.revoke(token.id).name == "short"
    assert tokens.check(made, now_us=0) is None
    with pytest.raises(UsageError, match="no token 'short'"):
        tokens.revoke("short")


def test_two_of_one_name_and_names_that_cannot_be_shown_are_refused(tokens: Tokens) -> None:
    tokens.make("mine", "read", now_us=0)
    for name in ("mine", "", " ", "a\nb", "x" * 101):
        with pytest.raises(UsageError):
            tokens.make(name, "read", now_us=0)


def test_many_at_once_are_all_kept(tokens: Tokens) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = [*threads.map(lambda number: Tokens(tokens.path).make(f"t{number}", "read", now_us=0), range(40))]
    assert all(tokens.check(token, now_us=0) for token in made)


def test_a_damaged_file_lets_nobody_in_and_says_what_to_do(tokens: Tokens) -> None:
    made = tokens.make("mine", "read", now_us=0)
    tokens.path.write_text("[{")
    with pytest.raises(ConfigurationError, match="move it away"):
        tokens.check(made, now_us=0)


def test_a_link_in_place_of_the_file_that_is_written_is_not_followed(tokens: Tokens, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "tokens.json.new").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic"):
        tokens.make("mine", "read", now_us=0)
    assert (tmp_path / "victim").read_text() == "precious"
