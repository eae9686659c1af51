"""`holdfast validate`, `graph` and `schema`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.support import Project

GOOD = """
requires: [no-such-program-anywhere]
steps:
  write: {run: w, inputs: {notes: {from: test.notes, optional: true}}, outputs: [code]}
  test:
    run: t
    inputs: {code: write.code}
    outputs: [ok, notes]
    exits: [{name: again, when: "not outputs.ok", action: loop, target: write, max_iterations: 3}]
"""
BAD = "steps:\n  a: {rn: x}\n  b: {run: x, timout: 3}\n"


@pytest.fixture
def holdfast(tmp_path: Path) -> Project:
    (tmp_path / "good.flow.yaml").write_text(GOOD)
    (tmp_path / "bad.flow.yaml").write_text(BAD)
    return Project(tmp_path)


def test_validate_says_what_is_wrong_and_exits_with_3(holdfast: Project) -> None:
    done = holdfast("validate", "good", "bad.flow.yaml")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines() == [
        "good.flow.yaml:2:12: warning: the flow requires no-such-program-anywhere, which is not here; install it",
        "good: ok (1 warning)",
        "bad.flow.yaml:2:7: error: a step has no key 'rn'; did you mean run?",
        "bad.flow.yaml:3:15: error: a script step has no key 'timout'; did you mean timeout?",
        "bad.flow.yaml: cannot be used (2 errors)",
    ]


def test_validate_as_json_is_data_and_a_warning_does_not_count(holdfast: Project) -> None:
    (checked,) = holdfast.json("validate", "good")
    assert (checked["flow"], checked["valid"]) == ("good", True)
    assert checked["findings"] == [
        {
            "severity": "warning",
            "code": "missing-tool",
            "file": "good.flow.yaml",
            "line": 2,
            "column": 12,
            "message": "the flow requires no-such-program-anywhere, which is not here",
            "fix": "install it",
        }
    ]
    done = holdfast("validate", "bad", "nope", "--json")
    assert done.returncode == 3
    assert [(one["flow"], one["valid"], len(one["findings"])) for one in json.loads(done.stdout)] == [
        ("bad", False, 2),
        ("nope", False, 1),
    ]


def test_a_kit_is_checked_flow_by_flow(holdfast: Project) -> None:
    for name, text in (("KIT.yaml", "name: kit\n"), ("a/FLOW.yaml", BAD), ("b.flow.yaml", "steps: {a: {run: x}}\n")):
        (holdfast.folder / "kit" / name).parent.mkdir(parents=True, exist_ok=True)
        (holdfast.folder / "kit" / name).write_text(text)
    done = holdfast("validate", "kit", "--json")
    assert done.returncode == 3
    assert [(one["flow"], one["valid"]) for one in json.loads(done.stdout)] == [
        ("kit/a/FLOW.yaml", False),
        ("kit/b.flow.yaml", True),
    ]


def test_on_a_terminal_findings_are_a_table(holdfast: Project) -> None:
    shown = holdfast.on_terminal("validate", "good", columns=140)
    assert "what to do" in shown
    assert "good.flow.yaml:2:12" in shown
    assert "good: ok (1 warning)" in shown


def test_graph_draws_the_loop(holdfast: Project) -> None:
    done = holdfast("graph", "good")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("flowchart TD\n")
    assert '|"again"|' in done.stdout
    drawn = holdfast("graph", "good", "--format", "svg", "--output", "good.svg")
    assert (drawn.returncode, drawn.stdout) == (0, "")
    assert (holdfast.folder / "good.svg").read_text().startswith("<svg")


def test_a_flow_that_cannot_be_used_is_told_line_by_line_without_a_traceback(holdfast: Project) -> None:
    done = holdfast("graph", "bad")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines() == [
        "holdfast: bad.flow.yaml:2:7: a step has no key 'rn'; did you mean run?",
        "bad.flow.yaml:3:15: a script step has no key 'timout'; did you mean timeout?",
    ]
    missing = holdfast("graph", "good", "--output", "no/such/folder.svg")
    assert (missing.returncode, missing.stdout) == (3, "")
    assert "cannot be written" in missing.stderr


def test_what_a_file_holds_cannot_move_the_cursor(holdfast: Project) -> None:
    (holdfast.folder / "evil.flow.yaml").write_text('"\\e[31mx": 1\nsteps: {a: {run: x}}\n')
    done = holdfast("validate", "evil")
    assert "\033" not in done.stdout + done.stderr
    assert done.returncode == 3


def test_schema_is_a_json_schema(holdfast: Project) -> None:
    done = holdfast("schema")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["$schema"].startswith("https://json-schema.org/")
