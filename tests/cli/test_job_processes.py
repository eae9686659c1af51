"""Workers and runs as processes of their own: killed, told to leave, interrupted, started twice at once."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.jobs_support import Cli, poll
from tests.cli.support import COMMAND, Project

from holdfast.ports import Job
from holdfast.service import JobService, is_settled
from holdfast.stores import SqliteJobs
from holdfast.testing import process_audit

SLOW = """
steps:
  one:
    outputs: [n]
    run: |
      echo x >> one; echo '{"n": 1}'
  two:
    inputs: {n: one.n}
    outputs: [n]
    run: |
      echo x >> two
      while [ ! -e go ]; do sleep 0.02; done
      [ ! -e bad ] || exit 1
      echo '{"n": 2}'
"""


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    cli = Cli(tmp_path, capsys)
    cli.ok("init")
    cli.flow("slow", SLOW)
    cli.flow("quick", "steps:\n  a:\n    outputs: [n]\n    run: |\n      echo '{\"n\": 1}'\n")
    yield cli
    cli.end_workers()


class Process:
    """A command that runs beside the test."""

    def __init__(self, cli: Cli, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], cwd=cli.folder, env=Project(cli.folder).environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def told(self, pattern: str) -> str:
        """Wait for a line on stderr."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"it ended and never said {pattern}")

    def end(self, number: int) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


def until(cli: Cli, job_id: str, enough: Callable[[Job], bool]) -> Job:
    async def wait() -> Job:
        async with SqliteJobs(cli.database) as jobs, asyncio.timeout(20):
            return (await JobService(jobs).until([job_id], lambda found: enough(found[0])))[0]

    return asyncio.run(wait())


def until_file(path: Path) -> None:
    poll(path.exists)


def lines(folder: Path, name: str) -> int:
    return len((folder / name).read_text().splitlines())


def workspace(cli: Cli, job_id: str) -> Path:
    return cli.folder / ".holdfast" / "jobs" / job_id / "workspace"


def submit(cli: Cli) -> str:
    """A job that waits for somebody to serve it."""
    job_id: str = cli.submit("slow", "--needs-approval")

    async def approve() -> None:
        async with SqliteJobs(cli.database) as jobs:
            await JobService(jobs).approve(job_id)

    asyncio.run(approve())
    return job_id


def test_a_killed_worker_leaves_nothing_and_the_next_goes_on_where_it_was(cli: Cli) -> None:
    job_id = submit(cli)
    folder = workspace(cli, job_id)
    with process_audit():
        worker = Process(cli, "worker")
        until_file(folder / "two")
        assert worker.end(signal.SIGKILL)[0] == -signal.SIGKILL
    left = until(cli, job_id, lambda job: True)
    assert (left.status, left.runs) == ("running", 1)  # nobody has looked yet
    seen = cli.ok("status", job_id, "--json").json
    assert (seen["status"], seen["runs"]) == ("queued", 1)
    (folder / "go").touch()
    with process_audit():
        again = Process(cli, "worker", "--idle-seconds", "0")
        assert again.process.wait(20) == 0
        again.process.communicate()
    done = until(cli, job_id, is_settled)
    assert (done.status, done.runs) == ("completed", 2)
    assert (lines(folder, "one"), lines(folder, "two")) == (1, 2)
    history = cli.ok("status", job_id, "--json").json["history"]
    assert re.fullmatch(r"its worker is gone: process \d+ has ended", history[3]["reason"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_leave_puts_its_jobs_back(cli: Cli, number: int) -> None:
    job_id = submit(cli)
    with process_audit():
        worker = Process(cli, "worker")
        until_file(workspace(cli, job_id) / "two")
        code, _, err = worker.end(number)
    assert code == 0, err
    left = until(cli, job_id, lambda job: True)
    assert (left.status, left.reason) == ("queued", "its worker left")
    steps = {step["step"]: step["status"] for step in cli.ok("status", job_id, "--json").json["steps"]}
    assert "running" not in steps.values()
    assert cli.workers() == []


def test_ctrl_c_cancels_the_job_that_runs_here(cli: Cli) -> None:
    with process_audit():
        run = Process(cli, "run", "slow")
        job_id = run.told(r"job (\S+)")
        until_file(workspace(cli, job_id) / "two")
        code, _, err = run.end(signal.SIGINT)
    assert code == 130
    assert "cancelling job" in err
    assert "Traceback" not in err
    assert until(cli, job_id, is_settled).status == "cancelled"


def test_a_run_that_is_told_to_leave_leaves_its_job_to_the_next_worker(cli: Cli) -> None:
    with process_audit():
        run = Process(cli, "run", "slow", "--wait")
        job_id = only_job(cli)
        until_file(workspace(cli, job_id) / "two")
        code, out, err = run.end(signal.SIGTERM)
    assert (code, err) == (143, "")
    assert json.loads(out)["status"] == "queued"
    assert until(cli, job_id, lambda job: job.worker == "").status == "queued"


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_whose_reader_leaves_goes_on_and_exits_as_its_job_ends(cli: Cli, fails: bool) -> None:
    """`holdfast run slow | head -1` put the job back to the queue, and exited with 0."""
    run = Process(cli, "run", "slow")
    assert run.process.stdout is not None
    assert run.process.stdout.readline() == "one\tstep\tstarted\n"
    run.process.stdout.close()
    job_id = only_job(cli)
    until_file(workspace(cli, job_id) / "two")
    if fails:
        (workspace(cli, job_id) / "bad").touch()
    (workspace(cli, job_id) / "go").touch()
    assert run.process.wait(20) == (1 if fails else 0)
    assert run.process.stderr is not None
    run.process.stderr.close()
    assert until(cli, job_id, is_settled).status == ("failed" if fails else "completed")


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_whose_output_cannot_be_written_goes_on_and_says_so_in_the_end(cli: Cli, fails: bool) -> None:
    """`holdfast run slow > /dev/full` put the job back to the queue, and did not say what had become of it."""
    with open("/dev/full", "w") as full:
        run = subprocess.Popen(
            [*COMMAND, "run", "slow"], cwd=cli.folder, env=Project(cli.folder).environment(),
            stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    job_id = only_job(cli)
    until_file(workspace(cli, job_id) / "two")
    if fails:
        (workspace(cli, job_id) / "bad").touch()
    (workspace(cli, job_id) / "go").touch()
    _, told = run.communicate(timeout=20)
    assert run.returncode == 1
    assert f"job {job_id} {'failed' if fails else 'completed'}" in told
    assert told.endswith("holdfast: No space left on device; see to it, or find out more with --debug\n")
    assert until(cli, job_id, is_settled).status == ("failed" if fails else "completed")


def test_a_job_whose_run_was_killed_is_cancelled_all_the_same(cli: Cli) -> None:
    """What was asked was left for the dead, and nobody was started to hear it."""
    run = Process(cli, "run", "slow")
    job_id = run.told(r"^job (\S+)$")
    until_file(workspace(cli, job_id) / "two")
    run.end(signal.SIGKILL)
    assert cli.ok("jobs", "--json").json[0]["status"] == "queued"
    said = cli("wait", job_id, "--timeout", "0.01")
    assert (said.code, "nobody serves the queue now: `holdfast worker`" in said.err) == (5, True)
    assert "queued" in cli.ok("cancel", job_id).out
    assert cli("wait", job_id, "--timeout", "20").code == 4


def test_output_that_is_closed_or_full_is_no_mistake_of_ours(cli: Cli) -> None:
    environment = Project(cli.folder).environment()
    for where, arguments, code, told in (
        (">&-", ["run", "quick", "--wait"], 0, ""),
        (">&- 2>&-", ["jobs", "--nope"], 2, ""),
        (">/dev/full", ["jobs", "--json"], 1, "holdfast: No space left on device; see to it"),
        (">/dev/full", ["run", "quick", "--wait"], 1, "holdfast: No space left on device; see to it"),
        ("2>/dev/full", ["jobs", "--nope"], 2, ""),
        ("2>/dev/full", ["status", "nope"], 2, ""),
        ("2>/dev/full", ["run", "quick"], 0, ""),
    ):
        command = ["sh", "-c", f'exec "$@" {where}', "sh", *COMMAND, *arguments]
        done = subprocess.run(command, cwd=cli.folder, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr.startswith(told), "Traceback" in done.stderr) == (code, True, False)


def test_an_interrupt_while_the_command_is_imported_leaves_no_traceback(cli: Cli) -> None:
    script = """
import sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "holdfast.cli._jobs": raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from holdfast.cli import main
main()
"""
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, cwd=cli.folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def only_job(cli: Cli) -> str:
    poll(lambda: cli.ok("jobs", "--json").json)
    return str(cli.ok("jobs", "--json").json[0]["id"])


def test_of_many_that_queue_at_once_one_worker_serves_and_leaves_by_itself(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_WORKER_IDLE_SECONDS", "0.5")
    with process_audit():
        submitters = [Process(cli, "run", "quick", "--async") for _ in range(3)]
        ids = [process.process.communicate(timeout=30)[0].strip() for process in submitters]
        assert [process.process.returncode for process in submitters] == [0, 0, 0]
        assert {until(cli, job_id, is_settled).status for job_id in ids} == {"completed"}
        assert len(cli.workers()) <= 1
        poll(lambda: not cli.workers())  # each leaves when it is idle, also one that came late


def test_a_watched_run_on_a_terminal_shows_its_steps_as_a_tree(cli: Cli) -> None:
    shown = Project(cli.folder).on_terminal("run", "quick", "--watch", columns=100)
    assert re.search(r"quick\S* \S{8} ", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown))
    assert "└── ✓ a" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


def test_an_id_is_whole_on_the_narrowest_terminal(cli: Cli) -> None:
    job_id = cli.ok("run", "quick", "--wait").json["id"]
    assert job_id[-8:] in Project(cli.folder).on_terminal("jobs", columns=30)


def test_a_mistake_of_ours_is_one_line_without_debug(cli: Cli) -> None:
    script = """
import sys
from holdfast.cli import _jobs
def broken(*_, **__): raise KeyError("inside")
_jobs.show_jobs = broken
sys.argv = ["holdfast", *sys.argv[1:]]
from holdfast.cli import main
main()
"""
    environment = Project(cli.folder).environment()
    run = [sys.executable, "-c", script, "jobs"]
    plain = subprocess.run(run, cwd=cli.folder, env=environment, capture_output=True, text=True, check=False)
    assert plain.returncode == 1
    assert plain.stderr == "holdfast: this should not have happened: KeyError: 'inside'; --debug shows where\n"
    debug = subprocess.run(
        [sys.executable, "-c", script, "--debug", "jobs"], cwd=cli.folder, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert "Traceback" in debug.stderr
