"""The engine around the steps: who executes what, what a step may hold, what must not run twice, live output."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.jobs import work
from tests.jobs.support import HERE, Bench, Control, flow, given, job_of, python, rule, script, step

from holdfast.errors import RunBusyError, StorageError
from holdfast.flowfiles import Extension, PythonCall, ResourceRequest, SubFlow
from holdfast.jobs import Call, _functions
from holdfast.ports import JobStatus
from holdfast.runs import Run
from holdfast.streaming import observe

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def shout(call: Call) -> dict[str, Any]:
    assert isinstance(call.executor, Extension)
    return {"said": str(call.inputs["what"]).upper() + str(call.executor.options.get("end", ""))}


async def test_an_executor_of_ones_own_runs_steps(tmp_path: Path) -> None:
    bench = Bench(tmp_path, executors={"shout": shout})
    made = flow(step("a", Extension(name="shout", options={"end": "!"}), given("what", "$job.what")))
    assert await bench.outputs(made, {"what": "hi"}) == {"said": "HI!"}
    await bench.aclose()


async def test_an_installed_package_brings_executors_by_entry_point(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shouting.py").write_text(
        "from holdfast.flowfiles import ExecutorPlugin\nplugin = ExecutorPlugin(run='tests.jobs.test_engine:shout')\n",
        encoding="utf-8",
    )
    info = tmp_path / "shouting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[holdfast.executors]\nshouted = shouting:plugin\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    made = flow(step("a", Extension(name="shouted"), given("what", "$job.what")))
    assert await bench.outputs(made, {"what": "hi"}) == {"said": "HI"}


async def test_an_executor_that_nobody_brings_fails_the_step_and_says_so(bench: Bench) -> None:
    outcome = await bench.run(flow(step("a", Extension(name="nowhere"))))
    assert "there is no executor 'nowhere'" in outcome.reason


async def test_a_function_beside_the_flow_comes_first(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def mine(**given):\n    return {'whose': 'mine'}\n", encoding="utf-8")
    call = PythonCall(module="json", function="mine")
    assert await bench.outputs(flow(step("a", call), directory=str(tmp_path))) == {"whose": "mine"}


async def test_a_function_that_was_changed_is_found_anew(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_functions, "FRESH_SECONDS", -1.0)  # whatever was found is looked for again
    call = PythonCall(module="changing", function="mine")
    for version in range(2):
        (tmp_path / "changing.py").write_text(f"def mine(**given):\n    return {{'v': {version}}}\n", encoding="utf-8")
        os.utime(tmp_path / "changing.py", ns=(version, version))
        assert await bench.outputs(flow(step("a", call), directory=str(tmp_path))) == {"v": version}


async def test_a_job_has_a_folder_once_a_step_works_there(bench: Bench) -> None:
    for work_done, is_there in ((python("one"), False), (script("pwd"), True)):
        job = job_of(flow(step("a", work_done)))
        assert (await bench.engine.run(job, Control())).status is JobStatus.COMPLETED
        assert bench.engine.workspace(job.id).is_dir() is is_there


async def test_a_closed_engine_leaves_no_handler_on_the_bus(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    before = bench.runtime.event_bus.registrations()
    await bench.run(flow(step("a", script("echo up here >&2"))))
    assert len(bench.runtime.event_bus.registrations()) > len(before)
    await bench.engine.aclose()
    assert bench.runtime.event_bus.registrations() == before
    await bench.aclose()


@pytest.mark.parametrize(
    ("module", "function"), [("no.such.module", "f"), ("tests.jobs.work", "nothing"), ("tests.jobs.work", "Gate")]
)
async def test_a_function_that_is_not_there_fails_the_step(bench: Bench, module: str, function: str) -> None:
    seen = rule("abandon", "error_category == 'configuration'", name="seen")
    outcome = await bench.run(flow(step("a", PythonCall(module=module, function=function), exits=(seen,))))
    assert "rule seen" in outcome.reason


async def test_a_blocking_function_may_be_given_up(bench: Bench) -> None:
    work.stuck.clear()
    made = flow(step("a", python("block"), timeout_seconds=0.05))
    outcome = await bench.run(made)
    assert "took longer than 0.05 s" in outcome.reason
    assert [held.kind for held in bench.runtime.inventory()] == ["thread"]
    work.stuck.set()
    while bench.runtime.inventory():  # noqa: ASYNC110 - the thread says nothing when it ends
        await asyncio.sleep(0.001)


async def test_what_a_step_asks_to_hold_is_given_back_with_the_job(tmp_path: Path) -> None:
    given_back = threading.Event()

    async def make(run: Run, options: dict[str, Any]) -> Any:
        assert options == {"size": 3}
        return Held(given_back)

    class Held:
        kind, name = "thing", "the thing"

        def __init__(self, event: threading.Event) -> None:
            self._event = event

        async def release(self) -> None:
            self._event.set()

    bench = Bench(tmp_path, resources={"thing": make})
    wants = (ResourceRequest(kind="thing", at=HERE, options={"size": 3}),)
    assert (await bench.run(flow(step("a", script("exit 1"), resources=wants)))).status is JobStatus.FAILED
    assert given_back.is_set()
    unknown = (ResourceRequest(kind="moon", at=HERE),)
    assert "no resource of kind 'moon'" in (await bench.run(flow(step("a", script("true"), resources=unknown)))).reason
    await bench.aclose()


async def test_a_step_that_must_not_run_twice_waits_for_a_person_when_nobody_knows_how_far_it_came(
    bench: Bench,
) -> None:
    work.calls.clear()
    work.gates["once"] = gate = work.Gate()
    job = job_of(
        flow(step("a", python("through"), given("gate", "$job.gate"), idempotency="non_retriable")), {"gate": "once"}
    )
    running = bench.start(job, Control())
    await gate.reached()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.PAUSED
    assert "must not run twice" in outcome.reason
    gate.open()
    control = Control()
    control.ask("resume")
    assert (await bench.engine.run(job, control)).status is JobStatus.COMPLETED


async def test_two_workers_never_run_one_job_at_once(bench: Bench) -> None:
    work.gates["busy"] = gate = work.Gate()
    job = job_of(flow(step("a", python("through"), given("gate", "$job.gate"))), {"gate": "busy"})
    running = bench.start(job, Control())
    await gate.reached()
    with pytest.raises(RunBusyError):
        await bench.engine.run(job, Control())
    gate.open()
    assert (await running).status is JobStatus.COMPLETED


async def test_live_output_names_the_step_at_any_depth(bench: Bench) -> None:
    inner = flow(step("deep", script("echo down here >&2")), name="inner")
    control = Control()
    await bench.run(flow(step("outer", SubFlow(flow=inner)), step("top", script("echo up here >&2"))), control=control)
    assert control.said("outer/deep") == "down here\n"
    assert control.said("top") == "up here\n"


async def test_frames_of_every_step_reach_whoever_watches_the_run(bench: Bench) -> None:
    work.gates["watched"] = gate = work.Gate()
    made = flow(
        step("a", python("through"), given("gate", "$job.gate")), step("b", script("echo live >&2"), after=("a",))
    )
    job = job_of(made, {"gate": "watched"})
    running = bench.start(job, Control())
    await gate.reached()
    (run,) = [run for run in bench.runtime.runs() if run.id == job.id]
    observer = observe(run)
    gate.open()
    frames = [frame async for frame in observer]
    await running
    assert "live\n" in [frame.data.get("chunk") for frame in frames if frame.type == "step_output_chunk"]
    assert [frame.data["name"] for frame in frames if frame.type == "step_completed"] == ["a", "b"]


async def test_a_definition_that_is_no_flow_says_what_to_do(bench: Bench) -> None:
    job = msgspec.structs.replace(job_of(flow(step("a", python("one")))), definition=b'{"flow": 1}')
    with pytest.raises(StorageError, match="submit it again"):
        await bench.engine.run(job, Control())


async def test_many_jobs_at_once_give_what_each_would_alone(bench: Bench) -> None:
    chain = [step("s0", python("echo"), given("x", "$job.x"))]
    chain += [step(f"s{n}", python("echo"), given("x", f"s{n - 1}.x")) for n in range(1, 5)]
    made = flow(*chain)
    assert await asyncio.gather(*(bench.outputs(made, {"x": n}) for n in range(12))) == [{"x": n} for n in range(12)]
    assert bench.engine.jobs_at_work == 0
