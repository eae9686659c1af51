"""Jobs on the command line: run, look, ask, with a worker that the command starts by itself."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.jobs_support import Cli, poll

from holdfast.cli._project import Project, in_project
from holdfast.cli._run import complete_flow
from holdfast.service import JobService
from holdfast.stores import SqliteJobs

HELLO = """
inputs:
  who: {type: str}
  times: {type: number, default: 1}
steps:
  greet:
    inputs: {who: $job.who}
    outputs: [greeting]
    run: |
      echo "thinking of $who" >&2
      printf '{"greeting": "hello %s"}' "$who"
"""
FLAKY = """
steps:
  first:
    outputs: [n]
    run: |
      echo x >> first; printf '{"n": %s}' "$(wc -l < first)"
  second:
    inputs: {n: first.n}
    outputs: [n]
    run: |
      [ -e ready ] || { echo "not ready" >&2; exit 3; }
      printf '{"n": %s}' "$n"
"""
GATE = """
steps:
  ask:
    executor: external
    description: go on?
    outputs:
      ok: {type: bool}
      note: {type: str, required: false}
  done:
    inputs: {ok: ask.ok}
    outputs: [was]
    run: |
      printf '{"was": "%s"}' "$ok"
"""
SLOW = """
steps:
  wait:
    run: |
      while [ ! -e go ]; do sleep 0.02; done
  after:
    after: [wait]
    run: |
      echo '{"ok": true}'
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = Cli(folder, capsys)
    if not cli.database.exists():
        cli.ok("init")
        for name, text in (("hello", HELLO), ("flaky", FLAKY), ("gate", GATE), ("slow", SLOW)):
            cli.flow(name, text)
    return cli


@pytest.fixture(scope="module", autouse=True)
def _no_worker_is_left(folder: Path) -> Iterator[None]:
    yield
    Cli(folder, None).end_workers()  # type: ignore[arg-type]
    assert Cli(folder, None).workers() == []  # type: ignore[arg-type]


def workspace(cli: Cli, job_id: str) -> Path:
    return cli.folder / ".holdfast" / "jobs" / job_id / "workspace"


# -- run -----------------------------------------------------------------------------------------------------------


def test_wait_prints_one_json_object_and_nothing_else(cli: Cli) -> None:
    said = cli("run", "hello", "--input", "who=Ann", "--wait", "--name", "first", "--label", "team=web")
    assert (said.code, said.err) == (0, "")
    job = said.json
    assert (job["status"], job["outputs"], job["inputs"]) == (
        "completed",
        {"greeting": "hello Ann"},
        {"who": "Ann", "times": 1},
    )
    assert (job["name"], job["labels"]) == ("first", {"team": "web"})


def test_a_run_that_is_watched_in_a_pipe_tells_its_steps_in_lines(cli: Cli) -> None:
    said = cli("run", "hello", "-i", "who=Ann")
    assert said.code == 0
    assert "greet\tstderr\tthinking of Ann\n" in said.out
    assert said.out.endswith('{\n  "greeting": "hello Ann"\n}\n')
    assert "\033" not in said.out + said.err


def test_a_run_that_cannot_begin_makes_no_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = Cli(tmp_path, capsys)
    cli.flow("hello", HELLO)
    assert "there is no such flow; did you mean hello?" in cli("run", "helo").err
    assert "an input is missing" in cli("run", "hello").err
    assert not (tmp_path / ".holdfast").exists()


def test_what_is_asked_of_a_job_that_goes_on_is_not_shown_as_if_it_waited(cli: Cli) -> None:
    job_id = cli("run", "gate", "--wait").json["id"]
    said = cli.ok("cancel", job_id)
    assert said.out == f"job {job_id} queued: cancelled\n"
    assert cli("wait", job_id).code == 4


def test_settings_are_shown_and_set_and_every_job_has_them(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    config:
      model: {description: Which one}
      key: {sensitive: true, required: false}
    steps:
      tell: {inputs: {model: $job.model}, run: 'printf "%s" "$model"'}
    """
    cli.flow("set", textwrap.dedent(text))
    monkeypatch.setenv("HOLDFAST_VAR_KEY", "hunter2")
    assert cli.ok("config", "set").out == "model\t\tmissing\tWhich one\nkey\t\tHOLDFAST_VAR_KEY\n"
    assert "holdfast config set --set model=TEXT" in cli("run", "set", "--wait").err
    cli.ok("config", "set", "--set", "model=fast")
    assert cli.ok("config", "set", "--json").json[0]["from"] == "config.local.yaml"
    assert cli.ok("run", "set", "--wait").json["outputs"] == {"stdout": "fast"}
    assert "sensitive" in cli("config", "set", "--set", "key=x").err
    assert cli.ok("config", "hello").out.startswith("the flow hello has no settings")


def test_a_missing_input_prints_the_exact_flag_to_add(cli: Cli) -> None:
    said = cli("run", "hello", "--wait")
    assert (said.code, said.out) == (2, "")
    assert "add --input who=TEXT" in said.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("run", "nothing"), 3, "there is no such flow"),
        (("run", "hello", "-i", "who"), 2, "write name=value"),
        (("run", "hello", "-i", "whom=Ann"), 2, "did you mean who"),
        (("run", "hello", "-i", "who=x", "--wait", "--async"), 2, "exclude one another"),
        (("run", "hello", "-i", "who=x", "--after", "nobody"), 2, "there is no job 'nobody'"),
        (("run", "hello", "-i", "who=x", "--label", "x"), 2, "write --label name=value"),
        (("status", "nobody"), 2, "there is no job 'nobody'; `holdfast jobs` lists them"),
        (("wait", "nobody", "--any", "--all"), 2, "exclude one another"),
        (("worker", "--cap", "agents=1"), 2, "is no cap"),
        (("jobs", "--store", "postgresql://x"), 3, "SQLite only"),
    ],
)
def test_a_mistake_is_told_in_a_line_with_what_to_do(
    cli: Cli, arguments: tuple[str, ...], code: int, told: str
) -> None:
    said = cli(*arguments)
    assert (said.code, said.out) == (code, "")
    assert told in said.err
    assert "Traceback" not in said.err
    assert said.err.count("\n") <= 3


def test_exit_codes_tell_how_a_job_ended(cli: Cli) -> None:
    failed = cli("run", "flaky", "--wait")
    assert (failed.code, failed.json["status"]) == (1, "failed")
    assert "second" in failed.json["reason"]
    waits = cli("run", "gate", "--wait")
    assert (waits.code, waits.json["status"]) == (5, "waiting")
    assert waits.json["asks"][0]["step"] == "ask"
    unapproved = cli("run", "hello", "-i", "who=x", "--needs-approval", "--wait")
    assert (unapproved.code, unapproved.json["status"]) == (5, "awaiting_approval")


# -- with a worker of its own ----------------------------------------------------------------------------------------


def test_async_starts_a_worker_that_runs_the_job_and_wait_tells(cli: Cli) -> None:
    job_id = cli.submit("hello", "-i", "who=Bob")
    assert cli.ok("wait", job_id).out == f"job {job_id} completed\n"
    assert cli.ok("output", job_id).json == {"greeting": "hello Bob"}
    assert cli.ok("output", job_id[-8:], "--step", "greet").json == {"greeting": "hello Bob"}
    assert "greet\tstderr\tthinking of Bob" in cli.ok("logs", job_id, "-f").out
    assert cli("logs", job_id, "--step", "gree").code == 2
    (worker,) = cli.workers()
    assert worker.serving


def test_a_waiting_job_says_how_to_answer_and_goes_on_with_it(cli: Cli) -> None:
    job_id = cli.submit("gate")
    waits = cli("wait", job_id)
    assert waits.code == 5
    assert f"  holdfast answer {job_id[-8:]} --output ok='yes|no' --output note=TEXT\n" in waits.out
    assert "step ask needs more: add --output ok=yes|no" in cli("answer", job_id).err
    assert "ok is true or false, not 'perhaps'" in cli("answer", job_id, "-o", "ok=perhaps").err
    cli.ok("answer", job_id, "-o", "ok=yes")
    assert cli.ok("wait", job_id, "--json").json[0]["outputs"] == {"was": "true"}
    assert cli("answer", job_id, "-o", "ok=yes").code == 2


def test_a_failed_job_is_retried_at_what_failed_and_a_step_run_again(cli: Cli) -> None:
    job_id = cli.submit("flaky")
    assert cli("wait", job_id).code == 1
    assert "holdfast retry" in cli("output", job_id).err
    assert cli("rerun", job_id, "--step", "third").code == 2
    (workspace(cli, job_id) / "ready").touch()
    cli.ok("retry", job_id)
    assert cli.ok("wait", job_id, "--json").json[0]["outputs"] == {"n": 1}
    said = cli("retry", job_id)
    assert said.code == 1
    assert "only a failed job can be retried" in said.err


def test_a_running_job_is_paused_resumed_and_cancelled(cli: Cli) -> None:
    job_id = cli.submit("slow")
    until_running(cli, job_id)
    said = cli.ok("pause", job_id, "--reason", "a look").out
    assert f"its worker is told; `holdfast wait {job_id[-8:]}` returns when" in said
    cli.ok("wait", cli.submit("hello", "-i", "who=x"))  # whoever ran this has heard of the pause
    (workspace(cli, job_id) / "go").touch()
    assert cli("wait", job_id).code == 5
    assert cli.ok("status", job_id, "--json").json["status"] == "paused"
    cli.ok("resume", job_id)
    assert cli("wait", job_id).code == 0
    other = cli.submit("slow")
    until_running(cli, other)
    cli.ok("cancel", other, "--reason", "enough")
    assert cli("wait", other).code == 4
    steps = {step["step"]: step["status"] for step in cli.ok("status", other, "--json").json["steps"]}
    assert steps["wait"] == "cancelled"


def until_running(cli: Cli, job_id: str) -> None:
    poll(lambda: any(s["status"] == "running" for s in cli.ok("status", job_id, "--json").json["steps"]))


def test_a_job_waits_for_approval_and_for_the_jobs_it_needs(cli: Cli) -> None:
    first = cli.submit("hello", "-i", "who=1", "--needs-approval")
    second = cli.submit("hello", "-i", "who=2", "--after", first)
    assert cli("wait", second, "--timeout", "0.01").code == 5
    cli.ok("approve", first)
    assert cli.ok("wait", first, second, "--all").out.count("completed") == 2
    assert cli.ok("wait", first, second, "--any").code == 0


# -- looking and tidying up --------------------------------------------------------------------------------------------


def test_jobs_are_listed_searched_and_paged(cli: Cli) -> None:
    for number in range(3):
        cli.ok("run", "hello", "-i", "who=x", "--wait", "--name", f"page {number}", "--label", "batch=7")
    listed = cli.ok("jobs", "--label", "batch=7", "--json").json
    assert [job["name"] for job in listed] == ["page 2", "page 1", "page 0"]
    page = cli.ok("jobs", "--label", "batch=7", "-n", "1", "--before", listed[0]["id"], "--json").json
    assert [job["name"] for job in page] == ["page 1"]
    assert cli.ok("jobs", "--search", "page 2", "--status", "completed").out.split("\t")[:2] == [
        listed[0]["id"],
        "hello (page 2)",
    ]
    assert cli.ok("jobs", "--flow", "nothing").out == ""


def test_an_ended_job_is_archived_brought_back_and_deleted_with_all_it_left(cli: Cli) -> None:
    job_id = cli.ok("run", "hello", "-i", "who=x", "--wait", "--label", "keep=no").json["id"]
    cli.ok("archive", job_id)
    assert cli.ok("jobs", "--label", "keep=no", "--json").json == []
    assert len(cli.ok("jobs", "--label", "keep=no", "--archived", "--json").json) == 1
    cli.ok("archive", job_id, "--undo")
    assert cli.ok("delete", job_id).out == f"deleted {job_id}\n"
    assert cli("status", job_id).code == 2
    assert not workspace(cli, job_id).exists()
    assert not (cli.folder / ".holdfast" / "logs" / f"{job_id}.jsonl").exists()
    waits = cli("run", "gate", "--wait").json["id"]
    assert "cannot be deleted before it ends; cancel it first" in cli("delete", waits).err


def test_gc_deletes_ended_jobs_with_all_they_left_and_leaves_those_that_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(tmp_path, capsys)
    cli.ok("init")
    cli.flow("hello", HELLO)
    cli.flow("gate", GATE)
    done = cli.ok("run", "hello", "-i", "who=x", "--wait").json["id"]
    waits = cli("run", "gate", "--wait").json["id"]
    cli.ok("gc", "--max-runs", "0")
    assert [job["id"] for job in cli.ok("jobs", "--json").json] == [waits]
    assert not workspace(cli, done).exists()


def test_gc_leaves_a_failed_job_that_was_queued_for_a_retry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = Cli(tmp_path, capsys)
    cli.ok("init")
    cli.flow("sad", "steps:\n  fail:\n    run: test -e ok\n")
    job_id = cli("run", "sad", "--wait").json["id"]

    async def retry(project: Project) -> None:  # and nobody serves the queue yet
        await project.service.retry(job_id)

    in_project(str(tmp_path / ".holdfast" / "holdfast.db"), retry)
    told = cli.ok("gc", "--max-runs", "0", "--json").json
    assert (told["removed"], told["busy"]) == ([], [job_id])
    assert [step["step"] for step in cli.ok("status", job_id, "--json").json["steps"]] == ["fail"]
    assert cli.ok("status", job_id, "--json").json["steps"][0]["status"] == "failed"


def test_a_worker_lets_go_of_what_ended_long_ago(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = Cli(tmp_path, capsys)
    cli.ok("init")
    cli.flow("hello", HELLO)
    old = cli.ok("run", "hello", "-i", "who=x", "--wait").json["id"]
    database = tmp_path / ".holdfast" / "holdfast.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE run SET updated_us = 1")
        connection.execute("UPDATE event SET at_us = 1")
    assert workspace(cli, old).exists()
    cli("worker", "--idle-seconds", "0.3")
    assert cli.ok("jobs", "--json").json == []
    assert not workspace(cli, old).exists()


def test_the_status_has_steps_and_history(cli: Cli) -> None:
    job_id = cli.ok("run", "hello", "-i", "who=x", "--wait").json["id"]
    told = cli.ok("status", job_id, "--json").json
    assert [(step["step"], step["status"]) for step in told["steps"]] == [("greet", "completed")]
    assert [change["to"] for change in told["history"]] == ["queued", "running", "completed"]
    assert cli.ok("status", job_id).out == f"job {job_id} completed\ngreet\tcompleted\t1\n"


def test_the_doctor_finds_nothing_broken_and_says_what_a_broken_file_needs(cli: Cli) -> None:
    checks = {check["what"]: check for check in cli.ok("doctor", "--json").json}
    assert checks["store"]["verdict"] == "ok"
    assert "broken" not in {check["verdict"] for check in checks.values()}
    broken = cli.folder / "broken.db"
    broken.write_text("this is no database at all" * 100)
    said = cli("doctor", "--store", str(broken))
    assert said.code == 1
    assert "broken\tstore" in said.out


@pytest.fixture
def other(tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]) -> Cli:
    """A folder that is no project yet, and that nobody serves."""
    other = Cli(tmp_path_factory.mktemp("other"), capsys)
    other.flow("hello", "steps:\n  a:\n    run: echo hello\n")
    return other


def test_the_doctor_says_that_queued_jobs_wait_for_a_worker(other: Cli) -> None:
    job_id = other.submit("hello", "--needs-approval")

    async def approve() -> None:
        async with SqliteJobs(other.database) as jobs:
            await JobService(jobs).approve(job_id)

    asyncio.run(approve())
    checks = {check["what"]: check for check in other.ok("doctor", "--json").json}
    assert (checks["worker"]["verdict"], checks["worker"]["do"]) == ("missing", "`holdfast worker` goes on with them")


def test_looking_at_a_store_that_is_not_there_makes_none(other: Cli) -> None:
    for arguments in (["jobs"], ["status", "1f9c"], ["delete", "1f9c"]):
        said = other(*arguments, "--store", "typo.db")
        assert (said.code, "there is no store at " in said.err) == (3, True)
    assert not (other.folder / "typo.db").exists()


def test_one_wrong_name_among_many_deletes_and_archives_nothing(cli: Cli) -> None:
    job_id = cli.ok("run", "hello", "-i", "who=x", "--wait").json["id"]
    for command in ("delete", "archive"):
        assert cli(command, job_id, "nope").code == 2
        assert cli.ok("status", job_id, "--json").json["archived"] is False


def test_the_output_of_a_step_that_there_is_not_is_an_error(cli: Cli) -> None:
    job_id = cli.ok("run", "hello", "-i", "who=x", "--wait").json["id"]
    assert "thinking of x" in cli.ok("logs", job_id, "--step", "greet").out
    said = cli("logs", job_id, "--step", "great")
    assert (said.code, "has no step 'great'; it has: greet" in said.err) == (2, True)


def test_a_label_that_is_none_is_refused_before_a_project_is_made(other: Cli) -> None:
    assert other("run", "hello", "--label", "web").code == 2
    assert not (other.folder / ".holdfast").exists()


def test_settings_that_cannot_be_meant_are_refused(cli: Cli) -> None:
    settings = cli.folder / ".holdfast" / "holdfast.toml"
    before = settings.read_text()
    for text, told in (
        ("[workers]\nplaces = 2\n", "there is no setting workers"),
        ("[caps]\ntotal = 'many'\n", "must be a number of jobs"),
        ("[caps.flow]\nhello = -1\n", "caps.flow.hello must be a number"),
        ("caps = 3\n", "caps must be a table"),
        ("[caps\n", "cannot be read"),
    ):
        settings.write_text(text)
        said = cli("run", "hello", "-i", "who=x", "--wait")
        assert said.code == 3
        assert told in said.err
    settings.write_text(before)


def test_cached_results_are_counted_and_forgotten(cli: Cli) -> None:
    cli.flow("cached", "steps:\n  a:\n    cache: true\n    outputs: [n]\n    run: |\n      echo '{\"n\": 1}'\n")
    cli.ok("run", "cached", "--wait")
    assert cli.ok("cache", "--json").json["results"] == 1
    assert cli.ok("cache", "clear").out == "forgot 1 results\n"
    assert cli.ok("cache", "--json").json["results"] == 0


def test_a_new_project_and_a_new_flow_run_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = Cli(tmp_path, capsys)
    assert cli("new", "first").code == 3
    cli.ok("init")
    for name, more in (("first", ()), ("second", ("--directory",))):
        cli.ok("new", name, *more)
        assert cli.ok("validate", name).out == f"{name}: ok\n"
        assert cli.ok("run", name, "--wait", "-i", "who=Ann").json["outputs"] == {"loud": "HELLO ANN"}
    assert "is there already" in cli("new", "first").err
    assert cli("new", "../first").code == 2
    # these were made, and then refused by `run`
    for name, expected in (
        ("1st", "begins with a letter or _"),
        (101 * "n", "at most 100 characters"),
        ("é", "letters, digits"),
    ):
        said = cli("new", name)
        assert (said.code, expected in said.err) == (2, True)
    assert [*cli.folder.glob("flows/*1st*")] == []


def test_shells_are_told_how_to_complete_a_job(cli: Cli) -> None:
    job_id = cli.ok("run", "hello", "-i", "who=x", "--wait").json["id"]
    words = {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": f"holdfast status {job_id[:20]}", "COMP_CWORD": "2"}
    command = Path(sys.executable).parent / "holdfast"
    environment = {**os.environ, **words}
    done = subprocess.run([command], cwd=cli.folder, env=environment, capture_output=True, text=True, check=False)
    assert job_id in done.stdout.split()


def test_shells_are_told_the_flows_there_are(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (cli.folder / "flows" / "kept").mkdir()
    (cli.folder / "flows" / "kept" / "FLOW.yaml").touch()
    (cli.folder / "below").mkdir()
    monkeypatch.chdir(cli.folder / "below")
    assert {"flaky", "gate", "hello", "kept", "slow"} <= set(complete_flow(""))
    assert complete_flow("hel") == ["hello"]
