"""`holdfast hooks` and `holdfast run --webhook`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.jobs_support import Cli, poll

from holdfast.ports import JobStatus, Subscription
from holdfast.stores import SqliteJobs, SqliteOutbox
from holdfast.testing._job_base import moved, running

HELLO = """
name: hello
steps:
  greet:
    run: 'echo "{\\"text\\": \\"hello\\"}"'
    outputs: [text]
"""
ONE = Subscription("hook:one", frozenset({"completed"}))
COMMAND = '[hooks.file]\non = ["step_completed", "completed"]\ncommand = ["sh", "-c", "cat >> told; echo >> told"]\n'


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    cli = Cli(tmp_path, capsys)
    cli.ok("init")
    cli.flow("hello", HELLO)
    yield cli
    cli.end_workers()


def configure(cli: Cli, toml: str) -> None:
    home = cli.folder / ".holdfast"
    home.mkdir(exist_ok=True)
    (home / "holdfast.toml").write_text(toml)


def told(cli: Cli) -> list[dict[str, object]]:
    path = cli.folder / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_run_in_this_process_leaves_telling_to_a_worker_that_stays_until_it_is_done(project: Cli) -> None:
    configure(project, COMMAND)
    job = project.ok("run", "hello", "--wait").json
    poll(lambda: len(told(project)) == 2)
    assert [(one["event"], one["job"]["id"]) for one in told(project)] == [  # type: ignore[index]
        ("step_completed", job["id"]),
        ("completed", job["id"]),
    ]


def test_without_hooks_no_worker_is_started_and_nothing_is_listed(project: Cli) -> None:
    project.ok("run", "hello", "--wait")
    assert project.workers() == []
    assert project.ok("hooks", "list", "--json").json == []
    assert project.ok("hooks").out == ""


def test_hooks_are_shown_without_what_may_be_a_secret(project: Cli) -> None:
    toml = (
        '[hooks.slack]\non = ["failed"]\nflow = "deploy"\nurl = "https://example.org/T0/secret"\nsecret_env = "KEY"\n'
    )
    configure(project, toml)
    assert project.ok("hooks").out == "slack\thttps://example.org/…\tdeploy\tfailed\n"
    assert project.ok("hooks", "--json").json == [
        {"name": "slack", "on": ["failed"], "flow": "deploy", "target": "https://example.org/…", "secret_env": "KEY"}
    ]


def test_a_hook_is_tried_out_at_once(project: Cli) -> None:
    configure(project, COMMAND + '[hooks.bad]\non = ["failed"]\ncommand = ["false"]\n')
    assert project.ok("hooks", "test", "file").out == "file was told\n"
    assert [one["event"] for one in told(project)] == ["test"]
    failed = project("hooks", "test", "bad")
    assert (failed.code, failed.err) == (1, "holdfast: false ended with exit code 1\n")
    unknown = project("hooks", "test", "slack")
    assert unknown.code == 2
    assert "there is no hook 'slack'" in unknown.err
    assert "hooks: file, bad" in unknown.err


def test_a_mistake_in_the_file_stops_a_run_before_it_begins_and_no_command_that_looks(project: Cli) -> None:
    configure(project, '[hooks.a]\non = ["fialed"]\nurl = "https://a/"\n')
    said = project("run", "hello", "--async")
    assert said.code == 3
    assert "Invalid enum value 'fialed'" in said.err
    assert project.ok("jobs", "--json").json == []


def test_a_webhook_that_leads_inside_is_refused_before_the_job_is_made(project: Cli) -> None:
    said = project("run", "hello", "--wait", "--webhook", "http://169.254.169.254/")
    assert said.code == 2
    assert "webhooks may not reach 169.254.169.254" in said.err
    assert project.ok("jobs", "--json").json == []


def delivered(cli: Cli, status: str) -> tuple[str, str]:
    """The ids of a job that completed and of what was told of it, by somebody who has left."""

    async def main() -> tuple[str, str]:
        async with SqliteJobs(cli.database, hooks=lambda: [ONE]) as jobs, SqliteOutbox(cli.database) as outbox:
            job = await moved(jobs, await running(jobs), JobStatus.COMPLETED)
            await jobs.lose(job.worker, reason="gone", now_us=9)
            (one,) = await outbox.claim("me", now_us=9, until_us=99, limit=1)
            if status == "dead":
                await outbox.give_up(one, error="it broke", now_us=9)
            else:
                await outbox.delivered(one, now_us=9)
            return job.id, one.id

    return asyncio.run(main())


def test_a_dead_delivery_is_shown_and_retried(project: Cli) -> None:
    configure(project, '[hooks.one]\non = ["completed"]\ncommand = ["sh", "-c", "cat > told"]\n')
    job, one = delivered(project, "dead")
    listed = project.ok("hooks", "list", "--status", "dead", "--job", job[-8:])
    assert listed.out.split("\t")[:4] == [one, "dead", "completed", "hook:one"]
    assert listed.out.endswith("\tit broke\n")
    shown = project.ok("hooks", "show", one).json
    assert (shown["error"], shown["body"]["job"]["id"]) == ("it broke", job)
    assert project.ok("hooks", "retry", "--dead").out == f"delivering {one}\n"
    poll(lambda: told(project))


def test_what_cannot_be_shown_or_retried_says_why(project: Cli) -> None:
    _, one = delivered(project, "delivered")
    for arguments, says in (
        (("show", "nobody"), "there is no delivery 'nobody'"),
        (("retry", "nobody"), "there is no delivery 'nobody'"),
        (("retry", one), "arrived already"),
        (("retry",), "say which"),
    ):
        said = project("hooks", *arguments)
        assert said.code == 2
        assert says in said.err


def test_gc_forgets_what_was_delivered_long_ago(project: Cli) -> None:
    delivered(project, "delivered")
    project.ok("gc", "--dry-run")
    assert len(project.ok("hooks", "list", "--json").json) == 1
    project.ok("gc")
    assert project.ok("hooks", "list", "--json").json == []
