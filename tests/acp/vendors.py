"""Agents of vendors, installed from their registry and pointed at the loopback model server. `make test-agents` runs this.

Each is asked to write a file, asks for permission, is cancelled in mid-answer and released; then nothing of it may be left.
Installed into `.cache/agents`, which git ignores.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from holdfast import Runtime
from holdfast.acp import AgentManager, AgentSpec, Permissions, SessionOptions
from holdfast.ports import HumanRequest
from holdfast.resources import Command
from holdfast.runs import Run
from holdfast.stores import MemoryLedger
from holdfast.testing import ModelServer, process_audit
from holdfast.testing._model_server_script import Answer, Gate, Received, ToolUse

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "agents"
TEXT = "written by the model\n"


class Vendor(Struct, frozen=True):
    """How to start one, and what its tool for writing files is called."""

    package: str
    command: tuple[str, ...]
    tool: str
    path_argument: str
    settings: Callable[[str, Path], dict[str, str]]
    """its environment, for a model server and a home of its own"""


def _opencode(url: str, home: Path) -> dict[str, str]:
    model = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"m": {}},
    }
    config = {
        "provider": {"loopback": model}, "enabled_providers": ["loopback"], "model": "loopback/m", "small_model": "loopback/m",
        "permission": {"edit": "ask"}, "autoupdate": False, "share": "disabled",
    }  # fmt: skip
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def _qwen(url: str, home: Path) -> dict[str, str]:
    settings = {"security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": False}}
    (home / ".qwen").mkdir()
    (home / ".qwen" / "settings.json").write_text(json.dumps(settings))
    return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "m"}


def _claude(url: str, home: Path) -> dict[str, str]:
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": url, **quiet}


VENDORS = {
    "claude": Vendor("@agentclientprotocol/claude-agent-acp", ("claude-agent-acp",), "Write", "file_path", _claude),
    "opencode": Vendor("opencode-ai", ("opencode", "acp"), "write", "filePath", _opencode),
    "qwen": Vendor("@qwen-code/qwen-code", ("qwen", "--acp"), "write_file", "file_path", _qwen),
}


def installed(name: str, vendor: Vendor) -> tuple[str, ...]:
    """Its command, installed now if it is not yet."""
    folder = CACHE / name
    program = folder / "node_modules" / ".bin" / vendor.command[0]
    if not program.exists():
        npm = shutil.which("npm") or pytest.skip("npm is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        subprocess.run([npm, "install", "--no-audit", "--no-fund", vendor.package], cwd=folder, check=True, timeout=600)
    return (str(program), *vendor.command[1:])


class Script:
    """A model that has a file written, says so, and later talks until it is stopped."""

    def __init__(self, vendor: Vendor, target: Path) -> None:
        self.vendor, self.target = vendor, target
        self.talking = Gate()

    def __call__(self, request: Received) -> Answer:
        last = json.dumps(request.messages[-1])
        if request.messages[-1].get("role") == "tool" or "tool_result" in last:
            return Answer("all ", "done")
        tools = [(tool.get("function") or tool).get("name") for tool in request.body.get("tools", ())]
        if self.vendor.tool not in tools:
            return Answer("a title")
        if "keep talking" in last:
            return Answer("one ", self.talking, "two")
        return Answer(
            "Writing. ", ToolUse(self.vendor.tool, {self.vendor.path_argument: str(self.target), "content": TEXT})
        )


class Person:
    """Says what the test says, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[HumanRequest] = []
        self.answer = "no"

    def request(self, request: HumanRequest) -> str:
        self.asked.append(request)
        return self.answer


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    with process_audit():
        yield


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", VENDORS)
async def test_a_vendors_agent_writes_with_permission_only_stops_when_told_and_leaves_nothing(
    name: str, tmp_path: Path, runtime: Runtime, capsys: pytest.CaptureFixture[str]
) -> None:
    vendor = VENDORS[name]
    command, target, person = installed(name, vendor), tmp_path / "work" / "out.txt", Person()
    target.parent.mkdir()
    figures: dict[str, Any] = {"agent": name}
    script = Script(vendor, target)
    agents = AgentManager(MemoryLedger())
    with ModelServer(script) as server:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path),
            **vendor.settings(server.url, tmp_path),
        }
        spec = AgentSpec(Command(command, env, str(tmp_path)), name)
        options = SessionOptions(cwd=str(target.parent), permissions=Permissions(otherwise="ask", human=person))

        async def body(run: Run) -> None:
            begun = time.monotonic()
            lease = await agents.acquire(spec, run)
            figures["handshake s"] = round(time.monotonic() - begun, 1)
            session = await lease.session(options)
            figures["session s"] = round(time.monotonic() - begun, 1)
            await session.prompt("Write the file.")
            assert (len(person.asked), target.exists()) == (1, False)
            person.answer = "yes"
            result = await session.prompt("Write the file, I mean it.")
            assert (result.stop_reason, target.read_text()) == ("end_turn", TEXT)
            assert result.text.endswith("all done")
            assert [tool.status for tool in result.tools] == ["completed"]
            figures["tree MB"] = round(agents.inventory()[0].memory_bytes / 1e6)
            figures["processes"] = len(agents.inventory()[0].processes)
            talking = asyncio.create_task(session.prompt("Now keep talking."))
            await script.talking.until_reached()
            begun = time.monotonic()
            await session.cancel()
            assert (await talking).stop_reason == "cancelled"
            figures["cancel s"] = round(time.monotonic() - begun, 2)
            begun = time.monotonic()
            await run.release(lease)
            figures["release s"] = round(time.monotonic() - begun, 2)

        try:
            await runtime.arun(body)
        finally:
            script.talking.open()
            await agents.release_all()
    with capsys.disabled():
        sys.stdout.write(f"\n{json.dumps(figures)}\n")
