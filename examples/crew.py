"""A crew with tools, a guardrail and a stream, killed in the middle of its second task and taken up again. Needs no key."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from holdfast import (
    Agent,
    CheckpointConfig,
    Crew,
    ScriptedModel,
    SqliteProvider,
    Task,
    TaskOutput,
    current_step_key,
    tool,
)
from holdfast.models import ToolCall


@tool
def depth(whale: str) -> str:
    """How deep a whale dives."""
    return {"sperm whale": "2000 m", "blue whale": "500 m"}[whale]


def has_figures(output: TaskOutput) -> tuple[bool, Any]:
    """A guardrail: an answer without figures goes back."""
    return (True, output) if any(letter.isdigit() for letter in output.raw) else (False, "there is no figure in it")


@tool
def publish(text: str) -> str:
    """Publishes a text. The first time, the power fails half-way."""
    if not (marker := Path("power-failed")).exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"published under {current_step_key()}"


def make_crew(config: CheckpointConfig) -> Crew:
    """Two agents; with real models, only `llm` would be another."""
    reader = ScriptedModel([
        [
            ToolCall("1", "depth", '{"whale": "sperm whale"}'),
            ToolCall("2", "depth", '{"whale": "blue whale"}'),
        ],
        "Very deep.",
        "Sperm whales dive to 2000 m, blue whales to 500 m.",
    ])  # fmt: skip
    writer = ScriptedModel([ToolCall("3", "publish", '{"text": "Whales dive deep: 2000 m."}'), "It is out."])
    research = Agent(role="Researcher", goal="Find figures", llm=reader, tools=[depth])
    editor = Agent(role="Editor", goal="Publish", llm=writer, tools=[publish])
    tasks = [
        Task(name="research", description="How deep do {animal} dive?", agent=research, guardrail=has_figures),
        Task(name="publish", description="Publish what is known.", agent=editor),
    ]
    return Crew(name="Magazine", tasks=tasks, checkpoint=config)


def show(crew: Crew, **inputs: Any) -> None:
    """Kick the crew off and print what it does, while it does it."""
    with crew.kickoff(stream=True, **inputs) as stream:
        print(f"run {stream.run_id}", flush=True)
        for frame in stream:
            where = " / ".join(frame.path)
            if frame.channel == "tool":
                print(f"  {where}: {frame.type} {frame.data['tool_name']}", flush=True)
            elif frame.type == "llm_call_completed":
                print(f"  {where}: {frame.data['response'].text or 'calls tools'}", flush=True)
        output = stream.result
    print(f"{output.raw} ({output.usage.requests} requests)")


def main() -> None:
    """Without arguments: play both processes. With a run's id: be the second one."""
    if len(sys.argv) == 1:
        command = [sys.executable, __file__]
        with tempfile.TemporaryDirectory(prefix="holdfast-crew-") as folder:
            first = subprocess.run([*command, "start"], cwd=folder, capture_output=True, text=True, check=False)
            print(first.stdout, end="")
            print(f"-- the process died of signal {-first.returncode}; another one goes on --")
            run_id = first.stdout.split()[1]
            subprocess.run([*command, run_id], cwd=folder, check=True)
        return
    with SqliteProvider("runs.db") as provider:
        config = CheckpointConfig(provider)
        if sys.argv[1] == "start":
            show(make_crew(config), inputs={"animal": "whales"})
        else:
            show(Crew.from_checkpoint(sys.argv[1], checkpoint=config))


if __name__ == "__main__":
    main()
