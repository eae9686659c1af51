"""Executors that a user's package adds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.flowfiles.support import Folder

from holdfast.flowfiles import Extension, check_flow, find_plugin, flow_schema, load_flow, plugin_names

jsonschema: Any = pytest.importorskip("jsonschema")  # comes with the MCP library
LIGHT = """
from holdfast.flowfiles import ExecutorPlugin, Option

def plugin():
    pass

PLUGIN = ExecutorPlugin(
    run="user_heavy:run",
    options={"channel": Option("text", "Where to.", required=True), "body": Option("template"), "loud": Option("bool")},
)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with an executor `slack`, and two that are broken."""
    site = tmp_path / "site"
    (site / "user_package-1.dist-info").mkdir(parents=True)
    (site / "user_package-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: user-package\nVersion: 1\n"
    )
    points = "slack = user_light:PLUGIN\nodd = user_light:plugin\ngone = user_missing:PLUGIN\n"
    (site / "user_package-1.dist-info" / "entry_points.txt").write_text(f"[holdfast.executors]\n{points}")
    (site / "user_light.py").write_text(LIGHT)
    (site / "user_heavy.py").write_text("raise RuntimeError('the loader must not import this')")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "user_light", raising=False)
    return site


def test_names_are_known_without_importing_anything(package: Path) -> None:
    assert plugin_names() == ("gone", "odd", "slack")
    assert "user_light" not in sys.modules


def test_a_step_with_an_installed_executor_carries_its_options(folder: Folder, package: Path) -> None:
    folder.write(
        "x.flow.yaml", "steps: {a: {executor: slack, channel: dev, loud: yes, retry: 2, inputs: {t: $job.t}}}\n"
    )
    step = load_flow("x").steps[0]
    assert step.executor == Extension(name="slack", options={"channel": "dev", "loud": True})
    assert step.kind == "slack"
    assert step.retry is not None
    assert "user_heavy" not in sys.modules


@pytest.mark.parametrize(
    ("step", "code", "says"),
    [
        ("{executor: slack, chanel: dev}", "unknown-key", "did you mean channel?"),
        ("{executor: slack}", "missing-key", "channel"),
        ("{executor: slack, channel: dev, session: a}", "misplaced-key", "does not apply to a slack step"),
        ("{executor: slak, channel: dev}", "unknown-executor", "did you mean slack?"),
        ("{executor: odd}", "broken-executor", "is no holdfast.flowfiles.ExecutorPlugin"),
        ("{executor: gone}", "broken-executor", "cannot be imported"),
    ],
)
def test_what_is_wrong_with_such_a_step_is_told(folder: Folder, package: Path, step: str, code: str, says: str) -> None:
    _, findings = check_flow(folder.write("x.flow.yaml", f"steps: {{a: {step}}}\n"))
    assert any(one.code == code and says in str(one) for one in findings)


def test_the_schema_has_the_executors_it_is_asked_for(package: Path) -> None:
    schema = flow_schema(plugins=("slack",))
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"steps": {"a": {"executor": "slack", "channel": "dev"}}})
    assert not validator.is_valid({"steps": {"a": {"executor": "slack", "chanel": "dev"}}})
    assert not jsonschema.Draft202012Validator(flow_schema()).is_valid(
        {"steps": {"a": {"executor": "slack", "channel": "dev"}}}
    )


def test_what_the_engine_imports_is_named_not_imported(package: Path) -> None:
    plugin = find_plugin("slack")
    assert plugin is not None
    assert plugin.run == "user_heavy:run"
    assert find_plugin("nobody") is None
