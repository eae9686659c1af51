"""Schedules on the command line, and fired by real workers."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.jobs_support import Cli, poll
from tests.cli.support import COMMAND, Project

HELLO = """
inputs:
  who: {type: str, default: world}
steps:
  greet:
    inputs: {who: $job.who}
    run: echo '{}'
"""
COUNT = """n=$((${HOLDFAST_CURSOR:-0}+1)); printf '{"fire": [{"who": "%s"}], "cursor": %s}' "$n" "$n" """


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    cli = Cli(tmp_path, capsys)
    cli.ok("init")
    cli.flow("hello", HELLO)
    yield cli
    cli.end_workers()


def test_a_schedule_is_made_listed_shown_and_removed(cli: Cli) -> None:
    said = cli.ok("schedule", "add", "nightly", "hello", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin")
    assert said.out.splitlines()[:2] == [
        "schedule nightly is active",
        "  runs      flows/hello.flow.yaml, 30 2 * * * (Europe/Berlin)",
    ]
    assert said.out.count("  next      ") == 3
    assert "nobody serves the queue now" in said.err
    (listed,) = cli.ok("schedule", "list").out.splitlines()
    assert listed.split("\t")[:4] == ["nightly", "flows/hello.flow.yaml", "active", "30 2 * * * (Europe/Berlin)"]
    shown = cli.ok("schedule", "show", "nightly", "--json").json
    assert cli.ok("schedule", "list", "--json").json == [shown]
    assert cli.ok("schedule", "show", shown["id"]).out.startswith("schedule nightly is active")
    assert cli.ok("schedule", "remove", "nightly").out == "removed nightly\n"
    assert cli.ok("schedule", "list", "--json").json == []
    assert cli("schedule", "show", "nightly").code == 2


def test_every_setting_is_stored(cli: Cli) -> None:
    made = cli.ok(
        "schedule", "add", "mails", "flows/hello.flow.yaml", "--every", "5m", "--command", "./check", "--input", "who=me",
        "--label", "team=web", "--overlap", "queue", "--cooldown", "1h", "--catch-up", "once", "--pause-after", "0", "--json",
    ).json  # fmt: skip
    assert {name: made[name] for name in (
        "kind", "every_seconds", "command", "inputs", "labels", "overlap", "cooldown_seconds", "catch_up", "pause_after_errors",
    )} == {
        "kind": "poll", "every_seconds": 300, "command": "./check", "inputs": {"who": "me"}, "labels": {"team": "web"},
        "overlap": "queue", "cooldown_seconds": 3600, "catch_up": "once", "pause_after_errors": 0,
    }  # fmt: skip
    assert "every 300 s: ./check" in cli.ok("schedule", "list").out
    assert (
        cli.ok("schedule", "add", "called", "hello", "--every", "90s", "--call", "a:b", "--json").json["call"] == "a:b"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["hello", "--cron", "30 25 * * *"], "'30 25 * * *', column 4: '25' is no hour; write 0-23"),
        (["hello", "--cron", "@daily", "--timezone", "Europe/Berln"], "did you mean Europe/Berlin?"),
        (["hullo", "--cron", "@daily"], "the project has no flow 'hullo'"),
        (["hello"], "say when: a cron expression, or how often to poll"),
        (["hello", "--every", "soon", "--command", "x"], "'soon' is not a duration"),
        (["hello", "--every", "5m"], "a poll needs one check"),
        (["hello", "--cron", "@daily", "--command", "x"], "goes by cron or is a poll"),
        (["hello", "--cron", "@daily", "--input", "whom=x"], "did you mean who?"),
        (["hello", "--cron", "@daily", "--label", "x"], "is no label"),
    ],
)
def test_a_wrong_call_says_what_to_write(cli: Cli, arguments: list[str], says: str) -> None:
    said = cli("schedule", "add", "bad", *arguments)
    assert (said.code, says in said.err) == (2, True), said
    assert cli.ok("schedule", "list").out == ""


def test_a_flow_is_meant_as_it_is_seen_from_where_the_command_is_given(cli: Cli) -> None:
    inside = Cli(cli.folder / "flows", cli._capture)
    made = inside.ok("schedule", "add", "nightly", "hello.flow.yaml", "--cron", "@daily", "--json").json
    assert made["flow"] == "flows/hello.flow.yaml"


def test_a_schedule_is_paused_resumed_and_fired_by_hand(cli: Cli) -> None:
    cli.ok("schedule", "add", "nightly", "hello", "--cron", "@yearly", "--input", "who=you")
    assert cli.ok("schedule", "pause", "nightly", "--reason", "lunch").out == "schedule nightly is paused\n"
    assert cli.ok("schedule", "show", "nightly").out.startswith("schedule nightly is paused: lunch\n")
    assert cli("schedule", "pause", "nightly").code == 1
    job = cli.ok("schedule", "fire", "nightly").out.strip()
    assert cli.ok("wait", job, "--json").json[0]["inputs"] == {"who": "you"}
    assert cli.ok("jobs", "--label", "schedule=nightly", "--json").json[0]["id"] == job
    resumed = cli.ok("schedule", "resume", "nightly").out
    assert resumed.startswith("schedule nightly is active; next at ")
    (tick,) = cli.ok("schedule", "ticks", "nightly", "--json").json
    assert (tick["outcome"], tick["job_id"], tick["reason"][:8]) == ("fired", job, "by hand:")
    assert cli.ok("schedule", "ticks", "nightly").out.split("\t")[1:3] == ["fired", job[-8:]]


def test_a_worker_and_a_server_of_one_project_fire_each_due_time_once(cli: Cli) -> None:
    """Real processes, the real clock: what the jobs were given counts up without a gap and without a repetition."""
    cli.ok("schedule", "add", "counting", "hello", "--every", "1s", "--command", COUNT, "--overlap", "allow")
    workers = [
        subprocess.Popen(
            [*COMMAND, *command], cwd=cli.folder, env=Project(cli.folder).environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for command in (["worker"], ["serve", "--port", "0"])
    ]  # fmt: skip
    assert "serves" in workers[0].stderr.readline()  # type: ignore[union-attr]  # both hear signals from then on
    assert "serving on" in workers[1].stdout.readline()  # type: ignore[union-attr]
    with closing(sqlite3.connect(cli.database)) as database:
        poll(lambda: database.execute("SELECT count(*) FROM job WHERE status = 'completed'").fetchone()[0] >= 3)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        assert ("Traceback" in worker.communicate(timeout=20)[1], worker.returncode) == (False, 0)
    given = [int(job["inputs"]["who"]) for job in cli.ok("jobs", "--json", "-n", "1000").json]
    assert sorted(given) == [*range(1, len(given) + 1)]
    ticks = cli.ok("schedule", "ticks", "counting", "--json", "-n", "1000").json
    assert len({tick["due"] for tick in ticks}) == len(ticks) == len(given)
    assert json.loads(cli.ok("schedule", "show", "counting", "--json").out)["cursor"] == len(given)
