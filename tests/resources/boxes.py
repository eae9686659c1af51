"""Commands in sandboxes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.errors import SandboxError
from holdfast.resources import Command, Keeper, KeptProcess, Sandbox
from holdfast.resources._bubblewrap import INSTALL, find_tool, prove

PYTHON = os.path.realpath(sys.executable)
PREFIX = os.path.realpath(sys.base_prefix)


def need_a_sandbox() -> None:
    """Skip a test where no sandbox can be had; the end of the session tells of it in red."""
    try:
        prove(find_tool("bwrap", INSTALL))
    except SandboxError as error:
        pytest.skip(f"NOT RUN: {error}")


def confined(script: str, *, env: Mapping[str, str] | None = None, cwd: str | None = None, **what: Any) -> Command:
    """A shell script in a sandbox, both outputs in one."""
    given = None if env is None else dict(env)
    return Command(("/bin/sh", "-c", script), env=given, cwd=cwd, stderr="stdout", grace=5.0, sandbox=Sandbox(**what))


def confined_python(code: str, **what: Any) -> Command:
    """A Python program in a sandbox that shows the interpreter."""
    shown = Sandbox(**({"readable": (PREFIX,)} | what))
    return Command((PYTHON, "-I", "-S", "-c", code), stderr="stdout", grace=5.0, sandbox=shown)


async def outcome(keeper: Keeper, command: Command) -> tuple[int, str]:
    """How it ended and what it said."""
    async with await keeper.spawn(command) as process:
        said = await everything(process)
        return await process.wait(), said


async def everything(process: KeptProcess) -> str:
    parts = []
    while part := await process.read():
        parts.append(part)
    return b"".join(parts).decode()
