"""MCP tools, from a real server in a process of its own."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import Run, Runtime
from holdfast.clock import SystemClock
from holdfast.errors import (
    McpCallError,
    McpConnectionError,
    McpTimeoutError,
    NotStorableError,
    SecretMissingError,
    UsageError,
    WrongLoopError,
)
from holdfast.mcp import McpServer
from holdfast.serde import decode, encode
from holdfast.threads import ThreadPool
from holdfast.tools import Toolbox, ToolCache, ToolHost, call_tool, dump_tool

PROGRAM = Path(__file__).with_name("server_program.py")


@contextmanager
def running(token: str = "") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), token], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as (address, _):
        yield address


@pytest.fixture
def host() -> Iterator[ToolHost]:
    threads = ThreadPool()
    yield ToolHost(threads, SystemClock(), ToolCache())
    threads.stop()


async def test_its_tools_are_listed_and_called_like_any_other(url: str, host: ToolHost) -> None:
    async with McpServer(url, name="demo") as server:
        tools = await server.tools()
        box = Toolbox(tools)
        assert [spec.name for spec in box.specs] == ["add", "where", "fail", "hold"]
        assert (box.specs[0].description, box.specs[0].parameters["required"]) == ("Adds two numbers.", ["a"])
        assert tools[0].server_name == "demo"
        added = await call_tool(tools[0], '{"a": 40}', host)
        assert (added.text, added.output) == ("42", 42)
        placed = await call_tool(tools[1], '{"x": 3}', host)
        assert (placed.text, placed.output) == ('{"x":3,"name":"here"}', {"x": 3, "name": "here"})


async def test_what_the_server_refuses_is_told_to_the_model(url: str, host: ToolHost) -> None:
    async with McpServer(url) as server:
        add, _, fail, _ = await server.tools()
        wrong = await call_tool(add, '{"a": "x"}', host)
        failed = await call_tool(fail, "{}", host)
        assert (wrong.outcome, failed.outcome) == ("error", "error")
        assert "valid integer" in wrong.text
        with pytest.raises(McpCallError, match="Unknown tool: nothing"):
            await server.call("nothing", {})
        assert (await call_tool(add, '{"a": 1}', host)).output == 3


async def test_settings_of_a_tool_hold_for_those_of_a_server(url: str, host: ToolHost) -> None:
    async with McpServer(url) as server:
        add = (await server.tools(cache=True, max_usage_count=1))[0]
        outcomes = [await call_tool(add, f'{{"a": {n}}}', host) for n in (1, 1, 2)]
    assert [(o.outcome, o.from_cache) for o in outcomes] == [("finished", False), ("finished", True), ("limit", False)]


async def test_an_answer_that_does_not_come_is_a_timeout_and_the_connection_lives_on(url: str) -> None:
    async with McpServer(url, name="demo", timeout=0.2) as server:
        with pytest.raises(McpTimeoutError, match=r"hold of MCP server demo did not answer within 0\.2 s"):
            await server.call("hold", {})
        server.timeout = 30
        assert await server.call("add", {"a": 1}) == 3


async def test_many_calls_at_once_share_a_connection(url: str) -> None:
    async with McpServer(url) as server:
        assert await asyncio.gather(*[server.call("add", {"a": n}) for n in range(50)]) == [n + 2 for n in range(50)]


async def test_a_cancelled_call_leaves_the_connection_as_it_was(url: str) -> None:
    async with McpServer(url) as server:
        holding = asyncio.create_task(server.call("hold", {}))
        assert await server.call("add", {"a": 1}) == 3
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
        assert await server.call("add", {"a": 2}) == 4


async def test_a_server_that_is_not_there_is_named_and_nothing_is_left() -> None:
    server = McpServer("http://127.0.0.1:1/mcp", name="demo")
    with pytest.raises(
        McpConnectionError, match=r"demo cannot be reached at http://127\.0\.0\.1:1/mcp: .*is up"
    ) as raised:
        await server.connect()
    assert raised.value.server == "demo"
    assert not server.is_connected


async def test_a_server_that_does_not_shake_hands_is_given_up_in_time() -> None:
    kept: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda reader, writer: kept.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    with pytest.raises(McpConnectionError, match=r"did not answer within 0\.2 s"):
        await McpServer(f"http://127.0.0.1:{port}/mcp", connect_timeout=0.2).connect()
    silent.close()
    for writer in kept:
        writer.close()
        await writer.wait_closed()


async def test_a_lost_connection_fails_the_call_in_flight_not_the_caller_and_can_be_made_again() -> None:
    with running() as (address, process):
        server = await McpServer(address, name="demo").connect()
        holding = asyncio.create_task(server.call("hold", {}))
        assert await server.call("add", {"a": 1}) == 3
        process.kill()
        process.wait()
        with pytest.raises(McpConnectionError, match="is lost"):
            await holding
        with pytest.raises(McpConnectionError, match=r"is lost.*call connect\(\) again"):
            await server.call("add", {"a": 1})
        with pytest.raises(McpConnectionError, match=r"is lost.*call connect\(\) again"):
            await server.call("add", {"a": 1})
    with pytest.raises(McpConnectionError, match="cannot be reached"):
        await server.connect()
    with running() as (address, _):
        server.url = address
        assert await (await server.connect()).call("add", {"a": 1}) == 3
        await server.aclose()
        await server.aclose()
    with pytest.raises(McpConnectionError, match="is not connected; call connect"):
        await server.call("add", {})


async def test_headers_reach_the_server_and_are_never_shown_or_stored() -> None:
    with running("do-not-show") as (address, _):
        with pytest.raises(McpConnectionError):
            await McpServer(address).connect()
        async with McpServer(address, name="demo", headers={"X-Token": "do-not-show"}) as server:
            assert await server.call("add", {"a": 1}) == 3
            stored = decode(encode(server.to_stored()))
            assert "do-not-show" not in repr(server) + repr(vars(server)) + str(stored)
    with pytest.raises(SecretMissingError, match=r"demo\.X-Token"):
        McpServer.from_stored(stored)
    restored = McpServer.from_stored(stored, {"X-Token": "do-not-show"})
    assert restored.to_stored() == stored


async def test_s1_9_its_tools_are_not_stored_but_listed_again(url: str) -> None:
    async with McpServer(url) as server:
        with pytest.raises(NotStorableError, match=r"\$\.tools\[0\]: cannot store a McpTool; store its server"):
            dump_tool((await server.tools())[0], "$.tools[0]")


def test_a_run_that_owns_it_closes_it_on_every_way_out(url: str, runtime: Runtime) -> None:
    seen: list[McpServer] = []

    async def body(run: Run) -> int:
        server = await McpServer(url, name="demo").connect()
        run.own(server)
        seen.append(server)
        assert [(h.kind, h.name) for h in run.inventory() if h.kind == "mcp"] == [("mcp", "demo")]
        found: int = await server.call("add", {"a": 1})
        if len(seen) > 1:
            raise ValueError("no")
        return found

    assert runtime.run(body) == 3
    with pytest.raises(Exception, match="no"):
        runtime.run(body)
    assert [server.is_connected for server in seen] == [False, False]


def test_another_loop_cannot_use_it(url: str) -> None:
    async def use(server: McpServer) -> None:
        await server.call("add", {"a": 1})

    async def main() -> None:
        async with McpServer(url) as server:
            with pytest.raises(WrongLoopError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, use(server))

    asyncio.run(main())


@pytest.mark.leaves_something
async def test_one_that_is_forgotten_warns(url: str) -> None:
    server = await McpServer(url, name="demo").connect()
    connection = server._connection
    assert connection is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del server
        gc.collect()
    assert any("unclosed <McpServer demo connected>" in str(warning.message) for warning in caught)
    await connection.aclose()


@pytest.mark.parametrize(("address", "words"), [("stdio:x", "http://"), ("http://u:p@x/mcp", "user or password")])
def test_an_address_that_cannot_be_is_refused(address: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        McpServer(address)
