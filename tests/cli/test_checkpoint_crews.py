"""Runs of crews on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.support import Project, new_project

NEWSROOM = """
import os
from holdfast import Agent, Crew, ScriptedModel, Task

def is_allowed(output):
    return ("ALLOWED" in os.environ), output

def crew():
    writer = Agent(role="Writer", llm=ScriptedModel(["a draft", "a page"]))
    tasks = [
        Task(name="draft", description="Draft it", agent=writer),
        Task(name="page", description="Write it", agent=writer, guardrail=is_allowed, guardrail_max_retries=0),
    ]
    return Crew(name="newsroom", agents=[writer], tasks=tasks, checkpoint=True)
"""
BREAK = """
import newsroom
from holdfast.errors import GuardrailError
crew = newsroom.crew()
try:
    crew.kickoff()
except GuardrailError:
    print(crew.run_id)
"""


def broken_crew(folder: Path) -> tuple[Project, str]:
    project = new_project(folder)
    (folder / "newsroom.py").write_text(NEWSROOM)
    command = [sys.executable, "-c", BREAK]
    done = subprocess.run(command, cwd=folder, env=project.environment(), capture_output=True, text=True, check=True)
    return project, done.stdout.strip()


def test_s1_3_resume_makes_a_crew_again_and_does_what_is_left(tmp_path: Path) -> None:
    project, run_id = broken_crew(tmp_path)
    done = project("checkpoint", "resume", run_id, "--flow", "newsroom", "--json", ALLOWED="1")
    assert (done.stderr, done.returncode) == ("", 0)
    told = json.loads(done.stdout)
    assert (told["status"], told["result"]["raw"]) == ("completed", "a page")
    shown = project.json("checkpoint", "show", run_id)
    assert [(step["step"], step["status"], step["attempts"]) for step in shown["steps"]] == [
        ("draft#1", "completed", 1),
        ("page#1", "completed", 2),
    ]
    assert shown["usage"]["requests"] == 2


def test_s1_4_a_crew_whose_functions_are_not_imported_is_refused_with_the_module_to_name(tmp_path: Path) -> None:
    project, run_id = broken_crew(tmp_path)
    done = project("checkpoint", "resume", run_id)
    assert done.returncode != 0
    assert "import newsroom" in done.stderr
    assert "Traceback" not in done.stderr
