"""Running a step again, with what depends on it and nothing else: at the top, inside sub-flows, for one item of many."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.jobs import work
from tests.jobs.support import Bench, Control, flow, given, job_of, out, python, rule, step

from holdfast.flowfiles import External, FlowFile, ForEach, JobSource, SubFlow
from holdfast.ports import Job, JobOutcome, JobStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")
NAMES = ("a", "b", "c", "t", "good", "gate")
PASSED = tuple(given(name, f"$job.{name}") for name in NAMES)
INPUTS = {**{name: name for name in NAMES}, "good": 1}


def counted(name: str, *inputs: Any, **more: Any) -> Any:
    """A step that counts how often it runs."""
    return step(name, python("count"), given("who", f"$job.{name}"), *inputs, **more)


CHAIN = flow(counted("a"), counted("b", given("n", "a.n")), counted("c", given("m", "b.n")), name="chain")


def nested(inner: FlowFile, depth: int) -> FlowFile:
    for level in range(depth):
        inner = flow(step(f"s{level}", SubFlow(flow=inner), *PASSED), name=f"around-{level}")
    return inner


async def ask(bench: Bench, job: Job, kind: str, **data: Any) -> JobOutcome:
    control = Control()
    control.ask(kind, **data)
    return await bench.engine.run(job, control)


async def completed(bench: Bench, made: FlowFile, **inputs: Any) -> Job:
    work.calls.clear()
    job = job_of(made, {**INPUTS, **inputs})
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
    return job


@pytest.mark.parametrize("depth", [0, 1, 2])
async def test_a_step_of_a_completed_job_runs_again_with_what_depends_on_it_however_deep_it_is(
    bench: Bench, depth: int
) -> None:
    inner = nested(CHAIN, depth)
    last = inner.steps[-1].name
    job = await completed(bench, flow(*inner.steps, counted("t", given("n", f"{last}.n"))))
    path = "/".join([*(f"s{level}" for level in reversed(range(depth))), "b"])
    for again in (2, 3):
        outcome = await ask(bench, job, "rerun", step=path)
        assert outcome.status is JobStatus.COMPLETED, outcome.reason
        assert dict(work.calls) == {"a": 1, "b": again, "c": again, "t": again}
        assert msgspec.json.decode(outcome.outputs or b"") == {"n": again}
    assert set((await bench.statuses(job)).values()) == {"completed"}


async def test_one_item_of_a_for_each_runs_again_and_the_others_stay_as_they_are(bench: Bench) -> None:
    inner = flow(step("x", python("count"), given("who", "$job.item")), counted("c", given("n", "x.n")), name="each")
    made = flow(
        step("each", ForEach(source=JobSource("items"), flow=inner), *PASSED), counted("t", given("n", "each.results"))
    )
    job = await completed(bench, made, items=["p", "q", "r"])
    outcome = await ask(bench, job, "rerun", step="each/1/x")
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
    assert dict(work.calls) == {"p": 1, "q": 2, "r": 1, "c": 4, "t": 2}


async def test_a_step_that_was_done_runs_again_inside_a_step_that_failed(bench: Bench) -> None:
    work.calls.clear()
    inner = flow(
        counted("a"),
        step("bad", python("fails_until"), given("who", "$job.b"), given("good", "$job.good"), given("n", "a.n")),
        name="failing",
    )
    job = job_of(nested(inner, 1), {**INPUTS, "good": 2})
    assert (await bench.engine.run(job, Control())).status is JobStatus.FAILED
    assert (await ask(bench, job, "rerun", step="s0/a")).status is JobStatus.COMPLETED
    assert dict(work.calls) == {"a": 2, "b": 2}


async def test_a_step_of_a_flow_that_failed_and_was_let_go_runs_again(bench: Bench) -> None:
    inner = flow(
        counted("a"),
        step("bad", python("fails_until"), given("who", "$job.b"), given("good", "$job.good"), given("n", "a.n")),
        name="failing",
    )
    around = step("s", SubFlow(flow=inner), *PASSED, exits=(rule("advance", "error != null"),))
    job = await completed(bench, flow(around, counted("t", after=("s",))), good=2)
    outcome = await ask(bench, job, "rerun", step="s/a")
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
    assert dict(work.calls) == {"a": 2, "b": 2, "t": 2}


async def test_a_step_runs_again_inside_a_step_that_waits(bench: Bench) -> None:
    work.calls.clear()
    inner = flow(
        counted("a"),
        step("ask", External(), given("n", "a.n"), outputs=(out("ok"),)),
        counted("c", given("n", "ask.ok")),
    )
    job = job_of(nested(inner, 2), INPUTS)
    first = await bench.engine.run(job, Control())
    assert first.status is JobStatus.WAITING
    second = await ask(bench, job, "rerun", step="s1/s0/a")
    assert second.status is JobStatus.WAITING
    assert (work.calls["a"], second.asks != first.asks) == (2, True)
    outcome = await ask(bench, job, "answer", ask=second.asks[0].id, values={"ok": 1})
    assert outcome.status is JobStatus.COMPLETED, outcome.reason


async def test_an_item_that_is_done_runs_again_while_another_waits(bench: Bench) -> None:
    work.calls.clear()
    inner = flow(
        step("x", python("count"), given("who", "$job.item")),
        step("ask", External(), given("item", "$job.item"), outputs=(out("ok"),), when="item == 'q'", after=("x",)),
        name="some",
    )
    job = job_of(flow(step("each", ForEach(source=JobSource("items"), flow=inner))), {"items": ["p", "q"]})
    first = await bench.engine.run(job, Control())
    assert first.status is JobStatus.WAITING
    again = await ask(bench, job, "rerun", step="each/0/x")
    assert again.asks == first.asks
    assert dict(work.calls) == {"p": 2, "q": 1}
    assert (await ask(bench, job, "answer", ask=first.asks[0].id, values={"ok": 1})).status is JobStatus.COMPLETED
    assert dict(work.calls) == {"p": 2, "q": 1}


async def test_a_path_that_leads_nowhere_changes_nothing(bench: Bench) -> None:
    work.calls.clear()
    inner = flow(counted("a"), step("ask", External(), outputs=(out("ok"),), after=("a",)), name="asks")
    job = job_of(nested(inner, 1), INPUTS)
    first = await bench.engine.run(job, Control())
    for path in ("s0/nobody", "nobody/a", "s0/a/deeper"):
        assert await ask(bench, job, "rerun", step=path) == first
    assert (first.status, dict(work.calls)) == (JobStatus.WAITING, {"a": 1})


async def test_a_worker_that_leaves_in_the_middle_of_it_loses_nothing(bench: Bench) -> None:
    work.gates["gate"] = gate = work.Gate()
    gate.open()
    inner = flow(
        counted("a"),
        counted("b", given("n", "a.n")),
        step("through", python("through"), given("gate", "$job.gate"), given("m", "b.n")),
        name="slow",
    )
    job = await completed(bench, flow(*nested(inner, 2).steps, counted("t", after=("s1",))))
    work.gates["gate"] = gate = work.Gate()
    control = Control()
    control.ask("rerun", step="s1/s0/b")
    running = bench.start(job, control)
    await gate.reached()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    gate.open()
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
    assert dict(work.calls) == {"a": 1, "b": 2, "t": 2}
