"""Run by a test in a process of its own: jobs that are killed at every step they take, and taken up again.

For each number N it forks a process that runs the job and is killed, without a word, when its steps have done N things; then one
that goes on with it. It prints what the steps did, and how the job ended. Given a step's path it lets the job complete first, and
then does the same while that step is run again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from tests.jobs.support import Bench, Control, flow, given, job_of, python, rule, source, step

from holdfast.context import current_step_key
from holdfast.flowfiles import ForEach, Retry, SubFlow

ONE_BY_ONE = threading.Lock()


def lines() -> list[str]:
    """What the steps did so far."""
    return Path(os.environ["CRASHING_LINES"]).read_text(encoding="utf-8").splitlines()


def act(**told: Any) -> dict[str, Any]:
    """Do something that can be counted, and die if it is time to."""
    with ONE_BY_ONE:  # steps beside each other run in threads, and each must see its own number
        with Path(os.environ["CRASHING_LINES"]).open("a", encoding="utf-8") as file:
            file.write(f"{current_step_key()}\n")
        number = len(lines())
    if number == int(os.environ["CRASHING_FATAL"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"n": number, "items": [1, 2, 3], **told}


def act_twice(**told: Any) -> dict[str, Any]:
    """Fails the first time."""
    found = act(**told)
    if lines().count(str(current_step_key())) < 2:
        raise ConnectionError("try again")
    return found


async def act_slowly(**told: Any) -> dict[str, Any]:
    await asyncio.sleep(0)
    return act(**told)


def call(name: str) -> Any:
    made = python(name)
    return type(made)(module="tests.jobs.crashing", function=name)


INNER = flow(
    step("x", call("act_slowly"), given("item", "$job.item")),
    step("y", call("act"), given("n", "x.n")),
    name="inner",
)
FLOW = flow(
    step("a", call("act")),
    step("left", call("act_slowly"), given("n", "a.n")),
    step("right", call("act_slowly"), given("n", "a.n")),
    step(
        "meet",
        call("act"),
        given("l", "left.n"),
        given("r", "right.n"),
        exits=(rule("loop", "attempt < 2", target="left", max_iterations=3),),
    ),
    step("retried", call("act_twice"), after=("meet",), retry=Retry(max_retries=3, delay_seconds=0.001)),
    step("inside", SubFlow(flow=INNER), given("item", "retried.n")),
    step("each", ForEach(source=source("a.items"), flow=INNER, max_parallel=2), after=("inside",)),
    step("end", call("act"), after=("each",)),
)


async def run(directory: Path, fatal: int, rerun: str = "") -> str:
    os.environ["CRASHING_FATAL"] = str(fatal)
    bench, control = Bench(directory), Control()
    if rerun:
        control.ask("rerun", step=rerun)
    outcome = await bench.engine.run(job_of(FLOW, {}, "the-job"), control)
    await bench.aclose()
    return f"{outcome.status} {outcome.reason}".strip()


def apart(directory: Path, fatal: int, rerun: str = "") -> str:
    """Run it in a forked process, and say how that ended."""
    pid = os.fork()
    if pid == 0:
        try:
            said = asyncio.run(run(directory, fatal, rerun))
            (directory / "said").write_text(said, encoding="utf-8")
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return (directory / "said").read_text(encoding="utf-8") if code == 0 else f"killed by {-code}"


def main() -> None:
    for fatal in range(1, int(sys.argv[1]) + 1):
        with tempfile.TemporaryDirectory(dir=sys.argv[2]) as made:
            directory = Path(made)
            os.environ["CRASHING_LINES"] = str(directory / "lines")
            (directory / "lines").touch()
            rerun = sys.argv[3] if sys.argv[3:] else ""
            if rerun:
                apart(directory, 0)
            before = len(lines())
            first = apart(directory, before + fatal, rerun)
            second = apart(directory, 0) if first.startswith("killed") else ""
            told = {"fatal": fatal, "first": first, "second": second, "lines": lines()[before:]}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
