"""SIGKILL at every step a job takes: taken up again it ends, and nothing that has a result runs again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 18


def crash(tmp_path: Path, most: int, *rerun: str) -> list[dict[str, object]]:
    """What became of a job that was killed at every step; the last is beyond the end: it was killed at every step there is."""
    command = [sys.executable, "-m", "tests.jobs.crashing", str(most), str(tmp_path), *rerun]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    told: list[dict[str, object]] = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [one["first"] for one in told] == ["killed by 9"] * (most - 1) + ["completed"]
    return told


def test_killed_while_a_step_inside_another_is_run_again_a_job_goes_on_and_runs_nothing_else(tmp_path: Path) -> None:
    for one in crash(tmp_path, 4, "each/1/x"):
        lines = one["lines"]
        assert isinstance(lines, list)
        assert one["second"] in ("completed", ""), one
        often = Counter(line.rpartition("/")[2] for line in lines)
        assert set(often) == {"x#2", "y#2", "end#2"}
        assert sum(often.values()) == (4 if one["second"] else 3), one


def test_killed_at_any_step_a_job_goes_on_and_runs_only_that_step_again(tmp_path: Path) -> None:
    for one in crash(tmp_path, MOST):
        if one["second"]:
            check(one)


def check(one: dict[str, object]) -> None:
    """One step ran once more than it does undisturbed: the one that was under way. Steps beside it may have been, too."""
    assert one["second"] == "completed", one
    lines = one["lines"]
    assert isinstance(lines, list)
    often = Counter(line.partition("/")[2] if line.startswith("the-job/") else line for line in lines)
    most = dict.fromkeys(often, 2) | {"retried#1": 3}
    assert all(number <= most[step] for step, number in often.items()), one
    extra = (
        sum(often.values()) - len(often) - 1
    )  # the retried step runs twice as it is; killed in between it still does
    assert (0 if one["fatal"] == 7 else 1) <= extra <= 2, one
