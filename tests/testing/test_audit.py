"""The process audit finds what a test leaves behind, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.errors import PlatformError
from holdfast.testing import process_audit
from holdfast.testing._audit import started_here

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the audit is refused elsewhere, in words")


def test_a_block_that_leaves_nothing_is_fine() -> None:
    with process_audit():
        subprocess.run(["true"], check=True)


def test_a_daemon_that_hid_is_found_named_and_killed() -> None:
    with pytest.raises(AssertionError, match=r"left behind: \d+ .*sleep 1234"), process_audit(patience=0.05):
        subprocess.run(["sh", "-c", "(setsid sleep 1234 &) ; :"], check=True)
    assert [found for found in started_here() if "1234" in found.command] == []


def test_what_was_there_before_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "1000"]) as before:
        with process_audit():
            pass
        assert before.poll() is None
        before.kill()


def test_what_is_about_to_end_gets_its_time() -> None:
    with process_audit():
        subprocess.run(["sh", "-c", "(sleep 0.05 &) ; :"], check=True)


def test_audits_may_be_nested() -> None:
    with process_audit(), process_audit():
        pass
    with process_audit():
        with process_audit():
            pass
        with pytest.raises(AssertionError), process_audit(patience=0.05):
            subprocess.run(["sh", "-c", "(sleep 1000 &) ; :"], check=True)


def test_other_systems_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.testing._audit.sys.platform", "darwin")
    with pytest.raises(PlatformError, match="needs Linux"), process_audit():
        pass
