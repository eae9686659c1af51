"""Agent steps: a real agent program under a keeper, its sessions, its files, its permissions."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.jobs.support import Bench, Control, flow, given, job_of, out, python, rule, script, step, template

import holdfast
from holdfast.acp import AgentManager
from holdfast.flowfiles import AgentCall, External, Limits, Permissions, Sandbox
from holdfast.jobs.executors._agent import StepPermissions
from holdfast.ports import JobStatus
from holdfast.server._journal_pages import read_attempts
from holdfast.stores import MemoryLedger
from holdfast.testing import process_audit


class AgentBench(Bench):
    """An engine with agents."""

    def __init__(self, directory: Path) -> None:
        self.ledger = MemoryLedger()
        self.agents = AgentManager(self.ledger)
        super().__init__(directory, agents=self.agents)

    async def aclose(self) -> None:
        await self.agents.release_all()
        await super().aclose()
        assert await self.ledger.rows() == []


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[AgentBench]:
    with process_audit():
        made = AgentBench(tmp_path)
        yield made
        await made.aclose()


def agent(prompt: str, **more: Any) -> AgentCall:
    return AgentCall(prompt=template(prompt), agent="demo", **more)


async def test_an_agent_is_prompted_with_the_inputs_and_its_answer_is_the_result(bench: AgentBench) -> None:
    control = Control()
    made = flow(step("a", agent("say hello $who", output_mode="stream_result"), given("who", "$job.who")))
    outcome = await bench.run(made, {"who": "ada"}, control)
    outputs = msgspec.json.decode(outcome.outputs or b"")
    assert outputs["result"].strip() == "hello ada"
    assert outputs["_session"]["agent"] == "demo"
    assert control.said("a", "text").strip() == "hello ada"


async def test_s1_20_what_an_agent_program_says_it_used_counts_after_a_resume_too(bench: AgentBench) -> None:
    """It was counted while the process lived, and forgotten with it: a limit of the job began anew."""
    wait = step("wait", External(), after=("a",))
    then = step("b", agent("say three more words"), after=("wait",))
    job = job_of(flow(step("a", agent("say one two three four")), wait, then, limits=Limits(max_tokens=12)))
    waiting = await bench.engine.run(job, Control())
    assert waiting.status is JobStatus.WAITING, waiting.reason
    control = Control()
    control.ask("answer", ask=waiting.asks[0].id, values={})
    ended = await bench.engine.run(job, control)
    assert ended.reason.startswith("limit_exceeded"), ended
    first = (await read_attempts(bench.store, job.id))[0]
    assert (first.path, first.tokens) == ("a", 9), "five words were read, and four were said"


async def test_declared_outputs_are_read_from_the_file_that_the_agent_was_told_to_write(bench: AgentBench) -> None:
    call = agent(
        'write result.json {"n": 3}',
        output_mode="file",
        output_path="result.json",
        permissions=Permissions(otherwise="allow"),
    )
    found = await bench.outputs(flow(step("a", call, outputs=(out("n", "number"),))))
    assert found["n"] == 3


@pytest.mark.parametrize(
    ("prompt", "said"),
    [("say nothing", "wrote no out.json"), ("write out.json [1]", "is no object"), ("write out.json {", "is no JSON")],
)
async def test_an_agent_that_does_not_write_its_file_fails_its_step(bench: AgentBench, prompt: str, said: str) -> None:
    call = agent(prompt, output_mode="file", output_path="out.json", permissions=Permissions(otherwise="allow"))
    seen = rule("abandon", "error_category == 'output'", name="seen")
    outcome = await bench.run(flow(step("a", call, outputs=(out("n"),), exits=(seen,))))
    assert "rule seen" in outcome.reason
    outcome = await bench.run(flow(step("a", call, outputs=(out("n"),))))
    assert said in outcome.reason


async def test_steps_with_one_session_share_one_conversation_and_a_fork_branches_off(bench: AgentBench) -> None:
    made = flow(
        step("a", agent("say one"), session="talk"),
        step("b", agent("recall", output_mode="stream_result"), session="talk", after=("a",)),
        step("c", agent("recall", output_mode="stream_result"), fork_from="a", after=("b",)),
        step("d", agent("recall", output_mode="stream_result"), after=("b",)),
        step(
            "all",
            python("echo"),
            *(given(name, f"{name}.result") for name in "bcd"),
            given("s", "a._session"),
            given("t", "b._session"),
        ),
    )
    found = await bench.outputs(made)
    assert "say one" in found["b"]
    assert "say one" in found["c"]
    assert "say one" not in found["d"]
    assert found["s"]["id"] == found["t"]["id"]
    assert "recall" not in found["c"]  # it branched off where `a` ended, before `b` spoke


async def test_each_step_of_a_shared_conversation_has_its_own_permissions_and_model(bench: AgentBench) -> None:
    allowed, denied = Permissions(otherwise="allow"), Permissions(otherwise="deny")
    made = flow(
        step("a", agent("write one.txt x", permissions=allowed, model=template("demo-small")), session="talk"),
        step(
            "b",
            agent(
                "write two.txt x\nsettings",
                permissions=denied,
                output_mode="stream_result",
                model=template("demo-large"),
            ),
            session="talk",
            after=("a",),
        ),
    )
    job = job_of(made)
    outcome = await bench.engine.run(job, Control())
    assert "demo-large" in msgspec.json.decode(outcome.outputs or b"")["result"]
    assert sorted(path.name for path in bench.engine.workspace(job.id).iterdir()) == ["one.txt"]


async def test_an_agent_is_told_its_tools_and_may_use_no_others(bench: AgentBench) -> None:
    call = agent(
        "write one.txt x\ntools",
        tools=("read", "fetch"),
        output_mode="stream_result",
        permissions=Permissions(otherwise="allow"),
    )
    job = job_of(flow(step("a", call)))
    outcome = await bench.engine.run(job, Control())
    assert msgspec.json.decode(outcome.outputs or b"")["result"].endswith("read fetch")
    assert not (bench.engine.workspace(job.id) / "one.txt").exists()


async def test_a_session_goes_on_after_the_job_was_put_down(
    bench: AgentBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sessions").mkdir()
    monkeypatch.setenv("HOLDFAST_DEMO_SESSIONS", str(tmp_path / "sessions"))
    made = flow(
        step("a", agent("say one"), session="talk"),
        step("ask", External(), outputs=(out("n"),), after=("a",)),
        step("b", agent("recall", output_mode="stream_result"), session="talk", after=("ask",)),
    )
    job, control = job_of(made), Control()
    waiting = await bench.engine.run(job, control)
    assert waiting.status is JobStatus.WAITING
    assert bench.agents.inventory() == []
    control.ask("answer", ask=waiting.asks[0].id, values={"n": 1})
    outcome = await bench.engine.run(job, control)
    assert "say one" in msgspec.json.decode(outcome.outputs or b"")["result"]


async def test_after_so_many_attempts_a_fresh_conversation_is_begun(bench: AgentBench) -> None:
    again = rule("loop", "attempt < 3", target="a", max_iterations=5)
    made = flow(
        step("a", agent("recall", output_mode="stream_result"), session="s", max_continuous_attempts=2, exits=(again,)),
    )
    job = job_of(made)
    await bench.engine.run(job, Control())
    rows = [msgspec.json.decode(row.payload) async for row in bench.store.read(job.id) if row.type == "step_completed"]
    sessions = [row["result"]["_session"]["id"] for row in rows]
    assert sessions[0] == sessions[1] != sessions[2]


async def test_someone_is_asked_for_permission_and_the_agent_goes_on_with_the_answer(bench: AgentBench) -> None:
    control = Control()
    call = agent("ask delete it", output_mode="stream_result", permissions=Permissions(otherwise="ask"))
    job = job_of(flow(step("a", call)))
    running = bench.start(job, control)
    (ask,) = await control.until_shown()
    assert "delete it" in ask.message
    control.ask("answer", ask=ask.id, values={"answer": "yes"})
    outcome = await running
    assert outcome.status is JobStatus.COMPLETED, outcome.reason


def test_of_several_lists_that_name_a_tool_the_most_careful_counts() -> None:
    rules = StepPermissions(allow=("*",), deny=("delete",), otherwise="deny", ask=("edit", "delete"))
    assert [rules.verdict(kind, "x") for kind in ("read", "edit", "delete")] == ["allow", "ask", "deny"]


@pytest.mark.parametrize(("prompt", "said"), [("fail no way", "no way"), ("crash", "")])
async def test_an_agent_that_breaks_fails_its_step(bench: AgentBench, prompt: str, said: str) -> None:
    outcome = await bench.run(flow(step("a", agent(prompt))))
    assert outcome.status is JobStatus.FAILED
    assert said in outcome.reason


async def test_an_unknown_agent_fails_its_step_and_names_those_there_are(bench: AgentBench) -> None:
    outcome = await bench.run(flow(step("a", AgentCall(prompt=template("x"), agent="nobody"))))
    assert "there is no agent 'nobody'" in outcome.reason


ENDS: dict[str, tuple[dict[str, Any], JobStatus]] = {
    "cancelled": ({}, JobStatus.CANCELLED),
    "timed out": ({"timeout_seconds": 0.3}, JobStatus.FAILED),
    "abandoned beside it": ({}, JobStatus.FAILED),
}


@pytest.mark.parametrize("name", ENDS)
async def test_s3_1_an_agent_at_work_ends_with_its_job(bench: AgentBench, name: str) -> None:
    more, ends = ENDS[name]
    steps = [step("a", agent("say up\nwait"), session="kept", **more)]
    control = Control()
    if name == "abandoned beside it":
        steps.append(
            step("b", script("while [ ! -e up ]; do sleep 0.01; done"), exits=(rule("abandon", name="enough"),))
        )
    job = job_of(flow(*steps))
    original = control.log

    def log(line: Any) -> None:
        original(line)
        if line.channel == "text" and "up" in line.text:
            (bench.engine.workspace(job.id) / "up").touch()
            if name == "cancelled":
                control.ask("cancel", reason="enough")

    control.log = log  # type: ignore[method-assign]
    outcome = await bench.engine.run(job, control)
    assert outcome.status is ends
    assert bench.agents.inventory() == []
    assert "running" not in (await bench.statuses(job)).values()


async def test_a_sandboxed_agent_works_in_its_workspace_and_cannot_write_elsewhere(
    bench: AgentBench, tmp_path: Path
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    source = str(Path(holdfast.__file__).parents[1])
    readable = tuple(dict.fromkeys((sys.prefix, sys.base_prefix, source)))
    prompt = f"write inside.txt here\nrun echo x > {tmp_path}/leak"
    allowed = Permissions(otherwise="allow")
    job = job_of(flow(step("a", agent(prompt, sandbox=Sandbox(read=readable), permissions=allowed))))
    outcome = await bench.engine.run(job, Control())
    assert outcome.status is JobStatus.COMPLETED, outcome.reason
    assert (bench.engine.workspace(job.id) / "inside.txt").read_text(encoding="utf-8").strip() == "here"
    assert not (tmp_path / "leak").exists()


async def test_an_engine_that_was_given_no_agents_starts_its_own_and_ends_them(tmp_path: Path) -> None:
    with process_audit():
        bench = Bench(tmp_path)
        assert (
            "hello" in (await bench.outputs(flow(step("a", agent("say hello", output_mode="stream_result")))))["result"]
        )
        await bench.aclose()
