"""`holdfast checkpoint list`, `show` and `diff`: looking, in a pipe and on a terminal."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import Project

from holdfast.checkpoints import find, fork_checkpoint
from holdfast.ids import new_id
from holdfast.ports import Batch
from holdfast.stores import SqliteStore
from holdfast.testing._journal_base import make_info, make_rows, marked, open_run

HOSTILE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def listed(recorded: Project) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = recorded.json("checkpoint", "list")
    return found


def of_run(listed: list[dict[str, Any]], status: str, run: str = "Checkout") -> list[dict[str, Any]]:
    """A run's checkpoints, oldest first."""
    return [one for one in reversed(listed) if (one["status"], one["run"]) == (status, run)]


def test_the_list_is_newest_first_and_says_what_triggered_each(listed: list[dict[str, Any]]) -> None:
    completed = of_run(listed, "completed")
    assert [one["subject"] for one in completed] == ["read", "price", "check", "ship"]
    assert {one["trigger"] for one in listed} == {"method_execution_finished"}
    assert [one["position"] for one in completed] == sorted(one["position"] for one in completed)
    assert [one["at"] for one in listed] == sorted((one["at"] for one in listed), reverse=True)
    assert [one["parent_id"] for one in completed] == [None, *(one["id"] for one in completed[:-1])]


def test_a_limit_and_a_run_narrow_the_list(recorded: Project, listed: list[dict[str, Any]]) -> None:
    assert recorded.json("checkpoint", "list", "--limit", "2") == listed[:2]
    failed = of_run(listed, "failed")
    # a checkpoint names its run too, and an end of an id is enough
    assert recorded.json("checkpoint", "list", "--run", failed[0]["id"][-8:]) == failed[::-1]


def test_in_a_pipe_a_list_is_one_checkpoint_a_line_with_ids_in_full(
    recorded: Project, listed: list[dict[str, Any]]
) -> None:
    done = recorded("checkpoint", "list")
    assert (done.stderr, done.returncode) == ("", 0)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [one["id"] for one in listed]
    assert "\033" not in done.stdout


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_on_a_terminal_the_table_fits_and_shows_ids_and_figures_whole(
    recorded: Project, listed: list[dict[str, Any]], columns: int
) -> None:
    shown = recorded.on_terminal("checkpoint", "list", columns=columns)
    assert COLOUR.search(shown)
    lines = COLOUR.sub("", shown).splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) == 1 + len(listed)
    for line, one in zip(lines[1:], listed, strict=True):
        assert line.startswith(one["id"][-8:])
        assert line.rstrip().endswith(one["status"])
        assert f" {one['position']} " in line


def test_the_tree_hangs_a_branch_where_it_left(
    recorded: Project, project: Project, listed: list[dict[str, Any]]
) -> None:
    at = of_run(listed, "failed")[1]

    async def fork() -> str:
        async with SqliteStore(project.database) as store:
            found = await find(store, at["id"])
            forked = await fork_checkpoint(store, found, branch="cheaper", state={}, now_us=1, ids=new_id)
            return forked.id

    forked = asyncio.run(fork())
    done = project("checkpoint", "list", "--tree", "--run", at["run_id"])
    assert (done.stderr, done.returncode) == ("", 0)
    lines = done.stdout.splitlines()
    depth = {name: next(line.index(name) for line in lines if name in line) for name in (at["id"][-8:], forked[-8:])}
    place = next(number for number, line in enumerate(lines) if at["id"][-8:] in line)
    assert "price method_execution_finished" in lines[place]
    assert f"cheaper  from {at['position']}" in lines[place + 1]
    assert "checkpoint_forked" in lines[place + 2]
    assert depth[forked[-8:]] > depth[at["id"][-8:]]
    [tree] = project.json("checkpoint", "list", "--tree", "--run", at["run_id"])
    assert [(branch["name"], branch["parent"], branch["from"]) for branch in tree["branches"]] == [
        ("main", None, 0),
        ("cheaper", "main", at["position"]),
    ]


@pytest.mark.parametrize("count", [1_000, 1_001])
def test_a_tree_that_does_not_show_all_checkpoints_says_so(count: int, tmp_path: Path, recorded: Project) -> None:
    """The newest thousand were shown as if they were all."""

    async def fill() -> None:
        async with SqliteStore(tmp_path / "long.db") as store:
            session = await open_run(store, make_info("long-run"))
            await store.append(marked(Batch(session, make_rows(1, count))))

    asyncio.run(fill())
    about = ("checkpoint", "list", "--tree", "--store", str(tmp_path / "long.db"))
    done = recorded(*about)
    assert done.returncode == 0
    is_cut = count > 1_000
    assert ("run long-run has older checkpoints than these 1000; `holdfast" in done.stderr) == is_cut
    [tree] = recorded.json(*about)
    [branch] = tree["branches"]
    assert (tree["has_older"], len(branch["checkpoints"])) == (is_cut, 1_000)


def test_the_tree_fits_a_narrow_terminal(recorded: Project) -> None:
    lines = COLOUR.sub("", recorded.on_terminal("checkpoint", "list", "--tree", columns=50)).splitlines()
    assert max(map(len, lines)) <= 50


def test_a_store_without_checkpoints_says_so_and_is_no_error(tmp_path: Path, recorded: Project) -> None:
    with SqliteStore(tmp_path / "empty.db") as store:
        asyncio.run(store.runs())
    done = recorded("checkpoint", "list", "--store", str(tmp_path / "empty.db"))
    assert (done.stdout, done.returncode) == ("", 0)
    assert "no checkpoints yet" in done.stderr


# -- show ----------------------------------------------------------------------------------------------------------


def test_show_tells_state_steps_branch_and_parent(recorded: Project, listed: list[dict[str, Any]]) -> None:
    read, price, *_ = of_run(listed, "failed")
    shown = recorded.json("checkpoint", "show", price["id"])
    assert (shown["id"], shown["branch"], shown["parent_id"]) == (price["id"], "main", read["id"])
    assert shown["state"]["total"] == 44.5
    assert shown["state"]["tags"] == {"$set": ["new"]}
    assert shown["program"] == "tests.cli.shop:Checkout"
    assert [(step["step"], step["status"], step["result"]) for step in shown["steps"]] == [
        ("read#1", "completed", 2),
        ("price#1", "completed", 44.5),
    ]
    assert shown["usage"] == {}


def test_show_of_a_run_is_its_head_with_the_step_that_failed(recorded: Project, listed: list[dict[str, Any]]) -> None:
    shown = recorded.json("checkpoint", "show", of_run(listed, "failed")[0]["run_id"])
    last = shown["steps"][-1]
    assert (last["step"], last["status"], last["attempts"]) == ("ship#1", "failed", 1)
    assert last["error"] == "ConnectionError: the carrier does not answer\x1b[2J"
    assert shown["position"] == shown["head"]


@pytest.mark.parametrize("where", ["pipe", "terminal"])
def test_nothing_that_a_flow_stored_reaches_the_terminal_as_a_command(
    recorded: Project, listed: list[dict[str, Any]], where: str
) -> None:
    run = of_run(listed, "failed")[0]["run_id"]
    [other] = of_run(listed, "failed", "Slow")
    for arguments in (("show", run), ("diff", other["id"], run)):
        if where == "pipe":
            shown = recorded("checkpoint", *arguments).stdout
        else:
            shown = COLOUR.sub("", recorded.on_terminal("checkpoint", *arguments))
        assert not HOSTILE.search(shown)
        assert "\\u202ebulb" in shown
    assert "\\x1b[2J" in recorded("checkpoint", "show", run).stdout
    raw = recorded("checkpoint", "show", run, "--json").stdout
    assert raw.isascii()
    assert not HOSTILE.search(raw)


def test_a_long_value_is_shortened_with_a_note_and_whole_in_json(
    recorded: Project, listed: list[dict[str, Any]]
) -> None:
    price = of_run(listed, "completed")[1]["id"]
    done = recorded("checkpoint", "show", price)
    assert "… (10,000 characters)" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert recorded.json("checkpoint", "show", price)["state"]["note"] == "long " * 2000


# -- diff ----------------------------------------------------------------------------------------------------------


def test_diff_tells_state_by_path_and_steps(recorded: Project, listed: list[dict[str, Any]]) -> None:
    read, _, check, _ = of_run(listed, "completed")
    found = recorded.json("checkpoint", "diff", read["id"], check["id"])
    changes = {change["path"]: change for change in found["state"]}
    assert changes["$.total"] == {"kind": "changed", "path": "$.total", "before": 0.0, "after": 44.5}
    assert changes.keys() == {"$.total", "$.note"}
    assert found["steps"] == {"only_a": [], "only_b": ["price#1", "check#1"]}
    done = recorded("checkpoint", "diff", check["id"], read["id"])
    assert "  ~ $.total: 44.5 -> 0.0\n" in done.stdout
    assert "  - price#1\n" in done.stdout
    assert done.returncode == 0


def test_diff_compares_checkpoints_of_different_runs(recorded: Project, listed: list[dict[str, Any]]) -> None:
    a, b = of_run(listed, "completed")[1], of_run(listed, "failed")[1]
    found = recorded.json("checkpoint", "diff", a["id"], b["id"])
    assert [change["path"] for change in found["state"]] == ["$.id"]
    assert found["steps"] == {"only_a": [], "only_b": []}
    assert found["results"] == []


def test_diff_exits_with_1_only_when_asked_to(recorded: Project, listed: list[dict[str, Any]]) -> None:
    a, b, *_ = of_run(listed, "completed")
    assert recorded("checkpoint", "diff", a["id"], b["id"], "--exit-code").returncode == 1
    same = recorded("checkpoint", "diff", a["id"], a["id"], "--exit-code")
    assert (same.stdout, same.stderr, same.returncode) == ("", "", 0)


# -- what goes wrong -----------------------------------------------------------------------------------------------


def test_an_unknown_id_exits_with_2_and_names_some_that_there_are(
    recorded: Project, listed: list[dict[str, Any]]
) -> None:
    done = recorded("checkpoint", "show", "nothing")
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr.startswith("holdfast: no checkpoint and no run is called 'nothing'; there are: ")
    assert listed[0]["id"] in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_ambiguous_id_exits_with_2_and_names_those_that_fit(recorded: Project, listed: list[dict[str, Any]]) -> None:
    done = recorded("checkpoint", "show", listed[0]["id"][:3], "--json")
    assert (done.stdout, done.returncode) == ("", 2)
    assert "fits several: " in done.stderr
    assert listed[0]["id"] in done.stderr


def test_without_a_project_or_a_store_it_exits_with_3_and_says_what_to_do(tmp_path: Path, recorded: Project) -> None:
    nowhere = Project(tmp_path)
    done = nowhere("checkpoint", "list")
    assert (done.stdout, done.returncode) == ("", 3)
    assert "name a store with --store" in done.stderr
    done = nowhere("checkpoint", "list", "--store", "none.db")
    assert (done.stdout, done.returncode) == ("", 3)
    assert "there is no store at" in done.stderr
    assert not (tmp_path / "none.db").exists()
    done = nowhere("checkpoint", "list", HOLDFAST_HOME=str(recorded.folder / ".holdfast"))
    assert done.returncode == 0
    assert done.stdout


def test_a_damaged_store_is_an_error_in_a_sentence_and_a_traceback_with_debug(tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"not a database" * 100)
    nowhere = Project(tmp_path)
    done = nowhere("checkpoint", "list", "--store", "bad.db")
    assert (done.stdout, done.returncode) == ("", 1)
    assert "is damaged" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in nowhere("--debug", "checkpoint", "list", "--store", "bad.db").stderr


@pytest.mark.parametrize("command", ["list", "show", "diff", "fork", "resume", "prune", "export", "import"])
def test_every_command_has_help_with_an_example(recorded: Project, command: str) -> None:
    done = recorded("checkpoint", command, "--help")
    assert done.returncode == 0
    assert f"holdfast checkpoint {command} " in done.stdout.partition("Examples:")[2]


def test_an_encoding_that_lacks_a_letter_is_no_error(recorded: Project, listed: list[dict[str, Any]]) -> None:
    done = recorded("checkpoint", "show", listed[-2]["id"], PYTHONIOENCODING="latin-1")
    assert (done.stderr, done.returncode) == ("", 0)
    assert "\\u2026 (10,000 characters)" in done.stdout
    assert json.loads(recorded("checkpoint", "list", "--json", PYTHONIOENCODING="latin-1").stdout) == listed
