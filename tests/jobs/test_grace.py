"""A paused job goes on holding its agents for a grace: resumed in time it goes on in mid-conversation."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.jobs.support import Bench, Control, flow, job_of, python, rule, step, template

from holdfast.flowfiles import AgentCall, FlowFile, SubFlow
from holdfast.ports import Job, JobStatus
from holdfast.testing import process_audit

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOK = rule("escalate", "attempt == 1", name="look")


def agent(prompt: str, **more: Any) -> AgentCall:
    return AgentCall(prompt=template(prompt), agent="demo", output_mode="stream_result", **more)


def talking() -> FlowFile:
    """Speaks, is paused by a rule, and then wants to know what was said."""
    return flow(
        step("speak", agent("say one"), session="talk"),
        step("stop", python("one"), after=("speak",), exits=(LOOK,)),
        step("recall", agent("recall"), session="talk", after=("stop",)),
        name="talking",
    )


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    with process_audit():
        made = Bench(tmp_path)
        yield made
        await made.aclose()


async def paused(bench: Bench, made: FlowFile) -> Job:
    job = job_of(made)
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.PAUSED, outcome.reason
    return job


def holders(bench: Bench) -> list[tuple[str, ...]]:
    return [held.runs for held in bench.engine.agents.inventory()]


async def until_gone(bench: Bench) -> None:
    while holders(bench):
        await Control().turn()


@pytest.mark.parametrize("depth", [0, 1])
async def test_resumed_in_time_a_job_goes_on_in_the_same_conversation(bench: Bench, depth: int) -> None:
    made = talking()
    for _ in range(depth):
        made = flow(step("inside", SubFlow(flow=made)))
    job = await paused(bench, made)
    assert len(holders(bench)) == 1
    control = Control()
    control.ask("resume")
    outcome = await bench.engine.run(job, control)
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
    assert "say one" in msgspec.json.decode(outcome.outputs or b"")["result"]  # which only that process knows
    assert holders(bench) == []


async def test_when_the_grace_is_over_everything_is_given_back_and_the_conversation_is_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sessions").mkdir()
    monkeypatch.setenv("HOLDFAST_DEMO_SESSIONS", str(tmp_path / "sessions"))
    with process_audit():
        bench = Bench(tmp_path, pause_grace=0.2)
        job = await paused(bench, talking())
        await until_gone(bench)
        control = Control()
        control.ask("resume")
        outcome = await bench.engine.run(job, control)
        assert "say one" in msgspec.json.decode(outcome.outputs or b"")["result"]
        await bench.aclose()


async def test_s3_1_a_paused_job_that_is_cancelled_holds_nothing_any_more(bench: Bench) -> None:
    job, control = await paused(bench, talking()), Control()
    control.ask("cancel", reason="no more")
    assert (await bench.engine.run(job, control)).status is JobStatus.CANCELLED
    assert holders(bench) == []


async def test_s3_1_a_paused_job_that_another_process_ends_holds_nothing_here_any_more(
    bench: Bench, tmp_path: Path
) -> None:
    job, control = await paused(bench, talking()), Control()
    other = Bench(tmp_path)
    control.ask("cancel", reason="no more")
    assert (await other.engine.run(job, control)).status is JobStatus.CANCELLED
    await until_gone(bench)
    await other.aclose()


async def test_s3_1_a_worker_that_leaves_gives_back_what_its_paused_jobs_hold(bench: Bench) -> None:
    await paused(bench, talking())
    assert len(holders(bench)) == 1
    await bench.engine.aclose()
    assert holders(bench) == []


async def test_an_agent_that_died_meanwhile_is_started_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sessions").mkdir()
    monkeypatch.setenv("HOLDFAST_DEMO_SESSIONS", str(tmp_path / "sessions"))
    job = await paused(bench, talking())
    (held,) = bench.engine.agents.inventory()
    os.kill(held.processes[0].pid, signal.SIGKILL)
    await until_gone(bench)
    control = Control()
    control.ask("resume")
    outcome = await bench.engine.run(job, control)
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
