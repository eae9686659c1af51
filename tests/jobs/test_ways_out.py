"""S3: on every way out of a job nothing of it is left: no process, no step that runs, and its end says why.

One table lists the ways. A terminal status, a run status or an exit action without a row fails the suite.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import Struct
from msgspec.structs import replace
from tests.jobs.support import Bench, Control, flow, given, job_of, rule, script, step, template

import holdfast
from holdfast.flowfiles import Action, AgentCall, FlowFile, ForEach, JobSource, Limits, Sandbox, StepSpec, SubFlow
from holdfast.ports import JOB_TERMINAL, Job, JobStatus
from holdfast.testing import process_audit

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = "setsid sh -c 'sh -c \"sleep 1000 & echo up >&2; wait\" & wait' & wait"
"""A wrapper, its child and its grandchild, in a session of their own."""
SLOW = flow(step("chain", script(CHAIN)), name="slow")
DEEP = flow(step("below", SubFlow(flow=SLOW)), name="deep")


SEEN = tuple(dict.fromkeys((sys.prefix, sys.base_prefix, str(Path(holdfast.__file__).parents[1]))))
BOXED = Sandbox(read=SEEN) if shutil.which("bwrap") else None
TALKED = (
    step("talked", AgentCall(prompt=template("say hi"), agent="demo"), session="kept until the job ends"),
    step("boxed", AgentCall(prompt=template("say hi"), agent="demo", sandbox=BOXED), session="in a sandbox"),
)


def beside(*steps: StepSpec, **more: Any) -> FlowFile:
    """Steps, and beside them what would run for ever: process chains here, two flows down and for two items, and agents, one of
    them in a sandbox."""
    each = ForEach(source=JobSource("items"), flow=SLOW)
    return flow(
        *steps,
        step("held", script(CHAIN), on_error="continue"),
        step("deep", SubFlow(flow=DEEP), on_error="continue"),
        step("each", each, on_error="fail"),
        step("agent", AgentCall(prompt=template("say up\nwait"), agent="demo"), on_error="continue"),
        step("boxed", AgentCall(prompt=template("say up\nwait"), agent="demo", sandbox=BOXED), on_error="continue"),
        **more,
    )


READY = step("ready", script("while [ $(ls up* 2>/dev/null | wc -l) -lt 1 ]; do sleep 0.005; done"))


def then(name: str, work: Any, **more: Any) -> StepSpec:
    return step(name, work, after=("ready",), **more)


class Way(Struct, frozen=True):
    """One way out."""

    flow: FlowFile
    ends: JobStatus
    says: str = ""
    action: str = ""
    """the exit action that leads there"""
    cancels: bool = False


LEFT_BEHIND = "setsid sleep 1000 & setsid sh -c 'sleep 1000' & echo '{\"n\": 1}'"
GOES_BACK = flow(
    step("a", script(LEFT_BEHIND), given("back", "r.n", optional=True, loop="a"), when="back == null"),
    *TALKED,
    step(
        "r",
        script(LEFT_BEHIND),
        given("n", "a.n"),
        after=("talked", "boxed"),
        exits=(rule("loop", "outputs.n == 1", target="a", max_iterations=5),),
    ),
)
HOPELESS = rule("abandon", "error_category == 'failed'", name="hopeless")
LEAVES = flow(step("c", script(LEFT_BEHIND)), name="leaves")
WAYS: dict[str, Way] = {
    "completed": Way(
        flow(*TALKED, step("a", script(LEFT_BEHIND)), step("b", SubFlow(flow=LEAVES))), JobStatus.COMPLETED
    ),
    "advance": Way(
        flow(*TALKED, step("a", script(LEFT_BEHIND + "; exit 3"), exits=(rule("advance"),))),
        JobStatus.COMPLETED,
        action="advance",
    ),
    "settled without an end": Way(GOES_BACK, JobStatus.FAILED, "no_terminal_reached", "loop"),
    "a step failed": Way(beside(READY, then("bad", script("exit 3"))), JobStatus.FAILED, "step_failed (step bad)"),
    "abandoned after a failure": Way(
        beside(READY, then("bad", script("exit 3"), exits=(HOPELESS,))),
        JobStatus.FAILED,
        "abandoned (step bad, rule hopeless)",
        "abandon",
    ),
    "abandoned after success": Way(
        beside(READY, then("good", script("true"), exits=(rule("abandon", name="enough"),))),
        JobStatus.FAILED,
        "abandoned (step good, rule enough)",
        "abandon",
    ),
    "cancelled": Way(beside(READY), JobStatus.CANCELLED, "enough of it", cancels=True),
    "a step's time is up": Way(
        beside(READY, then("slow", script(CHAIN), timeout_seconds=0.05)), JobStatus.FAILED, "longer than 0.05 s"
    ),
    "the job's limit": Way(beside(READY, limits=Limits(max_duration_minutes=0.04)), JobStatus.FAILED, "limit_exceeded"),
    "a step's limit": Way(
        beside(READY, then("slow", script(CHAIN), limits=Limits(max_duration_minutes=0.001))),
        JobStatus.FAILED,
        "limit of 0.001 minutes",
    ),
    "paused for a person": Way(
        flow(
            *TALKED, step("a", script(LEFT_BEHIND), exits=(rule("escalate", name="look"),), after=("talked", "boxed"))
        ),
        JobStatus.PAUSED,
        "look",
        "escalate",
    ),
}


async def test_s3_1_every_terminal_status_and_every_exit_action_has_a_row() -> None:
    assert {way.ends for way in WAYS.values()} >= JOB_TERMINAL | {JobStatus.PAUSED}
    assert {way.action for way in WAYS.values() if way.action} == set(get_args(Action))


class Chains:
    """Lets a job go on once its chains are up."""

    def __init__(self, bench: Bench, way: Way) -> None:
        self.job = job_of(way.flow, {"items": [1, 2]})
        self.control = Control()
        self._up = 0
        self._most = 6 if any(one.name == "held" for one in way.flow.steps) else 99
        self._way, self._place = way, bench.engine.workspace(self.job.id)
        self.all_up = asyncio.Event()
        original = self.control.log

        def log(line: Any) -> None:
            original(line)
            self._up += line.text.count("up") if line.channel in ("stderr", "text") else 0
            if self._up >= self._most and not self.all_up.is_set():
                self.all_up.set()
                (self._place / "up").touch()
                if way.cancels:
                    self.control.ask("cancel", reason="enough of it")

        self.control.log = log  # type: ignore[method-assign]


@pytest.mark.parametrize("name", WAYS)
async def test_s3_1_on_every_way_out_everything_is_released_and_s3_4_no_step_is_left_running(
    bench: Bench, name: str
) -> None:
    await bench.outputs(flow(step("warm", script("true")), *TALKED))  # the keepers themselves stay
    chains = Chains(bench, way := WAYS[name])
    with process_audit():
        outcome = await bench.engine.run(chains.job, chains.control)
        if (
            way.ends is JobStatus.PAUSED
        ):  # no end: it holds its agents for a grace, and gives them back when that is over
            assert [held.runs for held in bench.engine.agents.inventory()] == [(chains.job.id,)] * 2
            await bench.engine.grace.aclose()
    assert outcome.status is way.ends, outcome.reason
    assert way.says in outcome.reason  # S3.8
    statuses = await bench.statuses(chains.job)
    assert not {"running"} & set(statuses.values()), statuses
    assert bench.runtime.inventory() == []
    assert await agents_held(bench, chains.job) == (2 if way.ends is not JobStatus.PAUSED else 0)


async def agents_held(bench: Bench, job: Job) -> int:
    """How many agents the job's own run gave back after its last step: that they were there is what makes the test one."""
    told = [row async for row in bench.store.read(job.id) if row.run_id == job.id]
    last = max(row.seq for row in told if row.type in ("step_completed", "step_failed", "step_cancelled"))
    agents = [row for row in told if row.type == "resource_released" and b'"agent"' in row.payload]
    return sum(row.seq > last for row in agents)


def weigh(bench: Bench) -> tuple[int, int, int]:
    """Memory of this process and its keepers in bytes, blocks allocated, files open."""
    gc.collect()
    lines = [
        line
        for pid in (os.getpid(), bench.engine.keeper.pid)
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    ]
    memory = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return memory, sys.getallocatedblocks(), len(os.listdir("/proc/self/fd"))


async def test_s3_9_49_abandoned_jobs_leave_no_process_and_no_memory(bench: Bench) -> None:
    await bench.outputs(flow(step("warm", script("true")), *TALKED))
    enough = rule("abandon", name="enough")
    made = flow(
        step("chain", script(CHAIN.replace("echo up >&2", "touch up"))),
        step("look", script("while [ ! -e up ]; do sleep 0.05; done"), exits=(enough,)),
    )
    weights, outcomes = [], []
    for _ in range(5):  # pools, caches and the allocator are warm after the first
        with process_audit():
            outcomes = await asyncio.gather(*(bench.run(made) for _ in range(49)))
        weights.append(weigh(bench))
    # What a job keeps is kept in every round. In some there is more: a connection to read, a hundred timers that asyncio keeps
    # though they are cancelled, our part of memory that is shared with other processes. So the second smallest growth counts.
    # Of the files, SQLite keeps one for each connection that there ever was at once: what each job left open would be 49.
    grown = [[late - early for early, late in zip(*pair, strict=True)] for pair in pairwise(weights)]
    memory, blocks, files = (sorted(each)[1] for each in zip(*grown, strict=True))
    assert (memory < 49 * 80_000, blocks < 49 * 8, files < 25) == (True, True, True), weights
    assert {outcome.reason.partition(":")[0] for outcome in outcomes} == {"abandoned (step look, rule enough)"}
    assert bench.runtime.inventory() == []


async def test_s3_8_the_event_of_the_end_says_why_at_which_step_by_which_rule(bench: Bench) -> None:
    job = job_of(flow(step("a", script("true"), exits=(rule("abandon", name="hopeless"),))))
    await bench.engine.run(job, Control())
    told = [row async for row in bench.store.read(job.id) if row.type == "job_failed"]
    assert len(told) == 1
    assert b'"reason":"abandoned","step":"a","rule":"hopeless"' in told[0].payload.replace(b": ", b":").replace(
        b", ", b","
    )


async def leave(bench: Bench) -> Job:
    """A job that is under way when its worker leaves."""
    await bench.outputs(flow(step("warm", script("true")), *TALKED))  # the keepers themselves stay
    chains = Chains(bench, replace(WAYS["cancelled"], cancels=False))
    with process_audit():
        running = bench.start(chains.job, chains.control)
        await chains.all_up.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    return chains.job


async def test_s3_1_a_worker_that_leaves_releases_everything_and_the_job_can_be_taken_up(bench: Bench) -> None:
    job = await leave(bench)
    assert "running" not in (await bench.statuses(job)).values()
    info = await bench.store.run(job.id)
    assert info is not None
    assert info.status == "running"
    control = Control()
    control.ask("cancel", reason="that was all")
    assert (await bench.engine.run(job, control)).status is JobStatus.CANCELLED


KILLED = """
import asyncio, sys
from pathlib import Path
from msgspec.structs import replace
from tests.jobs.support import Bench, Control, job_of
from tests.jobs.test_ways_out import WAYS, Chains

async def main() -> None:
    bench = Bench(Path(sys.argv[1]))
    chains = Chains(bench, replace(WAYS["cancelled"], cancels=False))
    running = bench.start(chains.job, chains.control)
    await chains.all_up.wait()
    print(chains.job.id, flush=True)
    await running

asyncio.run(main())
"""


async def test_s3_1_after_sigkill_of_the_worker_nothing_lives_and_the_job_can_be_taken_up(tmp_path: Path) -> None:
    with process_audit(patience=5.0):
        worker = subprocess.Popen(  # noqa: ASYNC220 - it is killed
            [sys.executable, "-c", KILLED, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert worker.stdout is not None
        job_id = (await asyncio.to_thread(worker.stdout.readline)).strip()
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
    bench, control = Bench(tmp_path), Control()
    job = job_of(WAYS["cancelled"].flow, {"items": [1, 2]}, job_id)
    control.ask("cancel", reason="that was all")
    assert (await bench.engine.run(job, control)).status is JobStatus.CANCELLED
    assert "running" not in (await bench.statuses(job)).values()
    await bench.aclose()
