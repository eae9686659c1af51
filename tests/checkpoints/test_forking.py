"""Starting a branch without the program: what it leaves alone, and what it refuses."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import SecretStr

from holdfast import Flow, Runtime, listen, start
from holdfast.checkpoints import CheckpointConfig, Definition, Found, find, fork_checkpoint, restore
from holdfast.checkpoints._owner import Owner, _start_time
from holdfast.deltas import WITHHELD
from holdfast.errors import RunBusyError, StorageError, UsageError
from holdfast.ids import new_id
from holdfast.ports import Mark, RunInfo
from holdfast.stores import SqliteStore


class Greeting(Flow[dict[str, Any]]):
    @start()
    def begin(self) -> str:
        self.state["name"] = "you"
        return "asked"

    @listen(begin)
    def greet(self) -> str:
        return f"hello {self.state['name']}"


@pytest.fixture
def store(tmp_path: Path, runtime: Runtime) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "journal.db") as store:
        Greeting(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
        yield store


def first_mark(store: SqliteStore) -> Found:
    return asyncio.run(find(store, asyncio.run(store.marks())[-1].id))


def fork(store: SqliteStore, found: Found, branch: str = "b", **state: Any) -> Mark:
    now_us = found.run.updated_us + 1
    return asyncio.run(fork_checkpoint(store, found, branch=branch, state=state, now_us=now_us, ids=new_id))


def the_run(store: SqliteStore) -> RunInfo:
    [info] = asyncio.run(store.runs())
    return info


def test_s1_16_a_branch_begins_with_the_edited_state_and_the_other_keeps_its_own(
    store: SqliteStore, runtime: Runtime
) -> None:
    found = first_mark(store)
    mark = fork(store, found, name="all of you", extra=[1])
    assert (mark.branch, mark.parent_id, mark.seq) == ("b", found.id, found.mark.seq + 1 if found.mark else 0)
    forked = asyncio.run(restore(store, mark.id))
    assert (forked.state["name"], forked.state["extra"]) == ("all of you", [1])
    assert asyncio.run(restore(store, found.id)).state["name"] == "you"
    flow = Greeting(checkpoint=CheckpointConfig(store), runtime=runtime)
    assert flow.kickoff(from_checkpoint=mark.id) == "hello all of you"
    assert [branch.name for branch in asyncio.run(store.branches(found.run.root_run_id))] == ["main", "b"]


def test_a_fork_of_a_fork_and_a_fork_of_the_head(store: SqliteStore) -> None:
    one = fork(store, first_mark(store), "one", name="a")
    two = fork(store, asyncio.run(find(store, one.id)), "two", name="b")
    three = fork(store, asyncio.run(find(store, the_run(store).root_run_id)), "three")
    assert (two.parent_id, three.parent_id) == (one.id, two.id)  # the head is that of the branch taken last
    assert asyncio.run(restore(store, three.id)).state["name"] == "b"


def test_a_run_that_a_live_process_holds_is_left_as_it_is(store: SqliteStore) -> None:
    info = the_run(store)
    held = asyncio.run(
        store.open(info, owner="another", now_us=info.updated_us, hold_until_us=info.updated_us + 60_000_000)
    )
    before = the_run(store)
    with pytest.raises(RunBusyError):
        fork(store, first_mark(store))
    assert the_run(store) == before
    assert len(asyncio.run(store.branches(info.root_run_id))) == 1
    asyncio.run(store.close_session(held))  # which still is the present one


def owned_by(info: RunInfo, owner: Owner) -> RunInfo:
    definition = msgspec.json.decode(info.definition, type=Definition)
    return msgspec.structs.replace(
        info, status="running", definition=msgspec.json.encode(msgspec.structs.replace(definition, owner=owner))
    )


def test_a_process_that_is_alive_keeps_its_run_even_when_its_hold_has_run_out(store: SqliteStore) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        alive = Owner(Owner.this_process().boot, child.pid, _start_time(child.pid) or "")
        info = owned_by(the_run(store), alive)
        asyncio.run(store.open(info, owner="it", now_us=info.updated_us, hold_until_us=info.updated_us + 1))
        with pytest.raises(RunBusyError, match=f"held by process {child.pid}"):
            fork(store, first_mark(store))
        child.communicate(b"\n")
    fork(store, first_mark(store))


def test_a_hold_that_a_dead_process_left_is_not_waited_for(store: SqliteStore) -> None:
    info = the_run(store)
    here = Owner.this_process()
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead = Owner(here.boot, int(child.stdout), "1")
    info = owned_by(info, dead)
    asyncio.run(store.open(info, owner="it", now_us=info.updated_us, hold_until_us=info.updated_us + 60_000_000))
    fork(store, first_mark(store))
    assert (the_run(store).held_until_us, the_run(store).status) == (0, "running")


def test_nobody_is_taken_for_dead_who_could_not_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Owner.this_process()
    read = Path.read_text

    def without_room(path: Path) -> str:
        if path.name == "stat":
            raise OSError(errno.EMFILE, "Too many open files")
        return read(path)

    monkeypatch.setattr(Path, "read_text", without_room)
    assert not here.is_dead()
    assert not here.is_another_alive()


def test_of_two_forks_with_one_name_the_second_is_refused_and_the_run_is_free(store: SqliteStore) -> None:
    fork(store, first_mark(store))
    with pytest.raises(StorageError, match="choose another name"):
        fork(store, first_mark(store))
    assert the_run(store).held_until_us == 0
    assert len(asyncio.run(store.marks())) == 3


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\x1b[2J"])
def test_a_name_that_cannot_be_printed_is_refused(store: SqliteStore, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a branch"):
        fork(store, first_mark(store), name)


def test_a_state_that_cannot_be_stored_is_refused_before_anything_is_written(store: SqliteStore) -> None:
    with pytest.raises(TypeError, match="cannot store"):
        fork(store, first_mark(store), name=object())
    assert len(asyncio.run(store.branches(the_run(store).root_run_id))) == 1
    assert the_run(store).held_until_us == 0


@pytest.mark.parametrize("edit", [{"keys": ["sk-new", 2]}, {"key": "sk-new"}])
def test_a_secret_is_not_edited_because_the_edit_would_be_stored(
    tmp_path: Path, runtime: Runtime, edit: dict[str, Any]
) -> None:
    """The branch began with it in plain text."""

    class Holds(Flow[dict[str, Any]]):
        @start()
        def begin(self) -> None:
            self.state |= {"key": SecretStr("sk-typed"), "keys": [SecretStr("sk-listed"), 1]}

    with SqliteStore(tmp_path / "other.db") as store:
        Holds(checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
        with pytest.raises(UsageError, match=r"key(s\.0)? is a secret, and secrets are not stored"):
            fork(store, first_mark(store), **edit)
        fork(store, first_mark(store), key=None, keys=[WITHHELD, 2])
    assert b"sk-" not in b"".join(file.read_bytes() for file in tmp_path.glob("other.db*"))
