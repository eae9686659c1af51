"""Agents known by name: ours, a project's own, and what a broken file is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import holdfast.acp
from holdfast.acp import find_agent, known_agents
from holdfast.errors import ConfigurationError


def test_every_public_name_is_there() -> None:
    assert dir(holdfast.acp) == sorted(holdfast.acp.__all__)
    assert [name for name in holdfast.acp.__all__ if getattr(holdfast.acp, name, None) is None] == []
    with pytest.raises(AttributeError, match=r"module 'holdfast\.acp' has no attribute 'Agnet'"):
        getattr(holdfast.acp, "Agnet")  # noqa: B009


def test_the_built_in_agents_say_how_they_are_installed_and_the_demonstration_needs_nothing(tmp_path: Path) -> None:
    agents = known_agents(tmp_path)
    assert set(agents) == {"claude", "codex", "demo", "gemini", "opencode", "qwen"}
    assert agents["demo"].is_installed
    assert all(agent.install.startswith("npm install --global ") for name, agent in agents.items() if name != "demo")
    assert agents["demo"].spec().command.env is None


def test_a_project_names_its_own_agents_and_stands_in_for_ours(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text(
        f'[agents.mine]\ncommand = ["{sys.executable}", "agent.py"]\nenv = {{ MODEL = "m" }}\nterminals = true\n'
        '[agents.claude]\ncommand = ["no-such-program"]\n[other]\nx = 1\n'
    )
    mine = find_agent("mine", tmp_path)
    assert mine.source == str(tmp_path / "holdfast.toml")
    spec = mine.spec()
    assert (spec.name, spec.terminals) == ("mine", True)
    assert spec.command.env == {**os.environ, "MODEL": "m"}
    assert not find_agent("claude", tmp_path).is_installed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[agents.mine", "agents cannot be read"),
        ("[agents.mine]\ncomand = []", "unknown field `comand`|missing required field"),
        ("[agents.mine]\ncommand = []", "agent mine has an empty command"),
        ('[agents.mine]\ncommand = "x"', "Expected `array`"),
        ("agents = 7", "Expected `object`"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "holdfast.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=words) as caught:
        known_agents(tmp_path)
    assert "holdfast.toml" in str(caught.value)


def test_an_unknown_name_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"there is no agent 'x'; known are claude, .*name others in holdfast\.toml"
    ):
        find_agent("x", tmp_path)
