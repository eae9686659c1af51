"""`AgentManager`: every promise of the port, sharing between runs, and nothing left at any scale."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest
from tests.acp.support import DEMO, rogue
from tests.resources.killing import all_end, heard, owner
from tests.resources.trees import is_alive
from tests.runs.support import until

from holdfast import Runtime
from holdfast.acp import AgentManager, AgentSession, AgentSpec, _desk
from holdfast.errors import AcpGoneError, AcpProtocolError
from holdfast.events import LLMStreamChunkEvent
from holdfast.ports import ResourceManager
from holdfast.resources import Command, Limits, SystemProcessTable, list_held, sweep_everything
from holdfast.runs import Run
from holdfast.stores import MemoryLedger, SqliteLedger
from holdfast.testing._audit import wait_for_the_end
from holdfast.testing.resource_conformance import ResourceManagerConformance


class TestAgentManager(ResourceManagerConformance):
    def make_manager(self) -> ResourceManager:
        return AgentManager(MemoryLedger(), limits=Limits(total=20))

    def make_spec(self, number: int) -> Any:
        return rogue(shaped_by=(number,))

    def is_there(self, lease: Any) -> bool:
        return is_alive(lease.resource.process.pid)


class Two:
    """Two runs that share an agent, each with a session, until each is told to end."""

    def __init__(self, runtime: Runtime, agents: AgentManager, spec: AgentSpec) -> None:
        self.sessions: list[AgentSession] = []
        self._runtime, self._agents, self._spec = runtime, agents, spec

    async def start(self) -> Run:
        ready = asyncio.Event()

        async def body(run: Run) -> None:
            self.sessions.append(await (await self._agents.acquire(self._spec, run)).session())
            ready.set()
            await asyncio.Event().wait()

        run = self._runtime.start(body)
        await ready.wait()
        return run


async def test_s3_2_ending_one_run_leaves_the_other_untouched_and_ending_both_ends_the_agent_with_its_children(
    agents: AgentManager, runtime: Runtime
) -> None:
    two = Two(runtime, agents, rogue("child", "detach"))
    first, second = await two.start(), await two.start()
    (held,) = agents.inventory()
    assert held.runs == tuple(sorted((first.id, second.id)))
    pids = [use.pid for use in held.processes]
    assert len(pids) == 4
    assert [session.id for session in two.sessions] == ["s1", "s2"]
    await first.acancel()
    assert all(is_alive(pid) for pid in pids)
    with pytest.raises(AcpGoneError):
        await two.sessions[0].prompt("say hello")
    assert (await two.sessions[1].prompt("say hello")).text == "hello"
    await second.acancel()
    assert [pid for pid in pids if is_alive(pid)] == []


async def test_cancelling_a_run_in_mid_prompt_does_not_touch_the_prompt_of_another_on_the_same_agent(
    agents: AgentManager, runtime: Runtime
) -> None:
    begun: dict[str, asyncio.Event] = {}
    results: list[str] = []

    async def body(run: Run, prompt: str) -> None:
        session = await (await agents.acquire(DEMO, run)).session()
        run.on(LLMStreamChunkEvent)(lambda source, event: begun[prompt].set())
        results.append((await session.prompt(prompt)).text)

    for prompt in ("wait", "count 20000"):
        begun[prompt] = asyncio.Event()
    doomed, lives = runtime.start(body, "wait"), runtime.start(body, "count 20000")
    await asyncio.gather(*(event.wait() for event in begun.values()))
    assert len(agents.inventory()) == 1
    await doomed.acancel()
    await lives
    assert [len(text.split()) for text in results] == [20000]


async def test_a_run_that_does_not_read_holds_up_its_neighbour_only_so_long(
    agents: AgentManager, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_desk, "STALL_SECONDS", 0.1)
    two = Two(runtime, agents, DEMO)
    reading, other = await two.start(), await two.start()
    stuck = asyncio.Event()

    async def never() -> None:
        stuck.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(reading, "room", never)
    prompting = asyncio.create_task(two.sessions[0].prompt("count 60000"))
    await stuck.wait()
    assert (await two.sessions[1].prompt("say hello")).text == "hello"
    prompting.cancel()
    await asyncio.wait({prompting})
    await asyncio.gather(reading.acancel(), other.acancel())


async def test_what_overran_its_run_is_an_error_that_says_what_to_do(
    agents: AgentManager, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_desk, "STALL_SECONDS", 0.0)
    two = Two(runtime, agents, DEMO)
    slow, other = await two.start(), await two.start()
    real, stalled = slow.room, asyncio.Event()

    async def until_told() -> None:
        await stalled.wait()
        await real()

    monkeypatch.setattr(slow, "room", until_told)
    prompting = asyncio.create_task(two.sessions[0].prompt("count 60000"))
    await until(lambda: two.sessions[0]._desk._listening)
    while two.sessions[
        0
    ]._desk._listening:  # until it is given up; a full inbox may still be read from, and full no more
        await two.sessions[1].prompt("count 1000")
    stalled.set()
    with pytest.raises(AcpProtocolError, match="give it an agent of its own"):
        await prompting
    assert (await two.sessions[0].prompt("say again")).text == "again"
    await asyncio.gather(slow.acancel(), other.acancel())


@pytest.mark.parametrize(
    "other",
    [
        AgentSpec(Command(("demo", "--other"))),
        AgentSpec(Command(("demo",), env={"A": "1"})),
        AgentSpec(Command(("demo",), cwd="/")),
        AgentSpec(Command(("demo",)), files=False),
        AgentSpec(Command(("demo",)), terminals=True),
        AgentSpec(Command(("demo",)), sign_in="key"),
        AgentSpec(Command(("demo",)), shaped_by=("model",)),
    ],
)
def test_whatever_shapes_an_agent_keeps_it_from_being_shared(other: AgentSpec) -> None:
    assert other.key() != AgentSpec(Command(("demo",))).key()


async def test_s3_5_an_agent_killed_by_hand_is_struck_out_and_the_next_run_gets_another(
    agents: AgentManager, runtime: Runtime
) -> None:
    async def body(run: Run) -> str:
        lease = await agents.acquire(rogue("child"), run)
        os.kill(lease.resource.process.pid, signal.SIGKILL)
        await lease.resource.process.gone()
        again = await (await agents.acquire(rogue("child"), run)).session()
        return (await again.prompt("say hello")).text

    assert await runtime.arun(body) == "hello"


async def test_s3_9_forty_nine_abandoned_runs_with_a_chain_each_leave_nothing(runtime: Runtime) -> None:
    ledger = MemoryLedger()
    agents = AgentManager(ledger, limits=Limits(total=49))
    seen: list[str] = []

    async def body(run: Run, number: int) -> None:
        lease = await agents.acquire(rogue("child", shaped_by=(number,)), run)
        session = await lease.session()
        seen.append((await session.prompt("say hello")).text)
        if len(seen) == 49:
            everybody.set()
        await asyncio.Event().wait()

    everybody = asyncio.Event()
    runs = [runtime.start(body, number) for number in range(49)]
    await everybody.wait()
    assert sum(len(held.processes) for held in agents.inventory()) == 3 * 49
    await asyncio.gather(*(run.acancel("abandoned") for run in runs))
    assert agents.inventory() == []
    assert await ledger.rows() == []
    await agents.release_all()


def test_s3_10_two_seconds_after_kill_9_of_the_owner_of_twenty_agents_none_is_alive() -> None:
    with owner("20", module="tests.acp.owners") as process:
        pids = heard(process)["pids"]
        assert len(pids) == 80
        process.kill()
        assert all_end(pids, 2.0)
        assert wait_for_the_end(set(), 5) == []


async def test_s3_6_what_a_killed_owner_left_in_the_ledger_is_swept_under_its_own_name(tmp_path: Any) -> None:
    path = tmp_path / "ledger.db"
    with owner("1", str(path), module="tests.acp.owners") as process:
        heard(process)
        process.kill()
        process.wait()
    async with SqliteLedger(path) as ledger:
        assert [(one.row.kind, one.state) for one in await list_held(ledger, SystemProcessTable())] == [
            ("agent", "orphaned")
        ]
        report = await sweep_everything(ledger, SystemProcessTable())
        assert [row.kind for row in report.ended] == ["agent"]
        assert await ledger.rows() == []
