"""However its owner dies, a process tree dies with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.resources.killing import all_end, heard, owner
from tests.resources.trees import program_that_does_not_open

from holdfast.testing._audit import started_here, wait_for_the_end


def test_s3_10_two_seconds_after_kill_9_of_the_owner_of_twenty_trees_none_is_alive() -> None:
    with owner("hold", "20") as process:
        pids = heard(process)["pids"]
        assert len(pids) >= 40
        process.kill()
        assert all_end(pids, 2.0)
        assert wait_for_the_end(set(), 5) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
def test_any_other_death_of_the_owner_ends_its_trees_too(number: signal.Signals) -> None:
    with owner("hold", "9") as process:
        pids = heard(process)["pids"]
        process.send_signal(number)
        assert all_end(pids, 10)


def test_a_forked_child_of_the_owner_does_not_keep_its_trees_alive() -> None:
    with owner("forks", "3") as process:
        said = heard(process)
        process.kill()
        try:
            assert all_end(said["pids"], 10)
        finally:
            os.kill(said["child"], signal.SIGKILL)


def test_a_forked_child_of_the_owner_can_neither_end_its_trees_nor_wait_for_that() -> None:
    with owner("unwinds") as process:
        assert heard(process) == {"status": 0, "said": "still here\n"}


def test_a_forked_child_of_the_owner_does_not_keep_its_keepers_waiting() -> None:
    with owner("closes") as process:
        assert heard(process)["ended"]


def test_an_owner_that_becomes_another_program_has_lost_its_trees() -> None:
    with owner("execs") as process:
        said = heard(process)
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        assert all_end(said["pids"], 10)
        assert process.poll() is None


@pytest.mark.parametrize("count", range(6))
def test_an_owner_killed_in_the_middle_of_spawning_leaves_nothing(count: int) -> None:
    with owner("spawn_for_ever") as process:
        heard(process)
        for _ in range(count):
            heard(process)
        process.kill()
        process.wait()
        assert wait_for_the_end(set(), 10) == []


def test_an_owner_and_its_zygote_killed_together_leave_nothing() -> None:
    with owner("hold", "9") as process:
        said = heard(process)
        os.kill(said["keepers"][0], signal.SIGKILL)
        process.kill()
        assert all_end(said["pids"], 10)


def test_a_stub_killed_while_its_owner_cannot_help_leaves_its_tree_to_the_zygote() -> None:
    with owner("hold", "3") as process:
        said = heard(process)
        process.send_signal(signal.SIGSTOP)
        for stub in said["keepers"][1:]:
            os.kill(stub, signal.SIGKILL)
        assert all_end(said["pids"], 10)


def test_a_tree_that_has_stopped_its_stub_dies_with_its_owner() -> None:
    with owner("stopped") as process:
        pids = heard(process)["pids"]
        assert len(pids) >= 2
        process.kill()
        assert all_end(pids, 10)
        assert wait_for_the_end(set(), 10) == []


def test_an_owner_killed_while_a_program_does_not_open_leaves_nothing(tmp_path: Path) -> None:
    with program_that_does_not_open(tmp_path) as program, owner("starts", str(program)) as process:
        heard(process)
        process.kill()
        process.wait()
        assert wait_for_the_end(set(), 10) == []


def test_when_all_keepers_are_killed_at_once_at_least_the_first_process_of_each_tree_dies() -> None:
    with owner("hold", "3") as process:
        said = heard(process)
        process.send_signal(signal.SIGSTOP)
        for keeper in said["keepers"]:
            os.kill(keeper, signal.SIGKILL)
        assert all_end(said["leaders"], 10)
        os.kill(process.pid, signal.SIGCONT)  # it finds the others by their tag
        assert wait_for_the_end({found for found in started_here() if found.pid == process.pid}, 10) == []


def test_a_program_that_closes_all_files_dies_with_its_keepers_too() -> None:
    with owner("closer") as process:
        said = heard(process)
        process.send_signal(signal.SIGSTOP)
        for keeper in said["keepers"]:
            os.kill(keeper, signal.SIGKILL)
        assert all_end(said["leaders"], 10)


def test_s3_6_the_death_of_one_owner_leaves_another_ones_trees_alone() -> None:
    with owner("hold", "3") as dying, owner("hold", "3") as living:
        gone, stays = heard(dying)["pids"], heard(living)["pids"]
        dying.kill()
        assert all_end(gone, 10)
        assert {found.pid for found in started_here()} >= set(stays)
