"""`holdfast agents`, as a user runs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_cli import holdfast

from holdfast.testing import process_audit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kept processes are refused elsewhere, in words")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of its own, and no process left at the end."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    (tmp_path / "holdfast.toml").write_text('[agents.broken]\ncommand = ["/bin/sh", "-c", "echo no key >&2; exit 3"]\n')
    with process_audit():
        yield tmp_path


def test_the_known_agents_are_listed_with_the_projects_own(project: Path) -> None:
    shown = {one["name"]: one for one in json.loads(holdfast("agents", "--json").stdout)}
    assert shown["demo"]["installed"]
    assert shown["broken"]["source"] == str(project / "holdfast.toml")
    lines = [line.split("\t") for line in holdfast("agents").stdout.splitlines()]
    assert [line[0] for line in lines] == list(shown)
    assert {len(line) for line in lines} == {4}


def test_checking_an_agent_starts_it_and_says_what_it_offers() -> None:
    done = holdfast("agents", "check", "demo")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "demo: works (holdfast-demo 1)"
    assert "sessions   new, load, fork, resume, close" in done.stdout


def test_an_agent_that_does_not_work_is_a_failure_with_its_words() -> None:
    done = holdfast("agents", "check", "broken", "--json")
    assert done.returncode == 1
    assert "no key" in json.loads(done.stdout)["problem"]
