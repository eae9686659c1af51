"""`holdfast checkpoint fork`, `resume` and `prune`, and `holdfast gc`: changing what is recorded."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import COMMAND, Project
from tests.stores.conftest import postgres  # noqa: F401 - the fixture

from holdfast import Runtime
from holdfast.checkpoints import CheckpointConfig, Listed, list_checkpoints
from holdfast.cli._checkpoint_data import listed_data
from holdfast.ports import RunInfo
from holdfast.stores import PostgresStore, SqliteStore

NOW = time.time_ns() // 1000


def marks(project: Project, status: str, run: str = "Checkout") -> list[dict[str, Any]]:
    """A run's checkpoints, oldest first."""

    async def listed() -> list[Listed]:
        async with SqliteStore(project.database) as store:
            return await list_checkpoints(store)

    found = [listed_data(one, NOW) for one in reversed(asyncio.run(listed()))]
    return [one for one in found if (one["status"], one["run"]) == (status, run)]


def run_of(project: Project, run_id: str) -> RunInfo | None:
    with SqliteStore(project.database) as store:
        return asyncio.run(store.run(run_id))


# -- resume --------------------------------------------------------------------------------------------------------


def test_s1_16_resume_goes_on_with_the_class_that_is_named(project: Project) -> None:
    last = marks(project, "failed")[-1]
    done = project.json("checkpoint", "resume", last["run_id"][-8:], "--flow", "shop:Checkout")
    assert done == {"run_id": last["run_id"], "status": "completed", "result": "shipped for 44.5"}
    shown = project.json("checkpoint", "show", last["run_id"])
    assert [step["attempts"] for step in shown["steps"]] == [1, 1, 1, 2]


def test_s1_16_resume_of_an_earlier_checkpoint_makes_a_branch(project: Project) -> None:
    first = marks(project, "failed")[0]
    done = project("checkpoint", "resume", first["id"], "--flow", "shop:Checkout")
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == f'run {first["run_id"]} completed\n"shipped for 44.5"\n'
    [tree] = project.json("checkpoint", "list", "--tree", "--run", first["run_id"])
    assert len(tree["branches"]) == 2


def test_without_a_class_resume_suggests_the_recorded_one_and_imports_nothing(project: Project) -> None:
    last = marks(project, "failed")[-1]
    done = project("checkpoint", "resume", last["id"])
    assert (done.stdout, done.returncode) == ("", 2)
    assert "it was recorded with --flow tests.cli.shop:Checkout" in done.stderr


@pytest.mark.parametrize(
    ("named", "complaint"),
    [
        ("shop", "write MODULE:CLASS"),
        ("none:Checkout", "No module named 'none'"),
        ("shop:None", "has no attribute 'None'"),
        ("shop:Order", "this is not a Flow class"),
        ("shop:Picky", "cannot be made without arguments"),
        ("broken:Checkout", "ZeroDivisionError"),
    ],
)
def test_a_class_that_cannot_be_used_is_a_usage_error(project: Project, named: str, complaint: str) -> None:
    (project.folder / "broken.py").write_text("1 / 0\n")
    done = project("checkpoint", "resume", marks(project, "failed")[-1]["id"], "--flow", named)
    assert (done.stdout, done.returncode) == ("", 2)
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_another_class_than_the_recorded_one_is_refused(project: Project) -> None:
    last = marks(project, "failed")[-1]
    done = project("checkpoint", "resume", last["id"], "--flow", "shop:Slow")
    assert (done.stdout, done.returncode) == ("", 2)
    assert "has changed since this run was recorded" in done.stderr


def test_a_run_that_fails_again_exits_with_1_in_a_sentence(project: Project) -> None:
    last = marks(project, "failed")[-1]
    done = project("checkpoint", "resume", last["id"], "--flow", "shop:Checkout", "--json", BROKEN="1")
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr == "holdfast: the run failed: ConnectionError: the carrier does not answer\\x1b[2J\n"
    debugged = project("--debug", "checkpoint", "resume", last["run_id"], "--flow", "shop:Checkout", BROKEN="1")
    assert "Traceback" in debugged.stderr


def test_a_completed_run_is_only_forked(project: Project) -> None:
    done = project("checkpoint", "resume", marks(project, "completed")[-1]["run_id"], "--flow", "shop:Checkout")
    assert (done.stdout, done.returncode) == ("", 1)
    assert "can only be forked" in done.stderr


def test_ctrl_c_leaves_a_resumed_run_that_can_be_resumed_again(project: Project) -> None:
    [begun] = marks(project, "failed", "Slow")
    process = subprocess.Popen(
        [*COMMAND, "checkpoint", "resume", begun["id"], "--flow", "shop:Slow"],
        cwd=project.folder, env=project.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=40)
    assert "Traceback" not in err
    assert process.returncode == 130
    info = run_of(project, begun["run_id"])
    assert info is not None
    assert (info.status, info.held_until_us) == ("running", 0)  # nobody holds it: it can be resumed at once


def test_a_killed_run_is_called_interrupted_and_not_running_any_more(project: Project) -> None:
    """It was called `running` by list, tree and show until somebody resumed it."""
    [begun] = marks(project, "failed", "Slow")
    process = subprocess.Popen(
        [*COMMAND, "checkpoint", "resume", begun["id"], "--flow", "shop:Slow"],
        cwd=project.folder, env=project.environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        assert _told_status(project, begun) == {"running"}
        process.kill()
    stored = run_of(project, begun["run_id"])
    assert _told_status(project, begun) == {"interrupted"}
    [wait] = project.json("checkpoint", "show", begun["run_id"])["steps"][1:]
    assert (wait["step"], wait["status"]) == ("wait#1", "interrupted")
    assert "  wait#1   interrupted" in project("checkpoint", "show", begun["run_id"]).stdout
    assert run_of(project, begun["run_id"]) == stored  # looking writes nothing


def _told_status(project: Project, mark: dict[str, Any]) -> set[str]:
    """Every status that is told of a checkpoint's run, wherever one is."""
    run, listing = mark["run_id"], ("checkpoint", "list", "--run", mark["run_id"])
    [tree] = project.json(*listing, "--tree")
    [listed, *_] = project.json(*listing)
    table = project.on_terminal(*listing, columns=140).splitlines()[1]
    return {
        tree["status"],
        tree["branches"][0]["checkpoints"][0]["status"],
        listed["status"],
        project.json("checkpoint", "show", run)["status"],
        project.json("checkpoint", "show", mark["id"])["status"],
        re.sub(r"\x1b\[[0-9;]*m", "", table).split()[-1],
        project(*listing).stdout.splitlines()[0].split("\t")[-1],
        project(*listing, "--tree").stdout.split()[2],
        project("checkpoint", "show", run).stdout.splitlines()[1].split()[-1],
    }


def test_a_run_that_asks_waits_when_nobody_is_there_and_takes_an_answer_from_a_pipe(project: Project) -> None:
    [begun] = marks(project, "failed", "Asking")
    resume = ("checkpoint", "resume", begun["run_id"], "--flow", "shop:Asking", "--json")
    waiting = project(*resume)
    assert waiting.returncode == 5
    told = {"run_id": begun["run_id"], "status": "waiting", "result": None, "questions": ["send it?"]}
    assert json.loads(waiting.stdout) == told
    assert project.json("gc", "--max-age", "0s")["removed"]
    answered = project(*resume, given="yes\n")
    assert answered.returncode == 0
    assert json.loads(answered.stdout)["result"] == "they said yes"


# -- fork ----------------------------------------------------------------------------------------------------------


def test_s1_16_fork_edits_the_state_and_the_branch_can_be_resumed(project: Project) -> None:
    price = marks(project, "failed")[1]
    forked = project.json(
        "checkpoint", "fork", price["id"], "--branch", "dear",
        "--set", "total=99", "--set", 'items[0].name="chair"', "--set", "note=a note", "--set", "$.items[1].new=true",
    )  # fmt: skip
    assert (forked["run_id"], forked["branch"]) == (price["run_id"], "dear")
    found = project.json("checkpoint", "diff", price["id"], forked["id"])
    changes = {change["path"]: change.get("after") for change in found["state"]}
    assert changes == {"$.items[0].name": "chair", "$.items[1].new": True, "$.total": 99, "$.note": "a note"}
    assert found["steps"] == {"only_a": [], "only_b": []}
    done = project.json("checkpoint", "resume", forked["id"], "--flow", "shop:Checkout")
    assert done["result"] == "held for review"
    main = project.json("checkpoint", "show", price["id"])
    assert main["state"]["total"] == 44.5


def test_fork_takes_fields_from_a_file_and_says_how_to_go_on(project: Project, tmp_path: Path) -> None:
    (tmp_path / "edit.json").write_text(json.dumps({"total": 60.0, "tags": {"$set": ["old"]}}))
    completed = marks(project, "completed")[1]
    done = project("checkpoint", "fork", completed["id"], "--branch", "b", "--state", str(tmp_path / "edit.json"))
    assert (done.stderr, done.returncode) == ("", 0)
    new = project.json("checkpoint", "list", "--limit", "1")[0]
    assert done.stdout.splitlines()[-1] == (
        f"go on with it: holdfast checkpoint resume {new['id']} --flow tests.cli.shop:Checkout"
    )
    assert (new["branch"], new["parent_id"], new["trigger"]) == ("b", completed["id"], "checkpoint_forked")
    assert new["status"] == "paused"  # a completed run has something to go on with again
    result = project.json("checkpoint", "resume", new["id"], "--flow", "shop:Checkout")
    assert (result["status"], result["result"]) == ("completed", "held for review")


def test_s1_16_fork_with_run_goes_on_at_once(project: Project) -> None:
    price = marks(project, "completed")[1]
    done = project.json(
        "checkpoint", "fork", price["id"], "--branch", "dear", "--set", "total=99", "--flow", "shop:Checkout", "--run"
    )
    assert (done["run_id"], done["status"], done["result"]) == (price["run_id"], "completed", "held for review")
    [tree] = project.json("checkpoint", "list", "--tree", "--run", price["run_id"])
    assert [branch["name"] for branch in tree["branches"]] == ["main", "dear"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--branch", "b", "--set", "total"], "write PATH=VALUE"),
        (["--branch", "b", "--set", "[0]=1"], "write PATH=VALUE"),
        (["--branch", "b", "--set", "total.deep=1"], "total is a float"),
        (["--branch", "b", "--set", "items[7].name=1"], "items is a list of 2"),
        (["--branch", "b", "--state", "none.json"], "none.json cannot be read"),
        (["--branch", "b", "--state", "shop.py"], "shop.py is not JSON"),
        (["--branch", "\x1b[2J"], "cannot be the name of a branch"),
        (["--branch", "b", "--flow", "shop:Slow"], "is not what run"),
        (["--branch", "b", "--run"], "say which class"),
        ([], "--branch"),
    ],
)
def test_a_fork_that_makes_no_sense_is_a_usage_error_and_changes_nothing(
    project: Project, arguments: list[str], complaint: str
) -> None:
    price = marks(project, "completed")[1]
    done = project("checkpoint", "fork", price["id"], *arguments)
    assert (done.stdout, done.returncode) == ("", 2)
    assert complaint in done.stderr
    info = run_of(project, price["run_id"])
    assert info is not None
    assert (info.status, info.incarnation) == ("completed", 1)


def test_a_taken_name_is_refused_and_leaves_the_run_free(project: Project) -> None:
    price = marks(project, "completed")[1]
    done = project("checkpoint", "fork", price["id"], "--branch", "main")
    assert (done.stdout, done.returncode) == ("", 1)
    assert "choose another name" in done.stderr
    info = run_of(project, price["run_id"])
    assert info is not None
    assert (info.status, info.held_until_us) == ("completed", 0)


# -- prune and gc --------------------------------------------------------------------------------------------------


def test_prune_keeps_the_newest_of_each_branch(project: Project) -> None:
    before = project.json("checkpoint", "list")
    planned = project.json("checkpoint", "prune", "--keep", "1", "--dry-run")
    assert project.json("checkpoint", "list") == before
    done = project.json("checkpoint", "prune", "--keep", "1")
    assert planned["dropped"] == done["dropped"]
    assert (done["kept"], done["dry_run"], planned["dry_run"]) == (4, False, True)
    left = project.json("checkpoint", "list")
    assert [one["subject"] for one in left] == ["begin", "check", "begin", "ship"]
    assert project.json("checkpoint", "resume", left[1]["id"], "--flow", "shop:Checkout")["status"] == "completed"


def test_prune_by_age_and_of_one_run(project: Project) -> None:
    ship = marks(project, "completed")[-1]
    done = project("checkpoint", "prune", "--older-than", "1h")
    assert done.stdout == "dropped 0 checkpoints, 9 stay; 0 B freed\n"
    done = project("checkpoint", "prune", "--older-than", "0s", "--run", ship["id"])
    assert done.stdout == "dropped 4 checkpoints, 0 stay; 0 B freed\n"


def test_prune_must_be_told_what_may_go(project: Project) -> None:
    done = project("checkpoint", "prune")
    assert (done.stdout, done.returncode) == ("", 2)
    assert "--keep N, --older-than AGE" in done.stderr
    assert project("checkpoint", "prune", "--older-than", "soon").returncode == 2


def test_gc_deletes_what_is_over_the_bounds_and_says_so(project: Project) -> None:
    completed = marks(project, "completed")[0]["run_id"]
    assert project.json("gc") == {"removed": [], "busy": [], "size": 0, "dry_run": False}
    planned = project.json("gc", "--max-runs", "3", "--dry-run")
    assert [(one["id"], one["bound"], one["status"]) for one in planned["removed"]] == [
        (completed, "runs", "completed")
    ]
    assert run_of(project, completed) is not None
    done = project("gc", "--max-runs", "3")
    assert done.stdout.splitlines()[-1].startswith("deleted 1 run, ")
    assert run_of(project, completed) is None
    assert project.json("gc", "--max-age", "0s")["size"] > 0
    assert project.json("checkpoint", "list", "--tree") == []


def test_gc_refuses_bounds_that_it_cannot_read(project: Project) -> None:
    for arguments in (("--max-age", "1 fortnight"), ("--max-bytes", "much"), ("--max-runs", "-1")):
        done = project("gc", *arguments)
        assert (done.stdout, done.returncode) == ("", 2)


# -- the same on PostgreSQL ----------------------------------------------------------------------------------------


@pytest.fixture
def database(postgres: str, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:  # noqa: F811
    """A PostgreSQL store with a checkout that failed at its last step."""
    from tests.cli.shop import Checkout

    monkeypatch.setenv("BROKEN", "1")
    with PostgresStore(postgres) as store, pytest.raises(ConnectionError):
        Checkout(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    yield postgres
    with PostgresStore(postgres) as store:
        for info in asyncio.run(store.runs()):
            asyncio.run(store.delete(info.root_run_id, now_us=0))


def test_a_postgresql_store_is_named_by_its_address(project: Project, database: str) -> None:
    there = ("--store", database)
    listed = project.json("checkpoint", "list", *there)
    assert [one["subject"] for one in listed] == ["check", "price", "read"]
    forked = project.json("checkpoint", "fork", listed[1]["id"], "--branch", "dear", "--set", "total=99", *there)
    assert [c["path"] for c in project.json("checkpoint", "diff", listed[1]["id"], forked["id"], *there)["state"]] == [
        "$.total"
    ]
    done = project.json("checkpoint", "resume", forked["id"], "--flow", "shop:Checkout", *there)
    assert done["result"] == "held for review"
    assert len(project.json("checkpoint", "prune", "--keep", "1", *there)["dropped"]) == 3  # not where the branch left
    assert len(project.json("gc", "--max-age", "0s", *there)["removed"]) == 1
