"""MCP servers on standard input and output: a real one, and hostile ones."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.resources.boxes import PREFIX, PYTHON, need_a_sandbox
from tests.resources.trees import is_alive
from tests.runs.support import until

from holdfast import Run, Runtime
from holdfast.clock import SystemClock
from holdfast.errors import HandshakeError, McpConnectionError, McpTimeoutError, SpawnError
from holdfast.mcp import McpManager, McpProcess, McpSpec
from holdfast.mcp._stdio import Incoming
from holdfast.ports import ResourceManager
from holdfast.resources import Command, Limits, Sandbox
from holdfast.resources import _pipes as pipes
from holdfast.stores import MemoryLedger
from holdfast.testing._audit import started_here
from holdfast.testing.resource_conformance import Borrower, ResourceManagerConformance
from holdfast.threads import ThreadPool
from holdfast.tools import Toolbox, ToolCache, ToolHost, call_tool

pytestmark = pytest.mark.usefixtures("no_process_is_left")

PLAIN = Path(__file__).with_name("plain_server.py")
ROOT = Path(__file__).resolve().parents[2]


def plain(*arguments: str, **what: Any) -> McpSpec:
    """The plain server, misbehaving as the first argument says."""
    command = Command((PYTHON, "-I", "-S", str(PLAIN), *arguments), grace=0.2)
    return McpSpec(command, label="demo", **what)


@pytest.fixture
async def manager() -> AsyncIterator[McpManager]:
    manager = McpManager(MemoryLedger())
    yield manager
    await manager.release_all()
    assert await manager.ledger.rows() == []


async def acquired(manager: McpManager, spec: McpSpec) -> McpProcess:
    return (await manager.acquire(spec, Borrower())).resource


def conversations(manager: McpManager) -> list[str]:
    """The tasks that keep a connection."""
    names = [task.get_name() for task in asyncio.all_tasks(manager._home.loop)]
    return [name for name in names if name.startswith("holdfast-mcp-")]


class TestMcpManager(ResourceManagerConformance):
    def make_manager(self) -> ResourceManager:
        return McpManager(MemoryLedger(), limits=Limits(total=20))

    def make_spec(self, number: int) -> Any:
        return plain(shaped_by=(number,))

    def is_there(self, lease: Any) -> bool:
        return is_alive(lease.resource.process.pid)


async def test_the_tools_of_a_real_server_work_for_agents_and_it_goes_with_its_last_run(manager: McpManager) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    spec = McpSpec(Command((sys.executable, "-m", "tests.mcp.stdio_program"), env=env, cwd=str(ROOT)), label="demo")
    host = ToolHost(ThreadPool("test", 2), SystemClock(), cache=ToolCache())
    runtime = Runtime()
    runtime.register(manager)
    seen: list[McpProcess] = []

    async def body(run: Run) -> list[Any]:
        server = (await manager.acquire(spec, run)).resource
        seen.append(server)
        tools = await server.tools(cache=True)
        box = Toolbox(tools)
        assert [tool.name for tool in box.specs] == ["add", "where", "fail", "hold"]
        assert {tool.server_name for tool in tools} == {"demo"}
        add, where, fail, _ = tools
        results = [await call_tool(add, '{"a": 1}', host), await call_tool(where, '{"x": 5}', host)]
        assert "Error executing tool fail" in (await call_tool(fail, "{}", host)).text
        return [result.output for result in results]

    one, two = runtime.start(body), runtime.start(body)
    assert await one == await two == [3, {"x": 5, "name": "here"}]
    assert seen[0].process.pid == seen[1].process.pid
    assert seen[0].process.is_gone
    with pytest.raises(McpConnectionError, match=r"demo is lost.*acquire it again"):
        await seen[0].call("add", {"a": 1})
    await runtime.aclose()


async def test_a_server_is_used_from_any_loop_and_one_cancelled_call_touches_no_other(manager: McpManager) -> None:
    server = await acquired(manager, plain())
    assert await asyncio.to_thread(asyncio.run, server.call("add", {"a": 1, "b": 2})) == "3"
    many = await asyncio.gather(*(server.call("add", {"a": n, "b": 1}) for n in range(30)))
    assert many == [str(n + 1) for n in range(30)]
    calls = [asyncio.create_task(server.call("add", {"a": n, "b": 1})) for n in range(10)]
    await asyncio.sleep(0)
    calls[3].cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in done].count(str) >= 9
    assert await server.call("add", {"a": 1, "b": 1}) == "2"


async def test_a_call_that_is_not_answered_is_given_up_and_told(manager: McpManager) -> None:
    server = await acquired(manager, plain(timeout=0.1))
    with pytest.raises(McpTimeoutError, match=r"hold of MCP server demo did not answer within 0\.1 s"):
        await server.call("hold", {})


async def test_a_server_that_crashes_in_a_call_fails_it_says_why_and_is_made_anew(manager: McpManager) -> None:
    first = await acquired(manager, plain())
    waiting = asyncio.create_task(first.call("crash", {}))
    with pytest.raises(McpConnectionError, match=r"demo is lost .*it said: out of cheese.*acquire it again"):
        await waiting
    await until(lambda: manager.inventory() == [])
    assert conversations(manager) == []
    again = await acquired(manager, plain())
    assert again is not first
    assert await again.call("add", {"a": 1, "b": 1}) == "2"


@pytest.mark.parametrize(
    ("how", "why"),
    [("flood", "a line of more than 1 MB"), ("junk", "1000 lines that are no messages"), ("stop_talking", "")],
)
async def test_a_server_that_stops_making_sense_is_ended_and_not_given_out_again(
    manager: McpManager, monkeypatch: pytest.MonkeyPatch, how: str, why: str
) -> None:
    monkeypatch.setattr("holdfast.mcp._stdio.LINE_BYTES", 1 << 20)
    server = await acquired(manager, plain())
    with pytest.raises(McpConnectionError, match=f"demo is lost.*{why}"):
        await server.call(how, {})
    await server.process.gone()
    assert (await acquired(manager, plain())) is not server


async def test_empty_lines_are_not_looked_at_one_by_one(manager: McpManager) -> None:
    looked_at: list[bytes] = []
    script = "import os; os.write(1, b'\\n' * 60000 + b' {}\\r\\n' + b' \\n' * 3 + b'{')"
    async with await manager._keeper.spawn(Command((PYTHON, "-I", "-S", "-c", script))) as process:
        incoming = Incoming(process, looked_at.append, lambda why: None)
        assert [message async for message in incoming] == [None]
    assert looked_at == [b"{}\r"]


async def test_half_a_character_does_not_keep_the_rest_from_being_sent(manager: McpManager) -> None:
    lease = await manager.acquire(plain(), Borrower())
    assert await lease.resource.call("add", {"a": "half \ud83d", "b": ", and more"}) == "half ?, and more"
    await lease.release()


async def test_chatter_and_a_flood_of_standard_error_do_no_harm(manager: McpManager) -> None:
    server = await acquired(manager, plain("chatty"))
    for _ in range(5):
        await server.call("chatter", {})
    assert await server.call("add", {"a": 1, "b": 1}) == "2"
    assert 0 < len(server.process.stderr_tail()) <= pipes.RING_BYTES


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("hang", r"demo started, but it does not speak MCP: it did not answer within 0\.3 s.*it said nothing"),
        ("junk", "demo started, but it does not speak MCP: .*no messages"),
        ("crash", "demo started, but it does not speak MCP: .*it said: out of cheese"),
    ],
)
async def test_s3_3_a_handshake_that_fails_leaves_nothing_and_says_why(manager: McpManager, how: str, why: str) -> None:
    seconds = 0.3 if how == "hang" else 30
    with pytest.raises(HandshakeError, match=why):
        await manager.acquire(plain(how, handshake_timeout=seconds), Borrower())
    assert manager.inventory() == []
    assert await manager.ledger.rows() == []
    assert [found for found in started_here() if "plain_server" in found.command] == []


@pytest.mark.parametrize("how", ["strict", "modern"])
async def test_servers_of_either_age_are_understood(manager: McpManager, how: str) -> None:
    server = await acquired(manager, plain(how))
    assert len(await server.tools()) > 5
    assert await server.call("add", {"a": 1, "b": 1}) == "2"


async def test_a_program_that_is_not_there_is_named(manager: McpManager) -> None:
    with pytest.raises(SpawnError, match="cannot start no-such-server: there is no such command"):
        await manager.acquire(McpSpec(Command(("no-such-server",))), Borrower())


async def test_the_end_of_its_input_lets_a_server_leave_by_itself(manager: McpManager, tmp_path: Path) -> None:
    lease = await manager.acquire(plain("", str(tmp_path / "note")), Borrower())
    await lease.release()
    assert (tmp_path / "note").read_text() == "left by itself"
    assert lease.resource.process.returncode == 0


async def test_one_that_will_not_leave_is_killed_with_all_it_started(manager: McpManager) -> None:
    lease = await manager.acquire(plain("clingy"), Borrower())
    pids = [use.pid for use in lease.resource.process.processes()]
    assert len(pids) == 2
    await lease.release()
    assert [pid for pid in pids if is_alive(pid)] == []


async def test_s3_5_one_that_is_killed_by_hand_leaves_no_row(manager: McpManager) -> None:
    server = await acquired(manager, plain())
    os.kill(server.process.pid, signal.SIGKILL)
    await server.process.gone()
    again = await acquired(manager, plain())
    assert [row.leader for row in await manager.ledger.rows()] == [again.process.leader]
    assert [(row.kind, row.name) for row in await manager.ledger.rows()] == [("mcp", "demo")]


async def test_our_secrets_are_not_passed_on(manager: McpManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "do-not-show")
    server = await acquired(manager, plain())
    seen = json.loads(await server.call("environment", {}))
    assert "API_KEY" not in seen
    assert seen["PATH"] == os.environ["PATH"]
    command = Command((PYTHON, "-I", "-S", str(PLAIN)), env={"TOKEN": "given"})
    given = await acquired(manager, McpSpec(command))
    assert json.loads(await given.call("environment", {}))["TOKEN"] == "given"


async def test_a_server_may_be_confined(manager: McpManager) -> None:
    need_a_sandbox()
    shown = Sandbox(readable=(PREFIX, str(PLAIN)))
    confined = McpSpec(Command((PYTHON, "-I", "-S", str(PLAIN)), sandbox=shown))
    server = await acquired(manager, confined)
    assert await server.call("pid", {}) == "2"
    assert (await acquired(manager, McpSpec(Command((PYTHON, "-I", "-S", str(PLAIN)))))) is not server
