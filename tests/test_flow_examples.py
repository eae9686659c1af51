"""Every flow in `examples/flows` is valid, runs, and does what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.jobs_support import EXAMPLES, Cli

from holdfast.testing import process_audit

PLAIN = {
    "hello": {"loud": "HELLO WORLD"},
    "research": {"report": "tides (from three notes on tides); knots (from three notes on knots)"},
    "test_and_fix": {"passed": True, "failure": None},
    "wait_for_build": {"verdict": "green: built after 3 looks"},
}
"""Flows that run through by themselves, with what they end with."""
OTHERS = {"abandon", "plan_and_implement"}


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    cli = Cli(tmp_path, capsys)
    cli.ok("init")
    return cli


def test_every_example_is_tried() -> None:
    assert {file.name.removesuffix(".flow.yaml") for file in EXAMPLES.iterdir()} == PLAIN.keys() | OTHERS


def test_every_example_is_valid_without_a_warning(cli: Cli) -> None:
    names = sorted(PLAIN.keys() | OTHERS)
    assert cli.ok("validate", *names).out.splitlines() == [f"{name}: ok" for name in names]


@pytest.mark.parametrize("name", PLAIN)
def test_an_example_runs_and_ends_with_what_it_says_and_leaves_no_process(cli: Cli, name: str) -> None:
    with process_audit():
        done = cli.ok("run", name, "--wait").json
    assert done["outputs"] == PLAIN[name]


def test_s3_1_a_rule_that_abandons_leaves_no_process(cli: Cli) -> None:
    with process_audit():
        said = cli("run", "abandon", "--wait")
    assert (said.code, said.json["status"]) == (1, "failed")
    for part in ("abandoned", "step look", "rule hopeless"):
        assert part in said.json["reason"]
    steps = cli.ok("status", said.json["id"], "--json").json["steps"]
    assert {step["step"]: step["status"] for step in steps} == {"helper": "cancelled", "look": "completed"}
    assert cli.ok("resources", "--json").json == []


def test_a_plan_waits_for_approval_and_the_review_loops_until_it_is_good(cli: Cli) -> None:
    waits = cli("run", "plan_and_implement", "--wait")
    assert (waits.code, waits.json["asks"][0]["step"]) == (5, "approve")
    job_id = waits.json["id"]
    cli.ok("answer", job_id, "-o", "approved=yes")
    try:
        assert cli.ok("wait", job_id, "--json").json[0]["outputs"]["verdict"] == "good"
    finally:
        cli.end_workers()
    attempts = {step["step"]: step["attempt"] for step in cli.ok("status", job_id, "--json").json["steps"]}
    assert (attempts["review"], attempts["implement"]) == (2, 2)
