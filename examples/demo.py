"""`make demo`: a job runs live, is killed with SIGKILL in the middle, goes on where it was, and leaves nothing behind.

Scripts, an agent that speaks ACP, a child run for each room, exit rules and a person: no key, no network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

FLOW = Path(__file__).parent / "demo" / "paint_the_house.flow.yaml"
COMMAND = [sys.executable, "-m", "holdfast"]
COLOUR = sys.stdout.isatty()
PATIENCE = 60.0


def say(text: str) -> None:
    print(f"\n\033[1;36m▸ {text}\033[0m" if COLOUR else f"\n> {text}", flush=True)


class Project:
    """A folder of its own, and the command in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(FLOW, folder)
        inherited = {name: value for name, value in os.environ.items() if name != "HOLDFAST_HOME"}
        self.environment = {**inherited, "PYTHONUNBUFFERED": "1"}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*COMMAND, *arguments], cwd=self.folder, env=self.environment)

    def call(self, *arguments: str) -> None:
        subprocess.run([*COMMAND, *arguments], cwd=self.folder, env=self.environment, check=False, timeout=PATIENCE)

    def ask(self, *arguments: str) -> Any:
        """What a command says with `--json`."""
        command = [*COMMAND, *arguments, "--json"]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, check=True, timeout=PATIENCE
        )
        return json.loads(done.stdout)

    def processes(self) -> list[int]:
        """Every process of this machine that works in the folder."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if Path(os.readlink(entry / "cwd")).is_relative_to(self.folder):
                    found.append(int(entry.name))
            except OSError:  # it ended meanwhile, or is somebody else's
                continue
        return found


def wait_until(reached: Any, what: str) -> None:
    """Look until it is so. Raises SystemExit if it never is."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > deadline:
            raise SystemExit(f"demo: {what} did not happen within {PATIENCE:g} s")
        time.sleep(0.02)


def kill_in_the_middle(project: Project) -> int:
    """Run the flow until it paints the kitchen, and kill whoever runs it. Returns how many processes there were."""
    runner = project.start("run", FLOW.name)
    wait_until(lambda: (project.folder / "in-the-middle").exists() or runner.poll() is not None, "the kitchen")
    held = len(project.processes()) - 1
    runner.kill()
    runner.wait()
    say(f"killed with SIGKILL in the kitchen; it had {held} processes below it")
    wait_until(lambda: not project.processes(), "the end of its processes")
    say("they are all gone; nobody had to clean up")
    (project.folder / "killed").touch()
    return held


def go_on(project: Project, job: str) -> None:
    """Start a worker, answer what the job asks, and see it to its end."""
    worker = project.start("worker")
    try:
        project.call("wait", job)
        say("it waits for a person: does the house look good? Yes.")
        project.call("answer", job, "--output", "approved=yes")
        project.call("wait", job)
    finally:
        worker.terminate()
        worker.wait()


def show(project: Project, job: str, held: int) -> bool:
    """The table at the end. Says whether everything is as it should be."""
    told = project.ask("status", job)
    ran = Counter((project.folder / "ran.log").read_text().splitlines())
    left = len(project.processes())
    rows = [(step["step"], step["status"], str(step["attempt"])) for step in told["steps"]]
    width = max(len(name) for name, _, _ in rows)
    for name, status, attempt in (("step", "status", "attempt"), *rows):
        print(f"  {name:<{width}}  {status:<9}  {attempt}")
    print(f"\n  job                          {told['status']}")
    print(f"  ran once                     {', '.join(name for name, times in ran.items() if times == 1)}")
    print(
        f"  ran again                    {', '.join(f'{name} ({times}x)' for name, times in ran.items() if times > 1)}"
    )
    print(
        "                               (the kitchen was in flight when it was killed; look was sent back by its exit rule)"
    )
    print(f"  processes held at the kill   {held}")
    print(f"  processes left               {left}")
    return told["status"] == "completed" and not left and ran["plan"] == ran["paint hall"] == ran["paint attic"] == 1


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        project = Project(Path(folder).resolve())
        project.call("init")
        say("a job runs: scripts, an agent, a child run for each room")
        held = kill_in_the_middle(project)
        [job] = project.ask("jobs")
        say("a worker is started; it finds the job and goes on in the kitchen")
        go_on(project, job["id"])
        say("what became of it")
        good = show(project, job["id"], held)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
