"""Crews from YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from holdfast import ScriptedModel, TaskOutput, tool
from holdfast.agents import crew_from_yaml
from holdfast.errors import FlowFileError

AGENTS = """
researcher:
  role: Researcher of {topic}
  goal: Find facts
  tools: [look_up]
  max_iter: 3
writer:
  goal: Write
"""
TASKS = """
research:
  description: Find out about {topic}
  agent: researcher
  async_execution: true
report:
  description: Write it down
  expected_output: a page
  agent: writer
  context: [research]
  output_pydantic: Page
  guardrails: [is_long]
"""


class Page(BaseModel):
    text: str


@tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return word


def is_long(output: TaskOutput) -> tuple[bool, str]:
    return True, output.raw


NAMES = {"look_up": look_up, "Page": Page, "is_long": is_long}


def written(folder: Path, agents: str = AGENTS, tasks: str = TASKS) -> dict[str, Path]:
    (folder / "agents.yaml").write_text(agents)
    (folder / "tasks.yaml").write_text(tasks)
    return {"agents": folder / "agents.yaml", "tasks": folder / "tasks.yaml"}


def test_two_files_make_a_crew_that_runs(tmp_path: Path) -> None:
    crew = crew_from_yaml(**written(tmp_path), names=NAMES)
    crew.agents[0].llm = ScriptedModel(["facts"])
    crew.agents[1].llm = ScriptedModel(['{"text": "a page"}'])
    output = crew.kickoff({"topic": "bees"})
    assert output.pydantic == Page(text="a page")
    assert [one.agent_role for one in output.tasks_output] == ["Researcher of bees", "writer"]
    assert crew.tasks[1].agent is crew.agents[1]
    assert crew.tasks[1].context == [crew.tasks[0]]
    assert crew.tasks[0].async_execution
    assert crew.agents[0].tools == [look_up]


def test_every_mistake_is_told_at_once_with_its_place_and_the_nearest_name(tmp_path: Path) -> None:
    agents = "researcher:\n  rolle: R\n  tools: [lookup]\n"
    tasks = "one:\n  description: d\n  agent: reseacher\n  guardrail_max_retries: many\ntwo:\n  expected_output: x\n"
    with pytest.raises(FlowFileError) as caught:
        crew_from_yaml(**written(tmp_path, agents, tasks), names=NAMES)
    told = str(caught.value).splitlines()
    assert [line.partition("yaml:")[2].partition(" ")[0] for line in told] == [
        "2:3:",
        "3:11:",
        "3:10:",
        "4:26:",
        "6:3:",
    ]
    assert "did you mean role?" in told[0]
    assert "did you mean look_up?" in told[1]
    assert "did you mean researcher?" in told[2]
    assert "description: Field required" in told[4]


@pytest.mark.parametrize("text", ["", "- a\n", "a: b\n", "a: {b\n", "\x00", "a: &x [*x]\n"])
def test_a_file_that_is_no_mapping_of_entries_is_refused_with_a_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(FlowFileError, match=r"agents\.yaml:\d+:\d+: "):
        crew_from_yaml(**written(tmp_path, agents=text), names=NAMES)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(FlowFileError, match="cannot be read"):
        crew_from_yaml(tmp_path / "no.yaml", tmp_path / "tasks.yaml")
