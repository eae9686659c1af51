"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import asyncio
import pytest
from holdfast import BaseEvent, default_runtime


@pytest.mark.parametrize("turn", [1, 2])
def test_is_clean(isolated_runtime, turn):
    assert isolated_runtime is default_runtime()
    assert isolated_runtime.event_bus.registrations() == []
    isolated_runtime.event_bus.on(BaseEvent)(lambda source, event: None)
    assert isolated_runtime.run(lambda run: turn) == turn


def test_leaks(isolated_runtime):
    async def main():
        async def body(run):
            run.hold("thing", "it", refuse)
        await isolated_runtime.arun(body)

    def refuse():
        raise OSError("mine")

    asyncio.run(main())
"""


def test_the_fixture_isolates_each_test_and_fails_the_one_that_leaks(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["holdfast.testing.plugin"]\n')
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "--rootdir", str(tmp_path), str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert "3 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "AssertionError: left behind: thing it" in done.stdout
