"""What the end of the tests' report says of tests that this machine cannot run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RED = "\x1b[31m"
TESTS = ["tests/web/test_verbatim.py", "tests/web/test_story.py"]


def test_tests_that_need_a_browser_are_named_last_and_in_red_where_there_is_none() -> None:
    """In two workers, as `make test` runs them: what they skip must reach the report."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--color=yes", "-q", *TESTS],
        cwd=ROOT, env={**plain, "HOLDFAST_CHROMIUM": "/no/such/browser"}, capture_output=True, text=True, check=False,
        timeout=50,
    )  # fmt: skip
    lines = done.stdout.rstrip().splitlines()
    (begin,) = [number for number, line in enumerate(lines) if "NOT RUN: 2 tests" in line]
    *told, last = lines[begin + 1 :]
    assert done.returncode == 0, done.stdout
    assert "2 skipped" in last
    assert all(line.startswith(RED) for line in told)
    assert "apt-get install chromium" in told[0]
    assert sorted(line.partition("::")[0].removeprefix(f"{RED}  ") for line in told[1:]) == sorted(TESTS)
