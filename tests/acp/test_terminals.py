"""Terminals as an agent asks for them, message by message."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.acp.support import HERE, rogue, talk

from holdfast import Runtime
from holdfast.acp import AgentManager, AgentSession, AgentSpec, SessionOptions
from holdfast.acp._terminals import _whole
from holdfast.resources import Command, Sandbox


class Asker:
    """Has the agent of a session ask for something, and says what it was answered."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session

    async def __call__(self, method: str, **params: Any) -> Any:
        asked = {"method": f"terminal/{method}", "params": {"sessionId": "SESSION", **params}}
        text = (await self._session.prompt(f"request {json.dumps(asked)}")).text
        return json.loads(text) if text.startswith("{") else text


async def test_a_terminal_is_killed_and_still_tells_until_it_is_released(
    agents: AgentManager, runtime: Runtime, tmp_path: Path
) -> None:
    async def how(session: AgentSession) -> None:
        ask = Asker(session)
        made = await ask("create", command="echo one two; sleep 1000", outputByteLimit=4)
        terminal = made["terminalId"]
        while not (told := await ask("output", terminalId=terminal))["output"]:
            assert told == {"output": "", "truncated": False}
        assert told == {"output": "two\n", "truncated": True}
        assert [held.kind for held in agents.inventory()] == ["agent", "terminal"]
        assert await ask("kill", terminalId=terminal) == {}
        ended = await ask("wait_for_exit", terminalId=terminal)
        assert ended == {"signal": "15"}
        assert (await ask("output", terminalId=terminal))["exitStatus"] == ended
        assert await ask("release", terminalId=terminal) == {}
        assert await ask("output", terminalId=terminal) == f"there is no terminal {terminal}"
        assert [held.kind for held in agents.inventory()] == ["agent"]

    await talk(runtime, agents, rogue(terminals=True), how, SessionOptions(cwd=str(tmp_path)))


async def test_a_terminal_is_refused_outside_the_sessions_folders_and_for_a_command_that_is_not_there(
    agents: AgentManager, runtime: Runtime, tmp_path: Path
) -> None:
    async def how(session: AgentSession) -> list[str]:
        ask = Asker(session)
        return [await ask("create", command="id", cwd="/"), await ask("create", command="no-such-command")]

    outside, missing = await talk(runtime, agents, rogue(terminals=True), how, SessionOptions(cwd=str(tmp_path)))
    assert outside == "/ is outside the folders that this session may use"
    assert "there is no such command" in missing


async def test_only_so_many_terminals_are_open_at_once(agents: AgentManager, runtime: Runtime, tmp_path: Path) -> None:
    async def how(session: AgentSession) -> Any:
        ask = Asker(session)
        for _ in range(32):
            await ask("create", command="true")
        return await ask("create", command="true")

    refused = await talk(runtime, agents, rogue(terminals=True), how, SessionOptions(cwd=str(tmp_path)))
    assert refused == "32 terminals are open; release one first"


async def test_terminals_that_are_asked_for_at_once_are_counted_too(
    agents: AgentManager, runtime: Runtime, tmp_path: Path
) -> None:
    async def how(session: AgentSession) -> str:
        return (await session.prompt("terminals")).text

    assert await talk(runtime, agents, rogue(terminals=True), how, SessionOptions(cwd=str(tmp_path))) == "32"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_a_terminal_of_an_agent_in_a_sandbox_is_in_that_sandbox_too(
    agents: AgentManager, runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_SECRET", "told to nobody")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "work").mkdir()
    program = ("/usr/bin/python3", "-I", "-S", str(HERE / "rogue.py"))
    sandbox = Sandbox(readable=(str(HERE),), writable=(str(tmp_path / "work"),))
    spec = AgentSpec(Command(program, cwd=str(tmp_path / "work"), sandbox=sandbox), "confined", terminals=True)

    async def how(session: AgentSession) -> str:
        ask = Asker(session)
        made = await ask("create", command=f"cat {tmp_path}/secret; env; echo done > {tmp_path}/work/file")
        await ask("wait_for_exit", **made)
        output: str = (await ask("output", **made))["output"]
        return output

    said = await talk(runtime, agents, spec, how, SessionOptions(cwd=str(tmp_path / "work")))
    assert "No such file" in said
    assert "OUR_SECRET" not in said
    assert (tmp_path / "work" / "file").read_text() == "done\n"


def test_a_character_that_was_cut_in_two_is_left_out() -> None:
    assert [_whole("aé€".encode()[cut:]) for cut in range(6)] == ["aé€", "é€", "€", "€", "", ""]
