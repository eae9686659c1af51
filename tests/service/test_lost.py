"""Who counts as gone: a process that is proved dead, or a hold that ran out; nobody else."""

from __future__ import annotations

import os
import subprocess

import pytest
from msgspec.structs import replace
from tests.resources.trees import no_file_is_left

from holdfast.ports import Owner, Place, ProcessIdentity, WorkerInfo
from holdfast.resources import SystemProcessTable
from holdfast.service._lost import lose_dead, why_lost
from holdfast.stores import MemoryJobs

TABLE = SystemProcessTable()
NOW = 1_000_000


def identity(pid: int) -> ProcessIdentity:
    found = TABLE.identify(pid)
    assert found is not None
    return found


def worker(process: ProcessIdentity, held_until_us: int = NOW + 1) -> WorkerInfo:
    return WorkerInfo(Owner("w1", process), held_until_us, 1)


@pytest.fixture
def dead() -> ProcessIdentity:
    with subprocess.Popen(["sleep", "1000"]) as process:
        found = identity(process.pid)
        process.kill()
    return found


def test_a_live_worker_is_not_lost() -> None:
    assert why_lost(worker(identity(os.getpid())), TABLE, NOW) == ""


def test_a_dead_process_is_lost_at_once(dead: ProcessIdentity) -> None:
    assert why_lost(worker(dead), TABLE, NOW) == f"its worker is gone: process {dead.pid} has ended"


def test_a_number_that_was_given_to_another_process_is_a_dead_worker() -> None:
    stranger = replace(identity(os.getpid()), started=1)
    assert "is gone" in why_lost(worker(stranger), TABLE, NOW)


def test_a_worker_that_cannot_be_looked_at_is_not_lost() -> None:
    alive = worker(identity(os.getpid()))
    with no_file_is_left():
        assert why_lost(alive, TABLE, NOW) == ""


def test_of_a_process_elsewhere_only_its_hold_tells() -> None:
    elsewhere = ProcessIdentity(Place("other", "boot", "ns"), os.getpid(), 1, 1)
    assert why_lost(worker(elsewhere), TABLE, NOW) == ""
    assert "no sign of life for 2 s" in why_lost(worker(elsewhere, NOW - 2_000_000), TABLE, NOW)


async def test_the_one_who_looks_does_not_lose_itself(dead: ProcessIdentity) -> None:
    jobs = MemoryJobs()
    await jobs.register(worker(dead))
    await lose_dead(jobs, TABLE, NOW, but="w1")
    assert len(await jobs.workers()) == 1
    await lose_dead(jobs, TABLE, NOW)
    assert await jobs.workers() == []
