"""The command, as a user runs it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from importlib.metadata import version

import pytest

from holdfast.events import TaskCompletedEvent, event_classes

COMMAND = [sys.executable, "-W", "error", "-m", "holdfast"]


def holdfast(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=40, check=False)


def test_the_version_is_the_one_of_the_package() -> None:
    done = holdfast("--version")
    assert (done.stdout, done.stderr, done.returncode) == (f"holdfast {version('holdfast')}\n", "", 0)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_the_commands(flag: str) -> None:
    done = holdfast(flag)
    assert done.returncode == 0
    assert "events" in done.stdout
    assert "stay apart, and leave nothing behind" in " ".join(done.stdout.split())
    assert "\033" not in done.stdout


def test_an_unknown_command_is_a_usage_error() -> None:
    done = holdfast("evnts")
    assert done.returncode == 2
    assert "evnts" in done.stderr
    assert done.stdout == ""


def test_events_lists_every_type_with_its_sentence_and_no_colour_in_a_pipe() -> None:
    done = holdfast("events")
    assert (done.stderr, done.returncode) == ("", 0)
    assert "\033" not in done.stdout
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    shipped = {
        tag
        for tag, cls in event_classes().items()
        if cls.__module__.startswith("holdfast.") and not tag.startswith("sample_")
    }
    assert {row[0] for row in rows} == shipped
    assert [row[0] for row in rows] == sorted(shipped)
    assert all(len(row) == 3 and row[2].endswith(".") for row in rows if row[1] != "BaseEvent")


def test_events_shows_one_type_with_its_fields() -> None:
    done = holdfast("events", "task_completed")
    assert done.returncode == 0
    assert done.stdout.startswith("TaskCompletedEvent  (task_completed)\n")
    assert f"\n{TaskCompletedEvent.__doc__}\n" in done.stdout
    shown = {line.split(":")[0].strip() for line in done.stdout.splitlines()[2:]}
    assert shown == set(TaskCompletedEvent.__struct_fields__) - {"env"}


def test_events_as_json_is_data() -> None:
    everything = json.loads(holdfast("events", "--json").stdout)
    one = json.loads(holdfast("events", "--json", "run_started").stdout)
    assert one in everything
    assert (one["class"], one["opens"], one["durable"]) == ("RunStartedEvent", "run", True)
    assert "from_status" in one["fields"]


@pytest.mark.parametrize(
    ("tag", "hint"), [("task_complete", "did you mean task_completed?"), ("zzz", "`holdfast events` lists them all")]
)
def test_an_unknown_type_exits_with_2_and_a_suggestion(tag: str, hint: str) -> None:
    done = holdfast("events", tag)
    assert done.returncode == 2
    assert done.stderr == f"holdfast: no event type {tag!r}; {hint}\n"
    assert done.stdout == ""


def test_a_reader_that_leaves_early_is_no_error() -> None:
    process = subprocess.Popen([*COMMAND, "events", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert err == b""
    assert process.wait(40) == 0


def test_on_a_terminal_there_is_a_table_with_colour() -> None:
    primary, secondary = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen([*COMMAND, "events"], stdout=secondary, env=environment)
    os.close(secondary)
    shown = b""
    while chunk := _read(primary):
        shown += chunk
    assert process.wait(40) == 0
    os.close(primary)
    assert b"\033[" in shown
    assert b"task_completed" in shown


def _read(primary: int) -> bytes:
    try:
        return os.read(primary, 65536)
    except OSError:  # the other end is closed
        return b""
